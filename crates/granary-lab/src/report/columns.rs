//! [`Columns`]: a table whose columns are shared out to several tables where one would be wider than the screen.
//!
//! ```text
//!   label │ bytefs │ ext4 │ f2fs │ ext4/bytefs │ f2fs/bytefs       as wide as the screen, or
//!
//!   label │ bytefs │ ext4           label │ f2fs            label │ ext4/bytefs │ f2fs/bytefs
//! ```
//!
//! Columns of one group (values, ratios) stand together. Labels are repeated, and cut where they would take more than half
//! of the width.
//!
//! Invariant: no line is wider than asked, but for a single column that is.

use super::table::grid;
use comfy_table::{Cell, CellAlignment};

/// What the tables are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Characters of a line.
    pub width: usize,
    /// All that is known of latencies, not only mean and 99th percentile.
    pub latencies: bool,
}

impl Default for View {
    /// What is no terminal has the width of a wide one.
    fn default() -> View {
        View { width: 120, latencies: false }
    }
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    head: String,
    cells: Vec<String>,
    left: bool,
}

impl Column {
    /// Of numbers.
    pub fn new(head: impl Into<String>, cells: Vec<String>) -> Column {
        Column { head: head.into(), cells, left: false }
    }

    /// Of words.
    pub fn words(head: impl Into<String>, cells: Vec<String>) -> Column {
        Column { left: true, ..Column::new(head, cells) }
    }

    fn width(&self) -> usize {
        let of = |text: &String| text.chars().count();
        // A blank on both sides, and the line behind.
        self.cells.iter().chain([&self.head]).map(of).max().unwrap_or(0) + 3
    }

    fn cut(&self, most: usize) -> Column {
        let cut = |text: &String| match text.chars().count() > most {
            true => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
            false => text.clone(),
        };
        Column { head: cut(&self.head), cells: self.cells.iter().map(cut).collect(), left: self.left }
    }
}

/// The tables of `labels` and `groups`, each line with its end.
pub(crate) fn tables(view: View, labels: &[Column], groups: &[Vec<Column>]) -> String {
    let labels: Vec<Column> = labels
        .iter()
        .map(|c| c.cut((view.width / 2).saturating_sub(3).max(8) / labels.len().max(1)))
        .collect();
    let beside: usize = 1 + labels.iter().map(Column::width).sum::<usize>();
    let all: Vec<&Column> = groups.iter().flatten().collect();
    let width = |columns: &[&Column]| beside + columns.iter().map(|c| c.width()).sum::<usize>();
    if width(&all) <= view.width {
        return one(&labels, &all);
    }
    let mut out = Vec::new();
    for group in groups {
        let mut some: Vec<&Column> = Vec::new();
        for column in group {
            if !some.is_empty() && width(&some) + column.width() > view.width {
                out.push(one(&labels, &std::mem::take(&mut some)));
            }
            some.push(column);
        }
        if !some.is_empty() {
            out.push(one(&labels, &some));
        }
    }
    out.concat()
}

fn one(labels: &[Column], columns: &[&Column]) -> String {
    let all: Vec<&Column> = labels.iter().chain(columns.iter().copied()).collect();
    let mut t = grid(all.iter().map(|c| c.head.clone()).collect());
    for row in 0..all.iter().map(|c| c.cells.len()).max().unwrap_or(0) {
        t.add_row(all.iter().map(|c| {
            let text = c.cells.get(row).cloned().unwrap_or_default();
            let side = if c.left { CellAlignment::Left } else { CellAlignment::Right };
            Cell::new(text).set_alignment(side)
        }));
    }
    format!("{t}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widest(text: &str) -> usize {
        text.lines().map(|l| l.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn no_line_is_wider_than_asked_and_no_column_is_lost() {
        let of =
            |n: usize| Column::new(format!("column-{n}"), vec![format!("{n}{n}{n}"), "1,234,567".into()]);
        let labels =
            [Column::words("", vec!["a label of many words, longer than others".into(), "b".into()])];
        let groups: Vec<Vec<Column>> = vec![(0..7).map(of).collect(), (7..11).map(of).collect()];
        for width in [40, 60, 80, 120, 400] {
            let text = tables(View { width, ..View::default() }, &labels, &groups);
            assert!(widest(&text) <= width, "{width}:\n{text}");
            for n in 0..11 {
                assert_eq!(text.matches(&format!("column-{n} ")).count(), 1, "{n}:\n{text}");
            }
        }
        let wide = tables(View { width: 400, ..View::default() }, &labels, &groups);
        assert_eq!(wide.lines().filter(|l| l.starts_with('┌')).count(), 1, "one table");
    }
}
