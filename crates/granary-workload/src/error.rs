//! Everything that this crate can refuse, in one enum.
//!
//! It does *not* hold errors of a run: a file system's errors stay what they are.

use crate::lang::Diagnostic;

/// Why a workload cannot be read or changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A workload file (or a variable override) is wrong; the diagnostic says where and what to do.
    #[error("{0}")]
    Script(Box<Diagnostic>),
    /// No built-in workload has this name.
    #[error("no built-in workload is named `{name}`{}", hint(.nearest))]
    UnknownWorkload {
        /// The name that was asked for.
        name: String,
        /// The built-in name closest to it, if any is close.
        nearest: Option<&'static str>,
    },
    /// The factor given to [`Workload::scale`](crate::Workload::scale) is not a finite number above zero.
    #[error("a scale of {0} makes no workload; give a number above 0, such as 0.01")]
    BadScale(f64),
    /// The count given to [`Workload::set_threads`](crate::Workload::set_threads) is not in `1..=max`.
    #[error("a workload cannot run {wanted} threads; give 1 to {max}")]
    BadThreads {
        /// The thread count that was asked for.
        wanted: u32,
        /// The largest count that is allowed.
        max: u32,
    },
}

impl From<Box<Diagnostic>> for Error {
    fn from(diagnostic: Box<Diagnostic>) -> Self {
        Self::Script(diagnostic)
    }
}

fn hint(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None => {
            format!(
                "; the built-in ones are {}",
                granary_trace::suggest::names(crate::list().iter().map(|b| b.name))
            )
        }
    }
}
