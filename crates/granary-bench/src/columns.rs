//! A table whose columns are shared out to several tables where one would be wider than the
//! screen.
//!
//! ```text
//!   label │ bytefs │ ext4 │ f2fs │ ext4/bytefs │ f2fs/bytefs       as wide as the screen, or
//!
//!   label │ bytefs │ ext4           label │ f2fs            label │ ext4/bytefs │ f2fs/bytefs
//! ```
//!
//! Columns of one group (values, ratios) stand together. Labels are repeated, and cut where they would take
//! more than half of the width.
//!
//! Invariant: no line is wider than asked, but for a single column that is.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// Target of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Characters of a line.
    pub width: usize,
    /// All that is known of latencies, not only mean and 99th percentile.
    pub latencies: bool,
}

impl Default for View {
    /// The width of a wide terminal, for output that is no terminal.
    fn default() -> View {
        View { width: 120, latencies: false }
    }
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
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
pub fn tables(view: View, labels: &[Column], groups: &[Vec<Column>]) -> String {
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

/// An empty table.
pub fn grid(header: Vec<String>) -> Table {
    let mut t = Table::new();
    t.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    t.set_header(header);
    t
}

/// A cell of a number.
pub fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// A unit of time in which the numbers of a row are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nano,
    /// Microseconds.
    Micro,
    /// Milliseconds.
    Milli,
    /// Seconds.
    Second,
}

impl Unit {
    /// The largest in which so many nanoseconds are at least 1.
    pub fn of(ns: u64) -> Unit {
        match ns {
            0..1_000 => Unit::Nano,
            1_000..1_000_000 => Unit::Micro,
            1_000_000..1_000_000_000 => Unit::Milli,
            _ => Unit::Second,
        }
    }

    /// Its name behind a number.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nano => "ns",
            Unit::Micro => "us",
            Unit::Milli => "ms",
            Unit::Second => "s",
        }
    }

    /// The number alone.
    pub fn show(self, ns: u64) -> String {
        let tenths = match self {
            Unit::Nano => return group(ns),
            Unit::Micro => (ns + 50) / 100,
            Unit::Milli => (ns + 50_000) / 100_000,
            Unit::Second => (ns + 50_000_000) / 100_000_000,
        };
        format!("{}.{}", group(tenths / 10), tenths % 10)
    }
}

/// 1234567 as 1,234,567.
pub fn group(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
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

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 999, 1000, 1234567].map(group), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_row_has_one_unit() {
        assert_eq!(
            [0, 999, 1_000, 1_000_000, 1_000_000_000].map(|ns| Unit::of(ns).name()),
            ["ns", "ns", "us", "ms", "s"]
        );
        assert_eq!(Unit::Micro.show(108_849), "108.8");
        assert_eq!(Unit::Micro.show(12_345_678), "12,345.7");
        assert_eq!(
            (Unit::Nano.show(1234), Unit::Second.show(59_960_000_000)),
            ("1,234".to_owned(), "60.0".to_owned())
        );
    }
}
