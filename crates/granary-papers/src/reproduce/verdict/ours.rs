//! [`Ours`]: our number for a statement; [`Stat`]: which number of a set it is.

/// Our number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ours {
    /// One number.
    One(f64),
    /// The least and the most of a set.
    Span(f64, f64),
}

impl Ours {
    /// Its two ends; of one number both are that number.
    pub fn ends(self) -> (f64, f64) {
        match self {
            Ours::One(v) => (v, v),
            Ours::Span(least, most) => (least, most),
        }
    }

    /// Every number that is part of it changed in the same way.
    #[must_use]
    pub fn map(self, of: impl Fn(f64) -> f64) -> Ours {
        match self {
            Ours::One(v) => Ours::One(of(v)),
            Ours::Span(least, most) => Ours::Span(of(least), of(most)),
        }
    }

    /// With so many digits after the point.
    pub fn text(self, digits: usize) -> String {
        match self {
            Ours::One(v) => format!("{v:.digits$}"),
            Ours::Span(least, most) => format!("{least:.digits$}-{most:.digits$}"),
        }
    }
}

/// Which number of a set the paper states. Ours is the same number of the same set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stat {
    /// The one that there is.
    One,
    /// "Up to".
    Most,
    /// "At least".
    Least,
    /// On average.
    Mean,
    /// Both ends: a range.
    Ends,
}

impl Stat {
    /// Its word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Stat::One => "one",
            Stat::Most => "most",
            Stat::Least => "least",
            Stat::Mean => "mean",
            Stat::Ends => "least and most",
        }
    }

    /// This number of all members of a set; none where the set is empty.
    pub fn of(self, all: &[f64]) -> Option<Ours> {
        let least = all.iter().copied().reduce(f64::min)?;
        let most = all.iter().copied().reduce(f64::max)?;
        match self {
            Stat::One => all.first().filter(|_| all.len() == 1).map(|v| Ours::One(*v)),
            Stat::Most => Some(Ours::One(most)),
            Stat::Least => Some(Ours::One(least)),
            Stat::Mean => Some(Ours::One(all.iter().sum::<f64>() / all.len() as f64)),
            Stat::Ends => Some(Ours::Span(least, most)),
        }
    }
}
