//! [`Judged`]: a statement of the paper beside our number.

/// The paper's statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Paper {
    /// A number.
    Number(f64),
    /// A range.
    Range(f64, f64),
    /// "Similar": about this.
    About(f64),
    /// More than this.
    Above(f64),
    /// Less than this.
    Below(f64),
    /// Nothing: the number is ours alone.
    Silent,
}

impl Paper {
    /// As the paper has it.
    pub fn text(self) -> String {
        let plain = |v: f64| format!("{v:.2}").trim_end_matches('0').trim_end_matches('.').to_owned();
        match self {
            Paper::Number(v) => plain(v),
            Paper::Range(a, b) => format!("{}-{}", plain(a), plain(b)),
            Paper::About(v) => format!("~{}", plain(v)),
            Paper::Above(v) => format!(">{}", plain(v)),
            Paper::Below(v) => format!("<{}", plain(v)),
            Paper::Silent => "-".to_owned(),
        }
    }

    /// The divisor of our number; none where the paper only says more or less.
    pub fn number(self) -> Option<f64> {
        match self {
            Paper::Number(v) | Paper::About(v) => Some(v),
            Paper::Range(a, b) => Some((a + b) / 2.0),
            Paper::Above(_) | Paper::Below(_) | Paper::Silent => None,
        }
    }

    /// Whether our number says the same. A factor must be on the same side of 1 (5 % apart from it). A number
    /// that is said to be similar must be within a quarter. A number within a range agrees with the range.
    /// All else must be within a factor of two.
    pub fn holds(self, ours: f64, factor: bool) -> bool {
        match self {
            Paper::Above(v) => ours > v,
            Paper::Below(v) => ours < v,
            Paper::About(v) => (0.75..=1.25).contains(&(ours / v)),
            Paper::Range(least, most) if (least..=most).contains(&ours) => true,
            // Nothing is nothing to the digits that are printed.
            Paper::Number(0.0) => ours.abs() < 0.005,
            _ => match self.number() {
                Some(v) if factor && v > 1.05 => ours > 1.05,
                Some(v) if factor && v < 0.95 => ours < 0.95,
                Some(v) => (0.5..=2.0).contains(&(ours / v)),
                None => false,
            },
        }
    }
}

/// A statement beside our number.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Figure, table or section, as `--figure` has it.
    pub figure: &'static str,
    /// Workloads that it is over.
    pub on: &'static str,
    /// The statement.
    pub what: &'static str,
    /// The paper's word.
    pub paper: Paper,
    /// Whether it is a factor between two things, of which the side of 1 is the statement.
    pub factor: bool,
    /// Our number; none where it does not follow from what was run.
    pub ours: Option<f64>,
    /// Why ours is missing or another.
    pub why: &'static str,
}

impl Judged {
    /// Ours over the paper's.
    pub fn ratio(&self) -> Option<f64> {
        let paper = self.paper.number().filter(|paper| *paper != 0.0)?;
        Some(self.ours? / paper)
    }

    /// Whether ours says the same; none where either says nothing.
    pub fn holds(&self) -> Option<bool> {
        let ours = self.ours.filter(|_| self.paper != Paper::Silent)?;
        Some(self.paper.holds(ours, self.factor))
    }

    /// Why they differ; nothing where ours is within a fifth of the paper's.
    pub fn reason(&self) -> &'static str {
        let near = self.ratio().is_some_and(|r| (0.8..=1.25).contains(&r));
        let same = self.ratio().is_none() && self.holds() == Some(true);
        if near || same { "" } else { self.why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_holds_on_its_side_of_one_and_a_share_within_a_factor_of_two() {
        let number = Paper::Number;
        assert!(
            number(6.0).holds(1.2, true) && !number(6.0).holds(1.0, true) && !number(6.0).holds(0.5, true)
        );
        assert!(number(35.0).holds(18.0, false) && !number(35.0).holds(17.0, false));
        assert!(Paper::About(1.0).holds(1.2, true) && !Paper::About(1.0).holds(1.3, true));
        assert!(Paper::Range(1.2, 1.5).holds(1.1, true) && Paper::Above(1.0).holds(1.01, true));
        assert!(Paper::Range(1.02, 1.56).holds(1.03, true) && !Paper::Range(1.02, 1.56).holds(1.0, true));
        assert!(number(0.0).holds(0.004, false) && !number(0.0).holds(0.01, false));
        assert_eq!((number(2.50).text(), Paper::Range(1.2, 1.5).text()), ("2.5".into(), "1.2-1.5".into()));
        assert_eq!((Paper::About(1.0).text(), Paper::Above(1.0).text()), ("~1".into(), ">1".into()));
    }
}
