//! [`Findings`]: what a check has to say.

/// Most sentences of one check: a damaged pointer may lead to millions, and a thousand say enough (F2FS's
/// check has as many).
const MOST: usize = 1000;

/// Sentences about what is wrong, the first thousand of them.
#[derive(Debug, Default)]
pub struct Findings(Vec<String>);

impl Findings {
    /// Adds one.
    pub fn push(&mut self, what: String) {
        if self.0.len() < MOST {
            self.0.push(what);
        }
    }

    /// All that were kept.
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}
