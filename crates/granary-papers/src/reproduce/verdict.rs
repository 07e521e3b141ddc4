//! Verdicts: the class of a statement, from the paper's number and ours.
//!
//! ```text
//!   measured         ours/paper is 0.75 to 1.25, on the paper's side of 1;
//!                    of a range: our least and our most both lie in it
//!   same direction   the same side of 1 (factors) or the same sign (gains, savings), another size;
//!                    of "more than" and "less than" it is the best that there is
//!   differs          all else
//!   not run          a result that no run here gives
//!   not a result     an input, a constant, arithmetic, a calibrated value: nothing that could come out
//!                    otherwise
//! ```
//!
//! An amount (a share, a time, a count) has no direction: beyond a quarter it differs. Of a saving, what is
//! *left* is compared: 65 % less where the paper has 96 % less leaves 8.7 times as much.

mod ours;
mod paper;

pub use ours::{Ours, Stat};
pub use paper::Paper;

/// How far ours/paper may be from 1 in a number that is measured.
const NEAR: f64 = 0.25;

/// The kind of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A result of runs, compared in this way.
    Result(How),
    /// No result.
    NoResult(NoResult),
}

/// How a result is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// One thing over another: the side of 1 is its direction.
    Factor,
    /// Percent or difference more: the sign is its direction.
    Gain,
    /// Percent less: what is left is compared, the sign is its direction.
    Saved,
    /// An amount: it has no direction.
    Amount,
}

/// Kinds of statements that no run gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoResult {
    /// A value of the testbed or of the workload.
    Input,
    /// A constant of the code.
    Constant,
    /// Computed from inputs and constants.
    Arithmetic,
    /// A value of the testbed was chosen so that it comes out.
    Calibrated,
}

impl NoResult {
    /// All of them.
    pub const ALL: [NoResult; 4] =
        [NoResult::Input, NoResult::Constant, NoResult::Arithmetic, NoResult::Calibrated];

    /// Its word in reports.
    pub fn word(self) -> &'static str {
        match self {
            NoResult::Input => "input",
            NoResult::Constant => "constant",
            NoResult::Arithmetic => "arithmetic",
            NoResult::Calibrated => "calibrated",
        }
    }
}

/// The class of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Class {
    /// Ours is the paper's.
    Measured,
    /// Ours says the same of another size.
    SameDirection {
        /// Ours over the paper's, if the paper has a number.
        factor: Option<f64>,
    },
    /// Ours says something else.
    Differs {
        /// Ours over the paper's, if the paper has a number.
        factor: Option<f64>,
    },
    /// There is no number of ours.
    NotRun,
    /// Nothing that a run gives.
    NotAResult(NoResult),
    /// The paper states nothing: the number is ours alone.
    OursAlone,
}

impl Class {
    /// Its word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Class::Measured => "measured",
            Class::SameDirection { .. } => "same direction",
            Class::Differs { .. } => "differs",
            Class::NotRun => "not run",
            Class::NotAResult(what) => what.word(),
            Class::OursAlone => "ours alone",
        }
    }

    /// The class of our number beside the paper's.
    pub fn of(paper: Paper, how: How, ours: Ours) -> Class {
        let factor = ratio(paper, how, ours);
        let (least, most) = ours.ends();
        let (measured, same) = match paper {
            Paper::Silent => return Class::OursAlone,
            Paper::Above(bound) => (false, least > bound),
            Paper::Below(bound) => (false, most < bound),
            Paper::About(v) => (near(how, v, least) && near(how, v, most), false),
            Paper::Number(v) => {
                let near = near(how, v, least) && near(how, v, most);
                let side = how.side(v, least) && how.side(v, most);
                (near && (side || !how.directed(v)), side)
            }
            Paper::Range(a, b) => {
                // One number does not say a range, wherever it lies.
                let range = matches!(ours, Ours::Span(..));
                let side = how.side(a, least) && how.side(b, most);
                let (in_it, reaches_it) = (least >= a && most <= b, least <= b && most >= a);
                (range && in_it, side || (in_it && reaches_it))
            }
        };
        match (measured, same) {
            (true, _) => Class::Measured,
            (false, true) => Class::SameDirection { factor },
            (false, false) => Class::Differs { factor },
        }
    }
}

impl How {
    /// The part of a number that is compared.
    fn compared(self, v: f64) -> f64 {
        if self == How::Saved { 100.0 - v } else { v }
    }

    /// Whether the paper's number has a direction.
    fn directed(self, paper: f64) -> bool {
        match self {
            How::Factor => paper != 1.0,
            How::Gain | How::Saved => paper != 0.0,
            How::Amount => false,
        }
    }

    /// Whether our number has the paper's direction.
    fn side(self, paper: f64, ours: f64) -> bool {
        let same = |middle: f64| (paper > middle && ours > middle) || (paper < middle && ours < middle);
        match self {
            How::Factor => same(1.0),
            How::Gain | How::Saved => same(0.0),
            How::Amount => false,
        }
    }
}

/// Ours over the paper's, of what is compared.
fn over(how: How, paper: f64, ours: f64) -> Option<f64> {
    let (paper, ours) = (how.compared(paper), how.compared(ours));
    (paper != 0.0).then(|| ours / paper)
}

fn near(how: How, paper: f64, ours: f64) -> bool {
    match over(how, paper, ours) {
        Some(ratio) => (1.0 - NEAR..=1.0 + NEAR).contains(&ratio),
        // Nothing is nothing to the digits that are printed.
        None => how.compared(ours).abs() < 0.005,
    }
}

/// Ours over the paper's: of a saving what is left, of a range the end that is further off. None where the
/// paper's is nothing.
pub fn ratio(paper: Paper, how: How, ours: Ours) -> Option<f64> {
    let (least, most) = ours.ends();
    let (a, b) = match paper {
        Paper::Number(v) | Paper::About(v) | Paper::Above(v) | Paper::Below(v) => (v, v),
        // One number says nothing of the two ends.
        Paper::Range(..) if matches!(ours, Ours::One(_)) => return None,
        Paper::Range(a, b) => (a, b),
        Paper::Silent => return None,
    };
    let off = |ratio: f64| if ratio > 0.0 { ratio.ln().abs() } else { f64::INFINITY };
    let (first, last) = (over(how, a, least)?, over(how, b, most)?);
    Some(if off(first) >= off(last) { first } else { last })
}

#[cfg(test)]
mod tests;
