//! The crash explorer: cuts the power at thousands of points and holds every file system to what it promised.
//!
//! ```text
//!   Load (torture, Filebench) ── Recorded ── Process ── Vfs ── FileSystem ── Faulty ── Drive
//!                                   |                                          |
//!                               Promises                      cuts the power at the n-th command,
//!                          what must survive now              the explorer at a random instant
//!                                   |
//!   Explorer: run ─ power fails ─ power on ─ mount (recovery) ─ check() ─ Promises::verify ─ run on ─ ...
//! ```
//!
//! Everything that a point does is a function of its seed, so a failure is replayed by its seed alone. The
//! promises are the table in [`Promises`]. The drive decides what a power failure takes
//! (`docs/FAULT_MODEL.md`). It does *not* know any file system: each comes as a [`Target`].

mod campaign;
mod damage;
mod deadline;
mod explorer;
mod faulty;
mod load;
mod oracle;
mod recorded;
pub mod target;
mod watch;

pub use campaign::{Campaign, Tally};
pub use damage::{read_page, write_page};
pub use deadline::Deadline;
pub use explorer::{
    At, Bounds, Coverage, Damages, Effort, Errors, Explorer, Failure, Loss, Lost, Minimal, Path, Phase,
    Place, Report, panic_text,
};
pub use faulty::{Faults, Trip};
pub use load::{
    Appended, Churn, Clean, Clients, Crowd, ENDING, Every, Filebench, FromFile, Full, Grow, LOADS, Late,
    Load, Mapped, Names, NearFull, Private, Programs, Resize, Rights, Sequence, Sequences, Sparse, Torture,
    Unnamed, by_name as load_by_name, load_from_file,
};
pub use oracle::{Promises, Verdict, exercise};
pub use recorded::{Budget, Calls, Recorded};
pub use target::Target;
pub use watch::longest as longest_life;
