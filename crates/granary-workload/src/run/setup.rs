//! Makes the filesets: directories, preallocated files, leaf directories.
//!
//! ```text
//!   for each fileset, the last defined first (as Filebench's list is):
//!     trusttree or reuse, and the root is there?  keep it  :  rm -rf, then mkdir every directory, last made
//!                                                             first
//!     files in random order: with the probability of `prealloc` write one, 1 MiB at a time;
//!                            `paralloc`: 32 at once
//!     leaf directories likewise, one at a time
//! ```
//!
//! A kept file is cut or written anew where its size differs; with `trusttree` it is only opened.
//!
//! It does *not* sync: that is a step of the prologue, or the caller's.
//!
//! Source: Filebench 1.5-alpha3, fileset creation.

use super::error::RunError;
use super::fileset::{Fileset, content_word};
use super::index_set::IndexSet;
use super::tree::{PathBuffer, Tree};
use super::{Clients, Phase, ProcessId, Progress, ProgressFn};
use crate::spec::{FilesetId, FilesetSpec};
use granary_fs::{FileKind, FsError};
use granary_sim::rng::Stream;
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Files that `paralloc` writes at once (Filebench's limit).
const PARALLEL: usize = 32;
/// Bytes of one write of preallocation (Filebench's block).
const CHUNK: u64 = 1 << 20;
/// Steps between two progress reports.
const REPORT: u64 = 4096;

type Done<T = ()> = Result<T, RunError>;

/// Counts what has been made, for the progress bar.
pub(crate) struct Counter {
    report: Option<ProgressFn>,
    stop: Option<Arc<AtomicBool>>,
    done: AtomicU64,
    total: u64,
}

impl Counter {
    pub(crate) fn new(report: Option<ProgressFn>, stop: Option<Arc<AtomicBool>>, trees: &[Tree]) -> Counter {
        let total = trees.iter().map(|t| (t.dirs() + t.files() + t.leaves()) as u64).sum();
        Counter { report, stop, done: AtomicU64::new(0), total }
    }

    /// Whether nothing more is to be made.
    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
    }

    /// One more is about to be made.
    ///
    /// # Errors
    /// It was told to stop.
    fn step(&self) -> Done {
        if self.is_stopped() {
            return Err(RunError::Interrupted);
        }
        let done = self.done.fetch_add(1, Relaxed) + 1;
        if (done.is_multiple_of(REPORT) || done == self.total)
            && let Some(report) = &self.report
        {
            let total = Some(self.total);
            report(Progress { phase: Phase::Setup, done, total, virtual_now: granary_sim::now() });
        }
        Ok(())
    }
}

/// The process that makes filesets.
const SETUP: ProcessId<'_> = ProcessId::single("setup");

/// Makes one fileset.
pub(crate) fn create<C: Clients>(
    clients: &C,
    spec: &FilesetSpec,
    id: FilesetId,
    tree: Tree,
    seed: u64,
    counter: &Arc<Counter>,
) -> Done<Fileset> {
    let mut client = clients.client(SETUP, "setup");
    let keep = (spec.trust_tree || spec.reuse) && exists(&mut client, tree.root())?;
    if !keep {
        remove(&mut client, tree.root())?;
        make_path(&mut client, tree.root()).map_err(|(path, e)| failed("mkdir", &path, e))?;
        make_dirs(&mut client, &tree, counter)?;
    }
    let job = Arc::new(Job {
        chooser: Mutex::new(Chooser::new(tree.files(), spec, seed, "files")),
        tree,
        id,
        keep: if keep && spec.trust_tree {
            Keep::Blindly
        } else if keep {
            Keep::Resized
        } else {
            Keep::Nothing
        },
        counter: Arc::clone(counter),
        error: Mutex::new(None),
    });
    if spec.parallel_prealloc {
        let workers: Vec<_> = (0..PARALLEL.min(job.tree.files()))
            .map(|n| {
                let name = format!("prealloc-{}", n + 1);
                let (job, mut client) = (Arc::clone(&job), clients.client(SETUP, &name));
                granary_sim::spawn(&name, move || job.work(&mut client))
            })
            .collect();
        workers.into_iter().for_each(granary_sim::JoinHandle::join);
    } else {
        job.work(&mut client);
    }
    let Ok(job) = Arc::try_unwrap(job) else { unreachable!("all who shared it were joined") };
    if let Some(error) = job.error.into_inner() {
        return Err(error);
    }
    let mut leaves = Chooser::new(job.tree.leaves(), spec, seed, "leafdirs");
    let mut path = PathBuffer::new();
    while let Some((leaf, made)) = leaves.next() {
        counter.step()?;
        let path = path.leaf(&job.tree, leaf);
        if made && !(keep && exists(&mut client, path)?) {
            client.mkdir(path, 0o755).map_err(|e| failed("mkdir", path, e))?;
        }
    }
    Ok(Fileset::new(spec, id, job.tree, job.chooser.into_inner().present, leaves.present))
}

/// Treatment of files that are there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Nothing,
    Resized,
    Blindly,
}

/// Preallocation of the files of one set, shared by its workers.
struct Job {
    chooser: Mutex<Chooser>,
    tree: Tree,
    id: FilesetId,
    keep: Keep,
    counter: Arc<Counter>,
    error: Mutex<Option<RunError>>,
}

impl Job {
    fn work<P: Posix>(&self, client: &mut P) {
        let mut path = PathBuffer::new();
        loop {
            // The lock is dropped before the next wait.
            let next = self.chooser.lock().next();
            let Some((file, made)) = next else { return };
            if let Err(stopped) = self.counter.step() {
                self.error.lock().get_or_insert(stopped);
                return;
            }
            if made && let Err((call, e)) = self.allocate(client, file, &mut path) {
                let path = path.file(&self.tree, file);
                self.error.lock().get_or_insert_with(|| failed(call, path, e));
            }
            if self.error.lock().is_some() {
                return;
            }
        }
    }

