//! [`Mistakes`]: all mistakes of a job file, at once: nobody wants to mend a file one line a run.

use std::fmt;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line, from 1.
    pub line: usize,
    /// The mistake and the remedy.
    pub message: String,
}

/// Mistakes of a job file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    file: String,
    all: Vec<Mistake>,
}

impl Mistakes {
    /// Of `file`; at least one.
    pub fn new(file: &str, mut all: Vec<Mistake>) -> Mistakes {
        all.sort_by_key(|m| m.line);
        Mistakes { file: file.to_owned(), all }
    }

    /// Each of them.
    pub fn all(&self) -> &[Mistake] {
        &self.all
    }
}

impl fmt::Display for Mistakes {
    /// One of them on a line, several under each other.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = |m: &Mistake| format!("line {}: {}", m.line, m.message);
        match &self.all[..] {
            [one] => write!(f, "{}, {}", self.file, said(one)),
            all => {
                write!(f, "{}: {} lines cannot be taken", self.file, all.len())?;
                all.iter().try_for_each(|m| write!(f, "\n  {}", said(m)))
            }
        }
    }
}

impl std::error::Error for Mistakes {}
