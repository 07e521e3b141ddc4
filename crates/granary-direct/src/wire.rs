//! Commands and answers.
//!
//! ```text
//!   Command  op 4 | flags 4 | handle 4 | len 4 | pos 8 | ino 8
//!            a path or data in the data area
//!   Answer   result 8 | pos 8 | names 8 | version 8 | slot 4 | 0 4 | Attributes
//!            data in the data area
//! ```
//!
//! A path is a [`PathPlace`](crate::place::PathPlace) at the beginning of the data area, `len` bytes with the
//! bytes behind it.
//!
//! Numbers are in the machine's byte order: both sides are on one machine. A field that an operation does not
//! name is not looked at.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of the protocol. Both sides must have the same.
pub const VERSION: u32 = 3;

/// Value of [`Answer::result`] where the server leaves the call to the kernel's view.
const KERNEL: i64 = i64::MIN;

macro_rules! commands {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $what:ident;)*) => {
        /// The commands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Op {
            $($(#[$meta])* $name = $number,)*
        }

        impl Op {
            const ALL: [Op; [$($number),*].len()] = [$(Op::$name),*];

            /// Whether it changes something, so that doing it twice is not doing it once.
            pub fn changes(self) -> bool {
                match self { $(Op::$name => commands!($what),)* }
            }
        }
    };
    (looks) => { false };
    (changes) => { true };
}

commands! {
    /// Opens the file at a path that begins at the mount's root, of `len` bytes in the data area, with the
    /// `open(2)` flags `flags`, if it is the one that `stat(2)` numbers `ino`. Result: its handle.
    Open = 1, looks;
    /// Closes `handle`.
    Close = 2, looks;
    /// Reads up to `len` bytes from `pos` into the data area. Result: how many.
    Read = 3, looks;
    /// Writes `len` bytes of the data area at `pos`, or at the end of a file that is open with O_APPEND.
    /// Result: how many; `pos`: where.
    Write = 4, changes;
    /// `fsync`; with `flags` 1 `fdatasync`.
    Sync = 5, looks;
    /// The attributes of `handle`.
    Stat = 6, looks;
    /// The attributes of what is at a place; [`FOLLOW`].
    StatPath = 7, looks;
    /// Makes and opens a file at a place that has nothing: `flags` of `open(2)`, `pos` the permission bits,
    /// the umask in the bits from 16 on. Result: its handle.
    Create = 8, changes;
    /// Whether the caller may do what the bits of `flags` from [`WANTED`] on say (as of `access(2)`) with
    /// what is at a place; [`FOLLOW`].
    Access = 9, looks;
    /// The target of the symbolic link at a place, in the data area. Result: its length.
    Readlink = 10, looks;
    /// Removes a name that is not a directory's.
    Unlink = 11, changes;
    /// Removes an empty directory.
    Rmdir = 12, changes;
    /// Makes a directory; `pos` as of [`Op::Create`].
    Mkdir = 13, changes;
    /// Makes a symbolic link at a place; its target follows the place.
    Symlink = 14, changes;
    /// Gives what is at the first place the second one as a name, too; [`FOLLOW`].
    Link = 15, changes;
    /// Gives what is at the first place the second one as its name; `flags` of `renameat2(2)`.
    Rename = 16, changes;
    /// Gives what is at a place the permission bits `pos`; [`FOLLOW`].
    Chmod = 17, changes;
    /// Gives it the user of the lower half of `pos` and the group of the upper one, [`SAME`]: the one that it
    /// has; [`FOLLOW`].
    Chown = 18, changes;
    /// Gives it the times of access, `pos`, and of modification, `ino`, nanoseconds since 1970 with a sign,
    /// or what the flags from [`ATIME_NOW`] on say; [`FOLLOW`].
    Utimens = 19, changes;
    /// Gives the file at a place the size `pos`.
    Truncate = 20, changes;
}

