//! [`Members`]: the files of an image's directory, of which none is ever a way out of it.
//!
//! ```text
//!   path ──opened once──> directory ──openat, no link followed──> member: a regular file with one name,
//!                                                                 or an error
//! ```
//!
//! An image may come from anywhere, and its directory may have been anybody's. So everything is reached
//! through the handle of the directory, which stays the same one when it is renamed, when another takes its
//! place, or when something is mounted over it. Invariants: no link, pipe or device is opened, whoever put it
//! there. New files are made with `O_EXCL`, for their owner alone (0700, 0600) whatever the umask. No file is
//! opened for writing that has another name elsewhere. It does *not* lock (lock.rs) nor know what members
//! mean. The path is for messages.
//!
//! Source: open(2), umask(2), path_resolution(7).

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, chmodat, fchmod, fstat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Mode of a new file. Nobody but its owner reads an image: the modes of the files inside count only inside.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);
/// The same for the directory.
const PRIVATE_DIR: Mode = Mode::from_raw_mode(0o700);

/// A member that is not what it has to be; carried by an [`io::Error`].
#[derive(Debug)]
pub struct Irregular {
    /// Its name.
    pub name: String,
    /// File type found instead of a regular file.
    pub what: &'static str,
}

impl fmt::Display for Irregular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.name, self.what)
    }
}

impl std::error::Error for Irregular {}

fn irregular(name: &str, what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, Irregular { name: name.to_owned(), what })
}

/// The type of a file, as words for a message; `None` for a regular file.
fn otherwise(found: &Stat) -> Option<&'static str> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => None,
        FileType::Symlink => Some("a symbolic link"),
        FileType::Directory => Some("a directory"),
        FileType::Fifo => Some("a pipe"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}

/// The directory of an image, which need not exist.
#[derive(Debug)]
pub struct Members {
    path: PathBuf,
    dir: OnceLock<OwnedFd>,
}

impl Members {
    /// Of the directory at `path`.
    pub fn new(path: PathBuf) -> Members {
        Members { path, dir: OnceLock::new() }
    }

    /// How messages call it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory, which must exist.
    pub fn dir(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(dir) = self.dir.get() {
            return Ok(dir.as_fd());
        }
        // A handle of this kind asks for no permission to list the directory, nor to write to it.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, &self.path, flags, Mode::empty())?;
        Ok(self.dir.get_or_init(|| dir).as_fd())
    }

    /// Makes the directory and those above it; itself for its owner alone.
    pub fn make_dir(&self) -> io::Result<()> {
        if let Some(above) = self.path.parent() {
            std::fs::create_dir_all(above)?;
        }
        DirBuilder::new().mode(PRIVATE_DIR.bits()).create(&self.path)?;
        self.make_private()
    }

    /// Shuts everybody else out of a directory. One that is not ours to change is left, and
    /// [`Members::exposed`] tells.
    pub fn make_private(&self) -> io::Result<()> {
        // By its number: the handle itself changes nothing, and an umask may have taken away the right to
        // open it.
        let itself = format!("/proc/self/fd/{}", self.dir()?.as_raw_fd());
        match chmodat(CWD, itself, PRIVATE_DIR, AtFlags::empty()) {
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }

    /// The directory itself, to be listed or synced.
    pub fn opened(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(self.dir()?, ".", flags, Mode::empty())?.into())
    }