    fn allocate<P: Posix>(
        &self,
        client: &mut P,
        file: u32,
        path: &mut PathBuffer,
    ) -> Result<(), (&'static str, FsError)> {
        let path = path.file(&self.tree, file);
        let size = self.tree.size(file);
        let there = match self.keep {
            Keep::Nothing => None,
            Keep::Blindly => Some(size),
            Keep::Resized => match client.stat(path) {
                Ok(stat) => Some(stat.attr.size),
                Err(FsError::NoEntry) => None,
                Err(e) => return Err(("stat", e)),
            },
        };
        let flags = if there.is_some() { OpenFlags::RDWR } else { OpenFlags::RDWR | OpenFlags::CREAT };
        let fd = client.open(path, flags, 0o644).map_err(|e| ("open", e))?;
        match there {
            Some(now) if now == size => {}
            Some(now) if now > size => client.ftruncate(fd, size).map_err(|e| ("ftruncate", e))?,
            _ => {
                let word = content_word(self.id, file);
                let mut left = size;
                // The rest of a large file is not worth waiting for.
                while left > 0 && !self.counter.is_stopped() {
                    let len = left.min(CHUNK) as usize;
                    let written = client.write(fd, Payload::Fill { word, len }).map_err(|e| ("write", e))?;
                    left -= written as u64;
                }
            }
        }
        client.close(fd).map_err(|e| ("close", e))
    }
}

/// Hands out the entries in random order, each with the decision whether it is made.
struct Chooser {
    left: IndexSet,
    present: IndexSet,
    count: usize,
    percent: f64,
    stream: Stream,
}

impl Chooser {
    fn new(count: usize, spec: &FilesetSpec, seed: u64, what: &str) -> Chooser {
        Chooser {
            left: IndexSet::full(count),
            present: IndexSet::empty(count),
            count,
            percent: f64::from(spec.prealloc_percent),
            stream: Stream::new(seed, &format!("workload prealloc {what} of {}", spec.name)),
        }
    }

    fn next(&mut self) -> Option<(u32, bool)> {
        if self.left.len() == 0 {
            return None;
        }
        let from = self.stream.below(self.count as u64) as usize;
        let entry = self.left.next_around(from)?;
        self.left.remove(entry);
        let made = self.percent >= 100.0 || self.stream.chance(self.percent / 100.0);
        if made {
            self.present.insert(entry);
        }
        Some((entry as u32, made))
    }
}

fn make_dirs<P: Posix>(client: &mut P, tree: &Tree, counter: &Counter) -> Done {
    let mut path = PathBuffer::new();
    let mut made = IndexSet::empty(tree.dirs());
    made.insert(0);
    counter.step()?;
    let mut missing = Vec::new();
    for dir in (1..tree.dirs() as u32).rev() {
        let mut above = Some(dir);
        while let Some(dir) = above.filter(|&d| !made.contains(d as usize)) {
            missing.push(dir);
            above = tree.parent(dir);
        }
        for dir in missing.drain(..).rev() {
            let path = path.dir(tree, dir);
            client.mkdir(path, 0o755).map_err(|e| failed("mkdir", path, e))?;
            made.insert(dir as usize);
            counter.step()?;
        }
    }
    Ok(())
}

/// Makes a directory and what is missing above it; the error is that of the path that could not be made.
pub(crate) fn make_path<P: Posix>(client: &mut P, path: &[u8]) -> Result<(), (Vec<u8>, FsError)> {
    let ends = path.iter().enumerate().filter(|&(i, &b)| i > 0 && b == b'/').map(|(i, _)| i);
    for end in ends.chain([path.len()]) {
        match client.mkdir(&path[..end], 0o755) {
            Ok(()) | Err(FsError::Exists) => {}
            Err(e) => return Err((path[..end].to_vec(), e)),
        }
    }
    Ok(())
}

fn exists<P: Posix>(client: &mut P, path: &[u8]) -> Done<bool> {
    match client.stat(path) {
        Ok(_) => Ok(true),
        Err(FsError::NoEntry | FsError::NotDir) => Ok(false),
        Err(e) => Err(failed("stat", path, e)),
    }
}

/// `rm -rf path`.
fn remove<P: Posix>(client: &mut P, path: &[u8]) -> Done {
    match client.lstat(path) {
        Err(FsError::NoEntry | FsError::NotDir) => return Ok(()),
        Err(e) => return Err(failed("lstat", path, e)),
        Ok(stat) if stat.attr.kind != FileKind::Dir => {
            return client.unlink(path).map_err(|e| failed("unlink", path, e));
        }
        Ok(_) => {}
    }
    // Directories on the way down; each is emptied of all but directories when it is met first.
    let mut todo = vec![(path.to_vec(), false)];
    while let Some((dir, emptied)) = todo.pop() {
        if emptied {
            client.rmdir(&dir).map_err(|e| failed("rmdir", &dir, e))?;
            continue;
        }
        let entries = client.list(&dir).map_err(|e| failed("readdir", &dir, e))?;
        todo.push((dir.clone(), true));
        for entry in entries.iter().filter(|e| e.name != b"." && e.name != b"..") {
            let path = [&dir[..], b"/", &entry.name].concat();
            if entry.kind == FileKind::Dir {
                todo.push((path, false));
            } else {
                client.unlink(&path).map_err(|e| failed("unlink", &path, e))?;
            }
        }
    }
    Ok(())
}

pub(crate) fn failed(call: &'static str, path: &[u8], source: FsError) -> RunError {
    RunError::Setup { call, path: String::from_utf8_lossy(path).into_owned(), source }
}
