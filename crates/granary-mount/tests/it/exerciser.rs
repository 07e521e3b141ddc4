//! Random calls on a few files of a directory, each result compared with a [`Model`]. They include the calls
//! of the crate fsx, and further ones: O_DIRECT, names that come and go under open files, holes, and files
//! that several descriptors have open.
//!
//! ```text
//!   a, b, .. x/a, y/b ── files ── SLOTS x { a cached descriptor, a direct one }      model: names, bytes
//!              without a name ─┘
//! ```
//!
//! The calls on the content of a file are in [`super::content`]. `cargo xtask soak --kind calls` makes them
//! by the million on a mount of another process, where files are mapped, too, and unmounts in between
//! ([`Exercise::close`], [`Exercise::compare_all`]).

use super::model::{DIRECTORIES, Id, Model, NAMES};
use granary_sim::rng::Stream;
use rustix::fs::{AtFlags, CWD, OFlags, RenameFlags, linkat, renameat_with, unlink};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Files that are open at a time.
const SLOTS: usize = 3;
/// Calls that a failure tells of, the last ones.
const TOLD: usize = 30;

/// How a file's bytes are reached as memory: each call maps them, shared, and unmaps them again. The file has
/// them all.
pub trait Mappings: Sync {
    /// Fills the buffer with what is at byte `pos`.
    fn load(&self, file: &File, pos: u64, buffer: &mut [u8]) -> rustix::io::Result<()>;

    /// Stores the bytes at byte `pos`, and where `sync` is set waits for msync(MS_SYNC).
    fn store(&self, file: &File, pos: u64, data: &[u8], sync: bool) -> rustix::io::Result<()>;
}

/// A file that is open twice.
pub(super) struct Open {
    pub file: Id,
    cached: File,
    direct: File,
}

impl Open {
    /// One of the two descriptors.
    pub fn descriptor(&self, direct: bool) -> &File {
        if direct { &self.direct } else { &self.cached }
    }
}

/// A directory and what it must hold.
pub struct Exercise {
    root: PathBuf,
    pub(super) rng: Stream,
    pub(super) model: Model,
    pub(super) open: [Option<Open>; SLOTS],
    /// `None`: the server is this process, and a page fault would hold the address space that it needs to
    /// answer.
    pub(super) mappings: Option<&'static dyn Mappings>,
    /// Files are not made longer, bytes.
    pub(super) longest: u64,
    done: u64,
    told: VecDeque<String>,
}