    /// The names in it.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let entries = Dir::read_from(self.opened()?)?;
        let names = entries.filter_map(|e| Some(OsString::from_vec(e.ok()?.file_name().to_bytes().to_vec())));
        Ok(names.filter(|n| n != "." && n != "..").collect())
    }

    /// Attributes of the file of this name; follows no link.
    pub fn stat(&self, name: &str) -> io::Result<Stat> {
        Ok(statat(self.dir()?, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// An error where something of this name is there that is no regular file, or (`written`) one that has
    /// another name.
    pub fn check(&self, name: &str, written: bool) -> io::Result<()> {
        let found = match self.stat(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        judge(name, &found, written)
    }

    /// Opens a member that is there.
    pub fn open(&self, name: &str, access: OFlags) -> io::Result<File> {
        let written = !(access & OFlags::RWMODE).is_empty();
        // First without opening: what a device does when it is opened nobody knows.
        judge(name, &self.stat(name)?, written)?;
        // A pipe that has taken its place meanwhile must not be waited for.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(self.dir()?, name, flags, Mode::empty()).map_err(|e| match e {
            Errno::LOOP => irregular(name, "a symbolic link"),
            e => e.into(),
        })?;
        judge(name, &fstat(&file)?, written)?;
        Ok(file.into())
    }

    /// Makes a member where nothing is.
    pub fn make(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(self.dir()?, name, flags, PRIVATE)?;
        // The umask may have taken something away. Where modes cannot be changed nothing is lost.
        let _ = fchmod(&file, PRIVATE);
        Ok(file.into())
    }

    /// Opens a member for writing, or makes it.
    pub fn open_or_make(&self, name: &str) -> io::Result<File> {
        loop {
            match self.open(name, OFlags::RDWR) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                other => return other,
            }
            match self.make(name) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other,
            }
        }
    }

    /// Puts a small file in place, whole or not at all, durable on return.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.check(name, false)?;
        let new = format!("{name}.new");
        // Removes the rest of an interrupted call.
        self.check(&new, false)?;
        match self.remove(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = self.make(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        self.rename(&new, name)
    }

    /// Gives a member another name, in place of the one that has it; durable on return.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let dir = self.dir()?;
        renameat(dir, from, dir, to)?;
        self.opened()?.sync_all()
    }

    /// Removes a name.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(self.dir()?, name, AtFlags::empty())?)
    }

    /// Whether others than the owner can open one of these members, or put another one in its place: what to
    /// do then.
    pub fn exposed(&self, names: &[&str]) -> Option<String> {
        let dir = fstat(self.dir().ok()?).ok()?.st_mode;
        let modes = names.iter().filter_map(|name| Some(self.stat(name).ok()?.st_mode));
        let files = modes.fold(0, |all, mode| all | mode);
        let open = |class: u32| {
            let (dir, files) = (dir >> class & 7, files >> class & 7);
            dir & 1 != 0 && (dir & 2 != 0 || files & 6 != 0)
        };
        let path = self.path.display();
        (open(3) || open(0)).then(|| {
            format!(
                "other users can read {path} or keep it in use (its mode is {:04o}, its files' {:04o}), and modes inside it do not \
                 hold them back: chmod 700 {path} && chmod 600 {path}/*",
                dir & 0o7777,
                files & 0o777
            )
        })
    }
}

/// Whether something can be a member.
fn judge(name: &str, found: &Stat, written: bool) -> io::Result<()> {
    if let Some(what) = otherwise(found) {
        return Err(irregular(name, what));
    }
    if written && found.st_nlink > 1 {
        return Err(irregular(
            name,
            "one file under several names (hard links), and would change under all of them",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn nothing_but_regular_files_with_one_name_is_opened_and_links_stay_untouched() {
        let dir = tempfile::tempdir().expect("a directory");
        let (inside, victim) = (dir.path().join("img"), dir.path().join("victim"));
        let members = Members::new(inside.clone());
        members.make_dir().expect("made");
        std::fs::write(&victim, "precious").expect("written");
        symlink(&victim, inside.join("link")).expect("linked");
        symlink(dir.path().join("nowhere"), inside.join("dangling")).expect("linked");
        std::fs::hard_link(&victim, inside.join("hard")).expect("linked");
        std::fs::create_dir(inside.join("dir")).expect("made");
        rustix::fs::mknodat(CWD, inside.join("pipe"), FileType::Fifo, PRIVATE, 0).expect("made");
        for name in ["link", "dangling", "dir", "pipe"] {
            for access in [OFlags::RDONLY, OFlags::RDWR] {
                let e = members.open(name, access).expect_err("refused");
                assert!(e.to_string().starts_with(name), "{e}");
            }
            assert!(members.open_or_make(name).is_err() && members.replace(name, b"new").is_err());
            let with_suffix = format!("of-{name}.new");
            std::fs::rename(inside.join(name), inside.join(&with_suffix)).expect("renamed");
            let e = members.replace(&format!("of-{name}"), b"new").expect_err("refused");
            assert!(e.to_string().contains(&with_suffix), "{e}");
        }
        assert!(members.open("hard", OFlags::RDONLY).is_ok() && members.open("hard", OFlags::RDWR).is_err());
        members.replace("hard", b"new").expect("another file in its place");
        assert_eq!(std::fs::read_to_string(&victim).expect("read"), "precious");
        assert!(!dir.path().join("nowhere").exists());
    }

    #[test]
    fn what_is_made_is_its_owners_alone_and_who_opens_it_to_others_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = dir.path().join("a/img");
        let members = Members::new(at.clone());
        members.make_dir().expect("made");
        members.make("flash").expect("made");
        let mode = |path: &Path| path.metadata().expect("there").mode() & 0o7777;
        assert_eq!((mode(&at), mode(&at.join("flash"))), (0o700, 0o600));
        let told = |dir: u32, file: u32| {
            let set =
                |p: &Path, mode| chmodat(CWD, p, Mode::from_raw_mode(mode), AtFlags::empty()).expect("set");
            set(&at, dir);
            set(&at.join("flash"), file);
            members.exposed(&["flash", "wal"])
        };
        for (dir, file) in [(0o700, 0o600), (0o700, 0o644), (0o755, 0o600), (0o744, 0o644), (0o710, 0o604)] {
            assert_eq!(told(dir, file), None, "{dir:o} {file:o}");
        }
        for (dir, file) in [(0o755, 0o644), (0o710, 0o640), (0o701, 0o602), (0o777, 0o600)] {
            assert!(told(dir, file).is_some_and(|t| t.contains("chmod 700")), "{dir:o} {file:o}");
        }
    }
}
