//! [`Core`]: the calls of generated programs, over which names, and what can be made durable behind each.

use std::fmt;

/// The names of a space of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// Files, by path.
    pub files: &'static [&'static str],
    /// Directories below the root, by path.
    pub dirs: &'static [&'static str],
}

impl Names {
    /// Two files in the root and in each of two directories.
    pub const ALL: Names =
        Names { files: &["/foo", "/bar", "/A/foo", "/A/bar", "/B/foo", "/B/bar"], dirs: &["/A", "/B"] };

    /// Three files, so that all programs of two calls can be run.
    pub const FEW: Names = Names { files: &["/foo", "/A/foo", "/A/bar"], dirs: &["/A", "/B"] };
}

/// Where a write goes, seen from the file's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// To the end, by O_APPEND.
    Append,
    Start,
    /// Over parts of two pages.
    Middle,
    /// Beyond the end: there is a hole before it.
    Beyond,
}

/// How bytes get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Write,
    /// O_DIRECT.
    Direct,
    /// Through a shared mapping, without msync.
    Mapping,
    /// Through a shared mapping, then msync.
    Msync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Zero,
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Reserve,
    ReserveKeep,
    Zero,
    ZeroKeep,
    Punch,
}

/// How a name moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// To a free name.
    Free,
    /// Over what has the name.
    Over,
    Exchange,
    /// RENAME_NOREPLACE, to a free name.
    NoReplace,
}

type Path = &'static str;

/// One call of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Core {
    Creat(Path),
    Mkdir(Path),
    Bytes(By, Where, Path),
    Truncate(Size, Path),
    Fallocate(Space, Path),
    Link(Path, Path),
    Symlink(Path, Path),
    Unlink(Path),
    Rmdir(Path),
    Rename(Move, Path, Path),
    RenameDir(Move, Path, Path),
    /// A small value, or one that does not fit an inode.
    Setxattr(bool, Path),
    Removexattr(Path),
    /// With or without a set-id bit.
    Chmod(bool, Path),
    Chown(Path),
    Utimens(Path),
    /// O_TMPFILE, a write, then linkat.
    Tmpfile(Path),
}

/// The flush behind a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    Fsync(Path),
    Fdatasync(Path),
    /// `fsync` of the directory of the name.
    Dir(Path),
    /// `fsync` of the directory of the name before.
    OldDir(Path),
    Sync,
}

impl Flush {
    pub(super) fn word(self) -> &'static str {
        match self {
            Flush::Fsync(_) => "fsync",
            Flush::Fdatasync(_) => "fdatasync",
            Flush::Dir(_) => "fsync-dir",
            Flush::OldDir(_) => "fsync-old-dir",
            Flush::Sync => "sync",
        }
    }
}

/// The directory of a path.
pub(super) fn parent(path: Path) -> Path {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((dir, _)) => dir,
    }
}

const PLACES: [(By, Where); 10] = [
    (By::Write, Where::Append),
    (By::Write, Where::Start),
    (By::Write, Where::Middle),
    (By::Write, Where::Beyond),
    (By::Direct, Where::Append),
    (By::Direct, Where::Start),
    (By::Direct, Where::Beyond),
    (By::Mapping, Where::Start),
    (By::Msync, Where::Start),
    (By::Msync, Where::Middle),
];

const SPACES: [Space; 5] = [Space::Reserve, Space::ReserveKeep, Space::Zero, Space::ZeroKeep, Space::Punch];

const MOVES: [Move; 4] = [Move::Free, Move::Over, Move::Exchange, Move::NoReplace];

impl Core {
    /// All calls over these names.
    pub(super) fn all(names: Names) -> Vec<Core> {
        let mut all = Vec::new();
        for &file in names.files {
            all.push(Core::Creat(file));
            all.extend(PLACES.map(|(by, at)| Core::Bytes(by, at, file)));
            all.extend([Size::Zero, Size::Down, Size::Up].map(|size| Core::Truncate(size, file)));
            all.extend(SPACES.map(|how| Core::Fallocate(how, file)));
            all.extend([Core::Unlink(file), Core::Tmpfile(file), Core::Chmod(true, file)]);
            for &to in names.files.iter().filter(|&&to| to != file) {
                all.extend([Core::Link(file, to), Core::Symlink(file, to)]);
                all.extend(MOVES.map(|how| Core::Rename(how, file, to)));
            }
        }
        for &dir in names.dirs {
            all.extend([Core::Mkdir(dir), Core::Rmdir(dir)]);
            for &to in names.dirs.iter().filter(|&&to| to != dir) {
                all.extend(MOVES.map(|how| Core::RenameDir(how, dir, to)));
            }
        }
        for &path in names.files.iter().chain(names.dirs) {
            all.extend([Core::Setxattr(false, path), Core::Setxattr(true, path), Core::Removexattr(path)]);
            all.extend([Core::Chmod(false, path), Core::Chown(path), Core::Utimens(path)]);
        }
        all
    }

