//! The caller, its place and the time of a call.

use crate::attr::Time;

/// Credentials of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Cred {
    /// The superuser.
    pub const ROOT: Cred = Cred { uid: 0, gid: 0, groups: Vec::new() };
}

/// Where a call to a vfs comes from: whether its coming in is still to be counted and paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// From a program, or from who acts for one: this vfs is the first to know that a call has begun.
    #[default]
    Program,
    /// From a file system stacked on this vfs: the upper vfs has counted the system call and charged it, and
    /// says what time it is (`Lower` of granary-vfs).
    Above(Time),
}

/// A program and its user, as the vfs is told of them with each of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its user.
    pub cred: Cred,
    /// The process's number; 0: the kernel itself, or a program whose number nobody knows.
    pub process: u32,
    /// Where the call comes from.
    pub origin: Origin,
}

impl Caller {
    /// The kernel itself.
    pub const KERNEL: Caller = Caller { cred: Cred::ROOT, process: 0, origin: Origin::Program };

    /// A program's process of this number.
    pub fn new(cred: Cred, process: u32) -> Caller {
        Caller { cred, process, origin: Origin::Program }
    }
}

/// A user whose process has no number.
impl From<Cred> for Caller {
    fn from(cred: Cred) -> Caller {
        Caller::new(cred, 0)
    }
}

/// The context of a call to a file system: made where it enters the vfs, and handed to everything that it
/// makes a file system do.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The user who calls.
    pub cred: &'a Cred,
    /// The time to stamp; moves once per kernel tick.
    pub time: Time,
    /// The host core that the caller is on ([`granary_sim::core`]).
    pub processor: u16,
    /// The process that calls; 0: the kernel itself, such as write-back.
    pub process: u32,
    /// Bytes are asked for, or given, past all page caches (O_DIRECT): for a file system that others' caches
    /// are below.
    pub direct: bool,
}

impl Call<'_> {
    /// The same call as the superuser's: of a stacked file system, whose vfs has asked whether the caller
    /// may.
    pub fn as_root(&self) -> Call<'_> {
        static ROOT: Cred = Cred::ROOT;
        Call { cred: &ROOT, ..*self }
    }

    /// A call of tools and tests past any vfs (check it, ask for its space, grow it, unmount it): it stamps
    /// no time.
    pub fn offline() -> Call<'static> {
        Call::kernel(Time(0))
    }

    /// The kernel's own work, on the present core: write-back, and work that no program asked for.
    pub fn kernel(time: Time) -> Call<'static> {
        static ROOT: Cred = Cred::ROOT;
        Call { cred: &ROOT, time, processor: granary_sim::core(), process: 0, direct: false }
    }
}
