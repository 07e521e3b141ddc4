//! [`Paper`]: a statement as the paper has it.

/// The statement of a paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Paper {
    /// A number.
    Number(f64),
    /// A range: the least and the most of a set.
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
        match self {
            Paper::Number(v) => plain(v),
            Paper::Range(a, b) => format!("{}-{}", plain(a), plain(b)),
            Paper::About(v) => format!("~{}", plain(v)),
            Paper::Above(v) => format!(">{}", plain(v)),
            Paper::Below(v) => format!("<{}", plain(v)),
            Paper::Silent => "-".to_owned(),
        }
    }
}

/// Two digits after the point at most.
fn plain(v: f64) -> String {
    format!("{v:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}