impl Exercise {
    /// Begins in that directory, which it empties.
    pub fn new(
        root: &Path,
        fs: &str,
        seed: u64,
        mappings: Option<&'static dyn Mappings>,
    ) -> Result<Exercise, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", root.display());
        for name in NAMES {
            match fs::remove_file(root.join(name)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
                _ => {}
            }
        }
        for name in DIRECTORIES {
            fs::create_dir_all(root.join(name)).map_err(failed)?;
        }
        // Long files have many extents, short ones all their calls in a few pages.
        let longest = [64 << 10, 256 << 10, 256 << 10, 2 << 20][(seed % 4) as usize];
        Ok(Exercise {
            root: root.to_owned(),
            rng: Stream::new(seed, fs),
            model: Model::default(),
            open: [const { None }; SLOTS],
            mappings,
            longest,
            done: 0,
            told: VecDeque::new(),
        })
    }

    /// Makes so many calls; the error names the call with a wrong result, the result, and the calls before.
    pub fn run(&mut self, calls: u64) -> Result<(), String> {
        for _ in 0..calls {
            self.done += 1;
            let mut what = String::new();
            if let Err(wrong) = self.step(&mut what) {
                let before = self.told.iter().cloned().collect::<Vec<_>>().join("\n    ");
                return Err(format!("call {}: {what}: {wrong}\n  before it:\n    {before}", self.done));
            }
            if self.told.len() == TOLD {
                self.told.pop_front();
            }
            self.told.push_back(what);
        }
        Ok(())
    }

    /// Closes all files: those without a name are gone.
    pub fn close(&mut self) {
        self.open = [const { None }; SLOTS];
        self.model.drop_dead(&[]);
    }

    /// One call, of which `what` tells.
    fn step(&mut self, what: &mut String) -> Result<(), String> {
        let slot = self.rng.below(SLOTS as u64) as usize;
        let call = self.rng.below(120);
        if self.open[slot].is_none() || call < 3 {
            return self.open_some(slot, what);
        }
        match call {
            3..6 => self.change_names(what),
            6 => self.reopen(slot, what),
            7 if self.rng.chance(0.2) => {
                *what = "everything".to_owned();
                self.compare_all()
            }
            7 => self.stat(slot, what),
            _ => self.content_call(slot, call - 8, what),
        }
    }

    pub(super) fn any_name(&mut self) -> &'static str {
        NAMES[self.rng.below(NAMES.len() as u64) as usize]
    }

    fn forget_dead(&mut self) {
        let open: Vec<Id> = self.open.iter().flatten().map(|o| o.file).collect();
        self.model.drop_dead(&open);
    }

    /// Opens a new file without a name in that slot.
    fn open_unnamed(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        let dir = ["", "x", "y"][self.rng.below(3) as usize];
        let exclusive = self.rng.chance(0.2);
        let exclude = if exclusive { OFlags::EXCL } else { OFlags::empty() };
        *what = format!("open of a file without a name in '{dir}', {exclude:?}");
        self.open[slot] = None;
        self.forget_dead();
        let opened = open(&self.root.join(dir), OFlags::TMPFILE | exclude);
        if opened.as_ref().is_err_and(|e| *e == Errno::OPNOTSUPP) {
            // As Linux's NILFS2.
            *what += ": there are none here";
            return Ok(());
        }
        let cached = opened.map_err(|e| format!("{e:?}"))?;
        let file = self.model.create_unnamed(exclusive);
        *what += &format!(": file {file}");
        let direct = again(&cached, OFlags::DIRECT)?;
        self.open[slot] = Some(Open { file, cached, direct });
        Ok(())
    }

    /// Opens another file in that slot, new or not.
    fn open_some(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        if self.rng.chance(0.15) {
            return self.open_unnamed(slot, what);
        }
        let kinds = [
            OFlags::empty(),
            OFlags::CREATE,
            OFlags::CREATE,
            OFlags::CREATE | OFlags::EXCL,
            OFlags::CREATE | OFlags::TRUNC,
        ];
        let (flags, name) = (kinds[self.rng.below(5) as usize], self.any_name());
        *what = format!("open of {name}, {flags:?}");
        self.open[slot] = None;
        self.forget_dead();
        let there = self.model.find(name);
        let expected = match there {
            Some(_) if flags.contains(OFlags::EXCL) => Err(Errno::EXIST),
            None if flags.is_empty() => Err(Errno::NOENT),
            _ => Ok(()),
        };
        let opened = open(&self.root.join(name), flags);
        agree(opened.as_ref().map(drop).map_err(|e| *e), expected)?;
        let Ok(cached) = opened else { return Ok(()) };
        let file = there.unwrap_or_else(|| self.model.create());
        self.model.name(name, file);
        if flags.contains(OFlags::TRUNC) {
            self.model.file_mut(file).bytes.clear();
        }
        *what += &format!(": file {file}");
        let direct = again(&cached, OFlags::DIRECT)?;
        self.open[slot] = Some(Open { file, cached, direct });
        Ok(())
    }

    /// New descriptors for an open file, which may have no name.
    fn reopen(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        *what = "close and open".to_owned();
        let Some(open) = &mut self.open[slot] else { return Ok(()) };
        open.direct = again(&open.cached, OFlags::DIRECT)?;
        open.cached = again(&open.direct, OFlags::empty())?;
        Ok(())
    }

    /// link, unlink, and rename of each kind; with open files or without.
    fn change_names(&mut self, what: &mut String) -> Result<(), String> {
        let (from, to) = (self.any_name(), self.any_name());
        let (old, new) = (self.root.join(from), self.root.join(to));
        let (got, expected) = match self.rng.below(10) {
            8.. => {
                let slot = self.rng.below(SLOTS as u64) as usize;
                let Some(open) = &self.open[slot] else { return Ok(()) };
                *what = format!("link of the open file {} as {to}", open.file);
                let fd = in_proc(&open.cached);
                let got = linkat(CWD, &fd, CWD, &new, AtFlags::SYMLINK_FOLLOW);
                (got, self.model.link_open(open.file, to))
            }
            0..2 => {
                *what = format!("link of {from} as {to}");
                (linkat(CWD, &old, CWD, &new, AtFlags::empty()), self.model.link(from, to))
            }
            2 | 3 => {
                *what = format!("unlink of {from}");
                (unlink(&old), self.model.unlink(from))
            }
            kind => {
                let kinds = [RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
                let how = kinds.get(kind as usize - 4).copied().unwrap_or(RenameFlags::empty());
                *what = format!("rename of {from} to {to}, {how:?}");
                (renameat_with(CWD, &old, CWD, &new, how), self.model.rename(from, to, how))
            }
        };
        self.forget_dead();
        agree(got, expected)
    }

    /// Size and links of an open file.
    fn stat(&mut self, slot: usize, what: &mut String) -> Result<(), String> {
        *what = "fstat".to_owned();
        let Some(open) = &self.open[slot] else { return Ok(()) };
        let got = open.cached.metadata().map_err(|e| e.to_string())?;
        let (size, links) = (self.model.file(open.file).size(), self.model.links(open.file));
        if (got.len(), got.nlink()) != (size, links) {
            return Err(format!("size {} and {} links, not {size} and {links}", got.len(), got.nlink()));
        }
        Ok(())
    }

    /// All names, and all that the files hold, open ones without a name included.
    pub fn compare_all(&mut self) -> Result<(), String> {
        let expected: Vec<&str> = self.model.names().map(|(name, _)| name).collect();
        let mut names = self.list("")?;
        for dir in DIRECTORIES {
            names.extend(self.list(dir)?);
        }
        names.sort();
        if names != expected {
            return Err(format!("names {names:?}, not {expected:?}"));
        }
        for (name, file) in self.model.names() {
            let path = self.root.join(name);
            let got = fs::read(&path).map_err(|e| format!("{name}: {e}"))?;
            self.compare(file, 0, &got, true).map_err(|e| format!("{name}: {e}"))?;
        }
        for open in self.open.iter().flatten() {
            let mut got = vec![0; self.model.file(open.file).bytes.len() + 1];
            let mut len = 0;
            while let n @ 1.. = open.cached.read_at(&mut got[len..], len as u64).map_err(|e| e.to_string())? {
                len += n;
                if len == got.len() {
                    break;
                }
            }
            self.compare(open.file, 0, &got[..len], true).map_err(|e| format!("an open file: {e}"))?;
        }
        Ok(())
    }

    /// Names in a directory, but for those that are always there, as [`NAMES`] has them.
    fn list(&self, dir: &str) -> Result<Vec<String>, String> {
        let failed = |e| format!("reading the directory '{dir}': {e}");
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(dir)).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            let constant = DIRECTORIES.contains(&name.as_str()) || name == "lost+found";
            if !dir.is_empty() || !constant {
                names.push(if dir.is_empty() { name } else { format!("{dir}/{name}") });
            }
        }
        Ok(names)
    }

    /// Compares the bytes that were read at `pos` with the model's; `whole`: the file ends there.
    pub(super) fn compare(&self, file: Id, pos: u64, got: &[u8], whole: bool) -> Result<(), String> {
        let bytes = &self.model.file(file).bytes;
        let end = pos as usize + got.len();
        if end > bytes.len() || whole && end != bytes.len() {
            return Err(format!("{end} bytes, not {}", bytes.len()));
        }
        let expected = &bytes[pos as usize..end];
        if got == expected {
            return Ok(());
        }
        let differ: Vec<usize> = (0..got.len()).filter(|&i| got[i] != expected[i]).collect();
        let (first, last) = (differ[0], differ[differ.len() - 1]);
        let (at, to) = (pos as usize + first, pos as usize + last);
        let (is, not) = (got[first], expected[first]);
        Err(format!("byte {at} is {is:#x}, not {not:#x}; {} differ, the last one is {to}", differ.len()))
    }
}

/// Compares a call's result with the model's.
fn agree(got: Result<(), Errno>, expected: Result<(), Errno>) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{got:?}, not {expected:?}")) }
}

fn open(path: &Path, flags: OFlags) -> Result<File, Errno> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags.bits() as i32).mode(0o644);
    options.open(path).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
}

/// Another descriptor for an open file, even without its name.
fn again(file: &File, flags: OFlags) -> Result<File, String> {
    open(Path::new(&in_proc(file)), flags).map_err(|e| format!("opened once more: {e}"))
}

/// A path that leads to an open file, even without its name.
fn in_proc(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