/// In `flags`: a symbolic link at the end of the path is followed.
pub const FOLLOW: u32 = 1;
/// Where the bits of [`Op::Access`] begin.
pub const WANTED: u32 = 8;
/// [`Op::Utimens`]: the time of access is the present one.
pub const ATIME_NOW: u32 = 2;
/// It stays.
pub const ATIME_OMIT: u32 = 4;
/// The time of modification is the present one.
pub const MTIME_NOW: u32 = 8;
/// It stays.
pub const MTIME_OMIT: u32 = 16;
/// [`Op::Chown`]: as it is.
pub const SAME: u32 = u32::MAX;

impl Op {
    /// The operation of this number.
    pub fn of(number: u32) -> Option<Op> {
        Op::ALL.get((number as usize).checked_sub(1)?).copied()
    }

    /// Whether it is of a [`PathPlace`](crate::place::PathPlace).
    pub fn has_place(self) -> bool {
        self as u32 >= Op::StatPath as u32
    }
}

/// A command. See [`Op`] for what the fields mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Command {
    /// The number of an [`Op`].
    pub op: u32,
    /// Flags.
    pub flags: u32,
    /// An open file.
    pub handle: u32,
    /// Bytes of the data area.
    pub len: u32,
    /// A place in the file.
    pub pos: u64,
    /// An inode number as `stat(2)` shows it.
    pub ino: u64,
}

impl Command {
    /// One that has nothing but its operation.
    pub fn new(op: Op) -> Command {
        Command { op: op as u32, ..Command::default() }
    }
}

/// The attributes of `stat(2)`, except for the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
#[allow(missing_docs, reason = "the names are those of struct stat")]
pub struct Attributes {
    pub ino: u64,
    pub size: u64,
    /// Of 512 bytes.
    pub blocks: u64,
    /// Access, modification, change: seconds.
    pub seconds: [i64; 3],
    /// The nanoseconds after them.
    pub nanos: [u32; 3],
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
}

impl Attributes {
    /// All zero.
    pub const NONE: Attributes = Attributes {
        ino: 0,
        size: 0,
        blocks: 0,
        seconds: [0; 3],
        nanos: [0; 3],
        mode: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
}

/// An answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Answer {
    /// Result of the operation; below zero an errno, negative.
    pub result: i64,
    /// Where a write went.
    pub pos: u64,
    /// [`Op::StatPath`]: the version of where paths lead ([`crate::versions`]); 0: not to be kept.
    pub names: u64,
    /// [`Op::StatPath`]: the version of the attributes; [`Op::Read`]: that of the content.
    pub version: u64,
    /// The slot that the version is of.
    pub slot: u32,
    /// Nothing.
    pub spare: u32,
    /// Of [`Op::Stat`], [`Op::StatPath`], [`Op::Open`] and [`Op::Create`].
    pub attributes: Attributes,
}

/// The call is one for the kernel's view: the path leaves the mount, or the server does not do this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeeKernel;

impl Answer {
    /// Success.
    pub fn of(result: u64) -> Answer {
        Answer { result: result as i64, ..Answer::default() }
    }

    /// An error.
    pub fn error(errno: i32) -> Answer {
        Answer { result: -i64::from(errno), ..Answer::default() }
    }

    /// The kernel's view does it.
    pub fn kernel() -> Answer {
        Answer { result: KERNEL, ..Answer::default() }
    }

    /// The result, or the errno.
    ///
    /// # Errors
    /// [`SeeKernel`].
    pub fn value(&self) -> Result<Result<u64, i32>, SeeKernel> {
        match self.result {
            KERNEL => Err(SeeKernel),
            n if n >= 0 => Ok(Ok(n as u64)),
            n => Ok(Err(i32::try_from(-n).unwrap_or(5))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_number_and_no_other_number_is_one() {
        for n in 0..1000 {
            assert_eq!(Op::of(n).map(|op| op as u32), (1..=20).contains(&n).then_some(n));
        }
    }

    #[test]
    fn results_errors_and_the_kernel_are_told_apart() {
        assert_eq!(Answer::of(7).value(), Ok(Ok(7)));
        assert_eq!(Answer::error(28).value(), Ok(Err(28)));
        assert_eq!(Answer::kernel().value(), Err(SeeKernel));
    }
}
