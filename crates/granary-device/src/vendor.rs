//! [`Vendor`]: commands that one firmware has and another lacks; [`Extension`]: a file system's way to them.
//!
//! ```text
//!   file system ── Port::vendor::<Transactions>() ── Some: this drive has them
//!                        │ commit(tx)
//!                        v
//!   Command::Vendor(&mut Commit { tx }) ──> wrappers, which need not know it ──> the firmware, which does
//! ```
//!
//! A new firmware brings its commands as types of its own. Nobody between it and its file system has to be
//! changed. The commands of the papers are here, since both sides name them: [`transactions`] is ByteFS's,
//! [`pebble`] PebbleSSD's.

pub mod pebble;
pub mod transactions;

use crate::drive::DriveError;
use crate::port::Port;
use crate::structure::Structure;
use granary_sim::HostCosts;
use granary_units::{Lpa, Nanos};
use std::any::Any;
use std::fmt;

/// A vendor command, with room for its answer.
pub trait Vendor: Any + fmt::Debug {
    /// Its name in reports, as `COMMIT`.
    fn name(&self) -> &'static str;

    /// The host processor's time for it beyond the submission itself: a request of the block layer, the
    /// mapping of its data.
    fn host_cost(&self, costs: &HostCosts) -> Nanos {
        let _ = costs;
        Nanos::ZERO
    }

    /// The pages that it writes: the first, how many, and what they are.
    fn writes(&self) -> Option<(Lpa, u64, Structure)> {
        None
    }
}

impl dyn Vendor {
    /// The command, if it is a `T`.
    pub fn get<T: Vendor>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The command, if it is a `T`, for its answer.
    pub fn get_mut<T: Vendor>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// Commands of a firmware, as a file system uses them.
pub trait Extension<'p>: Sized {
    /// Its name in errors: "write log with transactions".
    const NAME: &'static str;

    /// The extension, where the drive behind the port has it.
    fn of(port: &'p Port) -> Option<Self>;
}

impl Port {
    /// Whether the drive answers a vendor command of this name.
    #[inline]
    pub fn offers(&self, name: &str) -> bool {
        self.info().answers(name)
    }

    /// Facts that only this firmware has; the default where the drive has no such.
    pub fn identify<F: Any + Default>(&self) -> F {
        let mut facts = F::default();
        self.drive().identify(&mut facts);
        facts
    }

    /// An extension of the drive; `None`: its firmware lacks it.
    #[inline]
    pub fn vendor<'p, T: Extension<'p>>(&'p self) -> Option<T> {
        T::of(self)
    }

    /// An extension that cannot be done without.
    ///
    /// # Errors
    /// [`DriveError::Unsupported`]: the drive's firmware lacks it.
    #[inline]
    pub fn require<'p, T: Extension<'p>>(&'p self) -> Result<T, DriveError> {
        self.vendor().ok_or(DriveError::Unsupported(T::NAME))
    }
}
