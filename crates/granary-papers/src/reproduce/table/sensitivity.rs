//! The rows that each choice of the testbed moves.

use super::claims::number;
use crate::reproduce::claim::Judged;
use crate::reproduce::study::Choice;
use crate::reproduce::verdict::{Class, Kind};
use comfy_table::Cell;
use granary_bench::columns::{grid, right};

/// Each result with a number under each column.
pub fn sensitivity_table(columns: &[(String, Vec<Judged>)]) -> String {
    let mut header: Vec<String> = ["figure", "on", "what", "paper"].map(str::to_owned).to_vec();
    header.extend(columns.iter().map(|(name, _)| name.clone()));
    let mut t = grid(header);
    for (i, first) in columns.first().map_or(&[][..], |(_, judged)| judged).iter().enumerate() {
        let nothing = columns.iter().all(|(_, judged)| judged[i].ours.is_none());
        if nothing || matches!(first.kind, Kind::NoResult(_)) {
            continue;
        }
        let mut cells = vec![
            Cell::new(first.figure),
            Cell::new(first.on),
            Cell::new(first.what),
            right(first.paper.text()),
        ];
        cells.extend(columns.iter().map(|(_, judged)| {
            let j = &judged[i];
            let mark = match j.class() {
                Class::Measured => " =",
                Class::Differs { .. } => " x",
                _ => "",
            };
            right(format!("{}{mark}", number(j.ours)))
        }));
        t.add_row(cells);
    }
    format!("{t}\n=: measured   x: differs   without a mark: the same direction, another size\n")
}

/// Each choice with its changes and its reason.
pub fn choices_text(choices: &[Choice]) -> String {
    choices.iter().map(|c| format!("{}: {} ({})\n", c.name, c.set.join(", "), c.reason)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::claim::row;
    use crate::reproduce::verdict::Paper;

    #[test]
    fn a_column_marks_what_is_measured_and_what_differs() {
        let of = |ours| row("6", "x", "create", "throughput a/b", Paper::Number(6.0)).factor().ours(ours);
        let input = row("6", "i", "an input", "B", Paper::Number(1.0)).input().ours(Some(1.0));
        let columns = [
            ("a".to_owned(), vec![of(Some(5.9)), of(None), input.clone()]),
            ("b".to_owned(), vec![of(Some(0.5)), of(None), input.clone()]),
            ("c".to_owned(), vec![of(Some(1.5)), of(None), input]),
        ];
        let text = sensitivity_table(&columns);
        assert!(text.contains("5.90 =") && text.contains("0.50 x") && text.contains("1.50 "), "{text}");
        assert!(text.matches("create").count() == 1 && !text.contains("an input"), "{text}");
    }
}
