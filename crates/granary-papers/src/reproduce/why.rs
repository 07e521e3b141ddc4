//! [`Why`]: a reason is an [`Experiment`] that shows it, or there is none.
//!
//! `granary reproduce PAPER --why ROW` makes the runs of a row twice: as the testbed has them, and with what
//! the experiment changes. Then it prints both numbers, and whether what must be seen is there.

use super::claim::Judged;
use super::verdict::{Class, Ours, Paper};

/// Why ours is another than the paper's.
#[derive(Clone, Copy, Debug)]
pub enum Why {
    /// No experiment of the project shows it.
    NotExplained,
    /// This one does.
    Experiment(&'static Experiment),
}

/// A change of the testbed under which a row comes nearer to the paper's.
#[derive(Debug)]
pub struct Experiment {
    /// The cause, in one sentence.
    pub says: &'static str,
    /// Figures whose runs the row needs.
    pub figures: &'static [&'static str],
    /// Of their workloads only these; none: all.
    pub workloads: &'static [&'static str],
    /// Of their file systems only these; none: all.
    pub file_systems: &'static [&'static str],
    /// Changes of the testbed.
    pub set: &'static [&'static str],
    /// The effect that must be seen.
    pub must: Must,
}

/// An effect that must be seen with the change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Must {
    /// The row turns to the paper's side.
    Turn,
    /// The paper's number lies between ours without the change and with it.
    Pass,
    /// At least this share of the distance to the paper's number goes, in powers.
    Close(f64),
}

/// The outcome of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Ours without the change.
    pub without: Option<Ours>,
    /// Ours with it.
    pub with: Option<Ours>,
    /// The part of the distance to the paper's number that went; none where the paper has no number.
    pub closed: Option<f64>,
    /// Whether what must be seen was seen; none where a number is missing.
    pub seen: Option<bool>,
}

/// How far a row is from the paper's number, in powers.
fn distance(j: &Judged) -> Option<f64> {
    match j.paper {
        Paper::Above(_) | Paper::Below(_) => None,
        _ => j.ratio().filter(|r| *r > 0.0).map(|r| r.ln().abs()),
    }
}

fn says_it(j: &Judged) -> bool {
    matches!(j.class(), Class::Measured | Class::SameDirection { .. })
}

/// On both sides of the paper's number, or at it.
fn passes(without: &Judged, with: &Judged) -> bool {
    let ratios = without.ratio().zip(with.ratio());
    ratios.is_some_and(|(a, b)| (a - 1.0) * (b - 1.0) <= 0.0)
}

impl Experiment {
    /// Compares a row without the change and with it.
    pub fn shown(&self, without: &Judged, with: &Judged) -> Shown {
        let gone = |(before, after): (f64, f64)| (before > 0.0).then(|| 1.0 - after / before);
        let closed = distance(without).zip(distance(with)).and_then(gone);
        let both = without.ours.is_some() && with.ours.is_some();
        let seen = both.then(|| match self.must {
            Must::Turn => !says_it(without) && says_it(with),
            Must::Pass => passes(without, with),
            Must::Close(share) => closed.is_some_and(|closed| closed >= share),
        });
        Shown { without: without.ours, with: with.ours, closed, seen }
    }
}

impl Must {
    /// In words.
    pub fn text(self) -> String {
        match self {
            Must::Turn => "the row turns to the paper's side".to_owned(),
            Must::Pass => "the paper's number lies between ours and ours with it".to_owned(),
            Must::Close(share) => {
                format!("at least {:.0} % of the distance to the paper's number goes", 100.0 * share)
            }
        }
    }
}

impl Shown {
    /// The outcome as text.
    pub fn text(&self, row: &Judged, experiment: &Experiment) -> String {
        let number = |n: Option<Ours>| n.map_or_else(|| "-".to_owned(), |n| n.text(2));
        let closed = self
            .closed
            .filter(|c| *c > 0.0)
            .map_or_else(String::new, |c| format!(", {:.0} % of the distance", 100.0 * c));
        let seen = match self.seen {
            Some(true) => "seen",
            Some(false) => "NOT seen: at this scale the reason does not hold",
            None => "no answer: a run is missing",
        };
        format!(
            "{}: {}, {}\n  says        {}\n  changes     {}\n  must        {}\n  paper       {}\n  ours        {}\n  with it     {}{closed}\n  {seen}\n",
            row.name,
            row.on,
            row.what,
            experiment.says,
            experiment.set.join(", "),
            experiment.must.text(),
            row.paper.text(),
            number(self.without),
            number(self.with),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::claim::row;

    const E: Experiment = Experiment {
        says: "",
        figures: &[],
        workloads: &[],
        file_systems: &[],
        set: &[],
        must: Must::Close(0.5),
    };

    #[test]
    fn half_of_the_distance_is_the_root_of_the_ratio() {
        let of = |ours| row("6", "x", "all", "x/y", Paper::Number(8.0)).factor().ours(ours);
        let shown = E.shown(&of(Some(2.0)), &of(Some(4.1)));
        assert!(
            shown.closed.is_some_and(|c| (c - 0.52).abs() < 0.01) && shown.seen == Some(true),
            "{shown:?}"
        );
        assert_eq!(E.shown(&of(Some(2.0)), &of(Some(3.9))).seen, Some(false));
        assert_eq!(E.shown(&of(Some(2.0)), &of(Some(1.0))).seen, Some(false), "further off");
        assert_eq!(E.shown(&of(Some(2.0)), &of(None)).seen, None);
    }

    #[test]
    fn a_choice_passes_the_paper_s_number_where_ours_lie_on_both_sides_of_it() {
        let pass = Experiment { must: Must::Pass, ..E };
        let of = |ours| row("6", "x", "all", "x/y", Paper::Number(2.0)).factor().ours(Some(ours));
        assert_eq!(pass.shown(&of(2.5), &of(1.1)).seen, Some(true));
        assert_eq!(pass.shown(&of(2.5), &of(2.1)).seen, Some(false), "nearer, but not beyond");
    }

    #[test]
    fn a_row_turns_only_from_the_other_side() {
        let turn = Experiment { must: Must::Turn, ..E };
        let of = |ours| row("6", "x", "all", "x/y", Paper::Above(1.0)).factor().ours(Some(ours));
        assert_eq!(turn.shown(&of(0.8), &of(1.1)).seen, Some(true));
        assert_eq!(turn.shown(&of(1.05), &of(1.1)).seen, Some(false), "it was there before");
        assert_eq!(turn.shown(&of(0.8), &of(0.9)).seen, Some(false));
    }
}
