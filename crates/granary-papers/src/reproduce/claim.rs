//! [`Judged`]: a statement of the paper with its kind, its set and its scale, beside our number.

use super::verdict::{Class, How, Kind, NoResult, Ours, Paper, Stat, ratio};
use super::why::{Experiment, Why};

/// A statement beside our number.
#[derive(Clone, Debug)]
#[must_use = "a row that no list has is told nowhere"]
pub struct Judged {
    /// Its short name, which `--why` takes: the figure and a word for the statement.
    pub name: String,
    /// Figure, table or section, as `--figure` has it.
    pub figure: &'static str,
    /// Workloads that it is over.
    pub on: &'static str,
    /// The statement, in a few words.
    pub what: &'static str,
    /// The paper's word.
    pub paper: Paper,
    /// Whether it is a result, and how it is compared then.
    pub kind: Kind,
    /// Which number of the set it is.
    pub stat: Stat,
    /// The set where it is not what `on` names: sizes, workloads, file systems.
    pub set: &'static str,
    /// Whether it is the same at every scale.
    pub whole: bool,
    /// The scale of the runs.
    pub scale: f64,
    /// Our number; none where it does not follow from what was run.
    pub ours: Option<Ours>,
    /// Parts that a number of ours would need and that are not there.
    pub needs: &'static str,
    /// The experiment that shows why ours is another, if there is one.
    pub why: Why,
}

/// A statement of the paper, without a number of ours yet: an amount, unless it is told otherwise.
pub fn row(
    figure: &'static str,
    name: impl AsRef<str>,
    on: &'static str,
    what: &'static str,
    paper: Paper,
) -> Judged {
    Judged {
        name: format!("{figure}-{}", name.as_ref()),
        figure,
        on,
        what,
        paper,
        kind: Kind::Result(How::Amount),
        stat: Stat::One,
        set: "",
        whole: false,
        scale: 1.0,
        ours: None,
        needs: "",
        why: Why::NotExplained,
    }
}

/// How it is stated.
impl Judged {
    fn how(self, how: How) -> Judged {
        Judged { kind: Kind::Result(how), ..self }
    }

    fn no(self, what: NoResult) -> Judged {
        Judged { kind: Kind::NoResult(what), whole: true, ..self }
    }

    /// One thing over another.
    pub fn factor(self) -> Judged {
        self.how(How::Factor)
    }

    /// Percent or difference more.
    pub fn gain(self) -> Judged {
        self.how(How::Gain)
    }

    /// Percent less.
    pub fn saved(self) -> Judged {
        self.how(How::Saved)
    }

    /// A value of the testbed or of the workload.
    pub fn input(self) -> Judged {
        self.no(NoResult::Input)
    }

    /// A constant of the code.
    pub fn constant(self) -> Judged {
        self.no(NoResult::Constant)
    }

    /// Computed from inputs and constants.
    pub fn arithmetic(self) -> Judged {
        self.no(NoResult::Arithmetic)
    }

    /// A value of the testbed was chosen so that it comes out.
    pub fn calibrated(self) -> Judged {
        self.no(NoResult::Calibrated)
    }

    /// The same at every scale: of the drive alone, or counted.
    pub fn whole(self) -> Judged {
        Judged { whole: true, ..self }
    }

    /// Our number.
    pub fn ours(self, ours: Option<f64>) -> Judged {
        Judged { ours: ours.filter(|v| v.is_finite()).map(Ours::One), ..self }
    }

    /// Our number: this one of a set, of which every member is there.
    pub fn over(self, stat: Stat, set: &'static str, all: Option<Vec<f64>>) -> Judged {
        let all = all.filter(|all| all.iter().all(|v| v.is_finite()));
        Judged { stat, set, ours: all.and_then(|all| stat.of(&all)), ..self }
    }

    /// There is no number of ours, since this is not there.
    pub fn needs(self, what: &'static str) -> Judged {
        Judged { needs: what, ..self }
    }

    /// Why ours is another, as this experiment shows.
    pub fn because(self, experiment: &'static Experiment) -> Judged {
        Judged { why: Why::Experiment(experiment), ..self }
    }
}

impl Judged {
    /// Its class.
    pub fn class(&self) -> Class {
        match (self.kind, self.paper, self.ours) {
            (Kind::NoResult(what), ..) => Class::NotAResult(what),
            (_, Paper::Silent, _) => Class::OursAlone,
            (Kind::Result(_), _, None) => Class::NotRun,
            (Kind::Result(how), paper, Some(ours)) => Class::of(paper, how, ours),
        }
    }

    /// Ours over the paper's; of a saving, of what is left.
    pub fn ratio(&self) -> Option<f64> {
        let how = match self.kind {
            Kind::Result(how) => how,
            Kind::NoResult(_) => How::Amount,
        };
        ratio(self.paper, how, self.ours?)
    }

    /// The text of tables where ours is not the paper's: the experiment that shows why, or that none does.
    pub fn reason(&self) -> String {
        match (self.class(), self.why) {
            (Class::SameDirection { .. } | Class::Differs { .. }, Why::Experiment(e)) => {
                format!("--why {}: {}", self.name, e.says)
            }
            (Class::Differs { .. }, Why::NotExplained) => "not explained".to_owned(),
            // More and less have no size that could be explained.
            (Class::SameDirection { .. }, Why::NotExplained) => match self.paper {
                Paper::Above(_) | Paper::Below(_) => String::new(),
                _ => "not explained".to_owned(),
            },
            (Class::NotRun, _) if !self.needs.is_empty() => format!("needs {}", self.needs),
            _ => String::new(),
        }
    }

    /// The scale that its number has.
    pub fn scale_text(&self) -> String {
        if self.whole { "whole".to_owned() } else { self.scale.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_no_result_though_it_equals_the_paper_s() {
        let j =
            row("sizes", "inode", "objects", "inode, B", Paper::Number(840.0)).constant().ours(Some(840.0));
        assert_eq!(j.class(), Class::NotAResult(NoResult::Constant));
        let j = row("7", "gc", "F2FS", "gc, %", Paper::Silent).ours(Some(1.0));
        assert_eq!(j.class(), Class::OursAlone);
        assert_eq!((j.name.as_str(), j.ratio()), ("7-gc", None));
    }

    #[test]
    fn a_set_with_a_member_missing_gives_no_number() {
        let up_to =
            |all| row("6", "x", "all", "x/y, up to", Paper::Number(3.0)).factor().over(Stat::Most, "", all);
        assert_eq!(up_to(Some(vec![1.0, 3.1])).class(), Class::Measured);
        assert_eq!(up_to(None).class(), Class::NotRun);
        assert_eq!(up_to(Some(vec![1.0, f64::NAN])).class(), Class::NotRun);
    }

    #[test]
    fn without_an_experiment_a_difference_is_not_explained() {
        let j = row("6", "x", "all", "x/y", Paper::Number(3.0)).factor();
        assert_eq!(j.clone().ours(Some(0.5)).reason(), "not explained");
        assert_eq!(j.clone().ours(Some(1.5)).reason(), "not explained");
        assert_eq!(j.clone().ours(Some(3.0)).reason(), "");
        assert_eq!(j.clone().needs("YCSB").reason(), "needs YCSB");
        assert_eq!(Judged { paper: Paper::Above(1.0), ..j }.ours(Some(1.5)).reason(), "");
    }
}
