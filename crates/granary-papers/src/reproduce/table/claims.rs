//! The statements as tables: results with their classes, what is no result apart, one line that counts.

use crate::reproduce::claim::Judged;
use crate::reproduce::verdict::{Class, Kind, NoResult, Ours};
use comfy_table::{Cell, ContentArrangement, Table};
use granary_bench::columns::{grid, right};

/// As wide as tables are.
const WIDTH: u16 = 118;

pub(super) fn number(v: Option<Ours>) -> String {
    v.map_or_else(|| "-".to_owned(), |v| v.text(2))
}

fn table(header: &[&str]) -> Table {
    let mut t = grid(header.iter().map(|&h| h.to_owned()).collect());
    t.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    t
}

/// Reasons that several rows share stand once, below the table.
#[derive(Default)]
struct Reasons(Vec<String>);

impl Reasons {
    fn cell(&mut self, reason: String) -> String {
        // The two words are short enough for the cell itself.
        if reason.is_empty() || reason == "not explained" {
            return reason;
        }
        let known = self.0.iter().position(|r| *r == reason);
        let n = known.unwrap_or_else(|| {
            self.0.push(reason);
            self.0.len() - 1
        });
        format!("({})", n + 1)
    }

    fn text(&self) -> String {
        self.0.iter().enumerate().map(|(i, why)| format!("({}) {why}\n", i + 1)).collect()
    }
}

/// Results beside the paper's with their classes; what is no result in a table of its own; the summary.
pub fn claims_table(judged: &[Judged]) -> String {
    let (results, others): (Vec<&Judged>, Vec<&Judged>) =
        judged.iter().partition(|j| matches!(j.kind, Kind::Result(_)));
    let mut t = table(&["figure", "on", "what", "paper", "ours", "ours/paper", "class", "why"]);
    let mut reasons = Reasons::default();
    for j in &results {
        let ratio = j.ratio().map_or_else(|| "-".to_owned(), |r| format!("{r:.2}"));
        t.add_row([
            Cell::new(j.figure),
            Cell::new(j.on),
            Cell::new(j.what),
            right(j.paper.text()),
            right(number(j.ours)),
            right(ratio),
            Cell::new(j.class().word()),
            Cell::new(reasons.cell(j.reason())),
        ]);
    }
    let mut out = String::new();
    if !results.is_empty() {
        out += &format!("{t}\nours/paper: of savings what is left; of ranges the end that is further off\n");
    }
    if !others.is_empty() {
        let mut t = table(&["figure", "on", "what", "paper", "ours", "kind"]);
        for j in &others {
            t.add_row([
                Cell::new(j.figure),
                Cell::new(j.on),
                Cell::new(j.what),
                right(j.paper.text()),
                right(number(j.ours)),
                Cell::new(j.class().word()),
            ]);
        }
        out += &format!("\nNo results: nothing that a run could give otherwise\n{t}\n");
    }
    format!("{out}\n{}\n\n{}", summary(judged), reasons.text())
}

/// How many statements have each class; what is no result is counted apart.
pub fn summary(judged: &[Judged]) -> String {
    let count = |of: &dyn Fn(Class) -> bool| judged.iter().filter(|j| of(j.class())).count();
    let mut out = format!(
        "{} measured, {} same direction, {} differ, {} not run",
        count(&|c| c == Class::Measured),
        count(&|c| matches!(c, Class::SameDirection { .. })),
        count(&|c| matches!(c, Class::Differs { .. })),
        count(&|c| c == Class::NotRun),
    );
    let kinds = NoResult::ALL.map(|kind| count(&|c| c == Class::NotAResult(kind)));
    let all: usize = kinds.iter().sum();
    if all > 0 {
        let [inputs, constants, arithmetic, calibrated] = kinds;
        out += &format!(
            "\n{all} are no results: {inputs} inputs, {constants} constants, {arithmetic} arithmetic, {calibrated} calibrated"
        );
    }
    match count(&|c| c == Class::OursAlone) {
        0 => out,
        own => format!("{out}\n{own} numbers are ours alone: the paper states none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::claim::row;
    use crate::reproduce::verdict::Paper;
    use crate::reproduce::why::{Experiment, Must};

    static E: Experiment = Experiment {
        says: "the trap decides",
        figures: &[],
        workloads: &[],
        file_systems: &[],
        set: &[],
        must: Must::Turn,
    };

    #[test]
    fn results_are_counted_by_class_and_the_rest_apart() {
        let of = |name| row("6", name, "create", "throughput a/b", Paper::Number(6.0)).factor();
        let judged = [
            of("near").ours(Some(5.9)),
            of("small").ours(Some(1.5)).because(&E),
            of("other").ours(Some(0.5)),
            of("none").needs("YCSB"),
            row("sizes", "inode", "objects", "inode, B", Paper::Number(840.0)).constant().ours(Some(840.0)),
            row("sizes", "cores", "platform", "cores", Paper::Number(4.0)).input().ours(Some(4.0)),
            row("7", "gc", "F2FS", "gc, %", Paper::Silent).ours(Some(3.0)),
        ];
        let text = claims_table(&judged);
        let (results, others) = text.split_once("No results").expect("a table of its own");
        assert!(!results.contains("inode, B") && others.contains("inode, B"), "{text}");
        assert!(text.contains("\n1 measured, 1 same direction, 1 differ, 1 not run\n"), "{text}");
        let apart =
            "2 are no results: 1 inputs, 1 constants, 0 arithmetic, 0 calibrated\n1 numbers are ours alone";
        assert!(text.contains(apart), "{text}");
        assert!(text.contains("(1) --why 6-small: the trap decides\n(2) needs YCSB\n"), "{text}");
        assert_eq!(results.matches("not explained").count(), 1, "{text}");
    }
}