    /// Flushes that make sense behind it: of what it touched, of the directory of its name, of everything.
    pub(super) fn flushes(self) -> Vec<Flush> {
        let file = |path| vec![Flush::Fsync(path), Flush::Fdatasync(path), Flush::Dir(path), Flush::Sync];
        let moved = |from: Path, to: Path, all: Vec<Flush>| {
            let elsewhere = (parent(from) != parent(to)).then_some(Flush::OldDir(from));
            all.into_iter().chain(elsewhere).collect()
        };
        match self {
            Core::Creat(path) | Core::Tmpfile(path) | Core::Bytes(_, _, path) | Core::Truncate(_, path) => {
                file(path)
            }
            Core::Fallocate(_, path) => file(path),
            Core::Link(_, to) => file(to),
            Core::Rename(_, from, to) => moved(from, to, file(to)),
            // There is nothing else of them to open.
            Core::Unlink(path) | Core::Rmdir(path) | Core::Symlink(_, path) => {
                vec![Flush::Dir(path), Flush::Sync]
            }
            Core::Mkdir(path) | Core::RenameDir(_, _, path) => {
                vec![Flush::Fsync(path), Flush::Dir(path), Flush::Sync]
            }
            Core::Setxattr(_, path)
            | Core::Removexattr(path)
            | Core::Chmod(_, path)
            | Core::Chown(path)
            | Core::Utimens(path) => vec![Flush::Fsync(path), Flush::Fdatasync(path), Flush::Sync],
        }
    }
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moves = |how: Move| match how {
            Move::Free => "rename",
            Move::Over => "replace",
            Move::Exchange => "exchange",
            Move::NoReplace => "no-replace",
        };
        match *self {
            Core::Creat(path) => write!(f, "creat({path})"),
            Core::Mkdir(path) => write!(f, "mkdir({path})"),
            Core::Bytes(by, at, path) => {
                let by = match by {
                    By::Write => "write",
                    By::Direct => "direct",
                    By::Mapping => "store",
                    By::Msync => "msync",
                };
                let at = match at {
                    Where::Append => "append",
                    Where::Start => "start",
                    Where::Middle => "middle",
                    Where::Beyond => "beyond",
                };
                write!(f, "{by}({path},{at})")
            }
            Core::Truncate(size, path) => {
                let size = match size {
                    Size::Zero => "zero",
                    Size::Down => "down",
                    Size::Up => "up",
                };
                write!(f, "truncate({path},{size})")
            }
            Core::Fallocate(how, path) => {
                let how = match how {
                    Space::Reserve => "reserve",
                    Space::ReserveKeep => "reserve-keep",
                    Space::Zero => "zero",
                    Space::ZeroKeep => "zero-keep",
                    Space::Punch => "punch",
                };
                write!(f, "fallocate({path},{how})")
            }
            Core::Link(old, new) => write!(f, "link({old},{new})"),
            Core::Symlink(target, path) => write!(f, "symlink({target},{path})"),
            Core::Unlink(path) => write!(f, "unlink({path})"),
            Core::Rmdir(path) => write!(f, "rmdir({path})"),
            Core::Rename(how, from, to) | Core::RenameDir(how, from, to) => {
                write!(f, "{}({from},{to})", moves(how))
            }
            Core::Setxattr(large, path) => {
                write!(f, "setxattr({path},{})", if large { "large" } else { "small" })
            }
            Core::Removexattr(path) => write!(f, "removexattr({path})"),
            Core::Chmod(set_id, path) => {
                write!(f, "chmod({path},{})", if set_id { "set-id" } else { "bits" })
            }
            Core::Chown(path) => write!(f, "chown({path})"),
            Core::Utimens(path) => write!(f, "utimens({path})"),
            Core::Tmpfile(path) => write!(f, "tmpfile({path})"),
        }
    }
}
