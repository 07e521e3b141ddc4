//! Every pool of a file system, filled on its own: names, inodes, targets, attributes, index blocks, small
//! pieces of content.
//!
//! "No space" is an answer only where `statfs` says so: nothing is available, or no inode is free. All pieces
//! can be taken away again, and the space that they give up is there for others.

use super::{Mounted, Subject, create, drive, fill, run};
use granary_fs::{FileKind, FsError, Result, SetXattr};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Payload};
use granary_vfs::{OpenFlags, Posix, Process};

/// Kinds of pieces that fill a pool: the n-th piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    /// An empty file with a long name, a hundred in a directory.
    Name,
    /// A directory with one name in it.
    Directory,
    /// A symbolic link with a long target.
    Target,
    /// Attributes of an empty file.
    Attribute,
    /// A file of one byte.
    Byte,
    /// A file of two and a half large blocks.
    Small,
    /// A piece of a sparse file, far from the others.
    Sparse,
    /// A name longer than the one before it.
    Rename,
    /// A few more bytes of one of many files.
    Append,
}

const ALL: [Piece; 9] = [
    Piece::Name,
    Piece::Directory,
    Piece::Target,
    Piece::Attribute,
    Piece::Byte,
    Piece::Small,
    Piece::Sparse,
    Piece::Rename,
    Piece::Append,
];

/// Files that [`Piece::Append`] writes to.
const APPENDED: u64 = 400;

/// Content of one file is written over in small pieces first, so that file systems which keep such pieces
/// apart have no place left for more.
const SCRIBBLED: u64 = 3 << 20;

fn long(n: u64, len: usize) -> String {
    format!("{}{n}", "n".repeat(len))
}

impl Piece {
    /// Uses up some of the pool.
    fn add(self, p: &mut Process, n: u64) -> Result<()> {
        let parent = format!("/d{}", n / 100);
        let new_parent =
            |p: &mut Process| if n.is_multiple_of(100) { p.mkdir(&parent, 0o755) } else { Ok(()) };
        match self {
            Piece::Name => {
                new_parent(p)?;
                p.mknod(format!("{parent}/{}", long(n, 240)), FileKind::File, 0o644, 0)
            }
            Piece::Directory => {
                p.mkdir(format!("/{n}"), 0o755)?;
                p.mknod(format!("/{n}/x"), FileKind::File, 0o644, 0)
            }
            Piece::Target => {
                new_parent(p)?;
                p.symlink(long(n, 3000), format!("{parent}/{n}"))
            }
            Piece::Attribute => {
                new_parent(p)?;
                let path = format!("{parent}/{n}");
                p.mknod(&path, FileKind::File, 0o644, 0)?;
                p.setxattr(&path, b"user.a", &[7; 3000], SetXattr::Any)
            }
            Piece::Byte | Piece::Small => {
                new_parent(p)?;
                let fd = p.open(format!("{parent}/{n}"), OpenFlags::CREAT | OpenFlags::RDWR, 0o644)?;
                let len = if self == Piece::Byte { 1 } else { 80_000 };
                let wrote = p.pwrite(fd, fill(n + 1, len), 0).and_then(|_| p.fsync(fd));
                p.close(fd)?;
                wrote
            }
            Piece::Sparse => {
                let fd = p.open("/sparse", OpenFlags::CREAT | OpenFlags::RDWR, 0o644)?;
                let wrote = p.pwrite(fd, fill(n + 1, 4096), n << 22).and_then(|_| p.fsync(fd));
                p.close(fd)?;
                wrote
            }
            Piece::Rename => {
                new_parent(p)?;
                let (short, long) = (format!("{parent}/{n}"), format!("{parent}/{}", long(n, 230)));
                p.mknod(&short, FileKind::File, 0o644, 0)?;
                p.rename(&short, &long)
            }
            Piece::Append => {
                let path = format!("/a{}", n % APPENDED);
                let fd = p.open(path, OpenFlags::CREAT | OpenFlags::APPEND | OpenFlags::RDWR, 0o644)?;
                let wrote = p.write(fd, Payload::Bytes(&[7; 3000])).and_then(|_| p.fsync(fd));
                p.close(fd)?;
                wrote
            }
        }
    }
}

/// Removes a tree.
fn remove_all(p: &mut Process, dir: &str) {
    for entry in p.list(if dir.is_empty() { "/" } else { dir }).expect("readdir") {
        let name = String::from_utf8(entry.name.to_vec()).expect("a name of this test");
        if name == "." || name == ".." || name == "lost+found" {
            continue;
        }
        let path = format!("{dir}/{name}");
        if entry.kind == FileKind::Dir {
            remove_all(p, &path);
            p.rmdir(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        } else {
            p.unlink(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        }
    }
}

/// Scribbles small pieces over a file, so that many are kept apart.
fn scribble(p: &mut Process) {
    let fd = create(p, "/big");
    p.pwrite(fd, fill(1, SCRIBBLED as usize), 0).expect("write");
    let mut random = Stream::new(5, "places");
    for _ in 0..2000 {
        p.pwrite(fd, Payload::Bytes(&[9; 100]), random.below(SCRIBBLED - 200)).expect("write");
    }
    p.fsync(fd).expect("fsync");
    p.close(fd).expect("close");
}

/// See the module.
pub fn no_space_is_said_only_where_statfs_says_it<S: Subject>(subject: &S) {
    for piece in ALL {
        let subject = subject.clone();
        run(move || {
            let m = Mounted::fresh(&subject, &drive(Bytes::mib(24)));
            let mut p = m.process();
            scribble(&mut p);
            let error = (0..).find_map(|n| piece.add(&mut p, n).err()).expect("it is full at last");
            if piece == Piece::Attribute && error == FsError::NotSupported {
                return;
            }
            assert_eq!(error, FsError::NoSpace, "{piece:?}");
            p.sync().expect("sync");
            let s = p.statfs().expect("statfs");
            // Small drives: what a log-structured file system needs to write anything is a larger part of
            // them.
            let full = s.available_blocks() * 12 <= s.blocks || s.free_inodes * 100 <= s.inodes;
            assert!(full, "{piece:?}: no space with {s:?}");
            m.check();
            remove_all(&mut p, "");
            m.check();
            p.mkdir("/again", 0o755).expect("there is space again");
            piece.add(&mut p, 0).unwrap_or_else(|e| panic!("{piece:?} again: {e}"));
            p.exit();
            m.remounted().check();
        });
    }
}
