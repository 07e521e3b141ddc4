//! Persistent memory and the file system below know each other: files of one must not be looked for in
//! another, nor in an older state.
//!
//! ```text
//!   persistent memory   number, root below, run << 1 | opening        in the superblock
//!   below               number, run                                   an attribute of the root directory
//!
//!   first promotion     a new number, run 1, opening ──> attribute, fsync ──> run 1
//!   mount with files    both must fit ──> run + 1, opening ──> attribute, fsync ──> run + 1
//!   unmount without     attribute gone, fsync ──> no number
//! ```
//!
//! So the attribute says: the newest bytes of some files are in persistent memory, in this one and no other.
//! Both fit if they have one number and one run; a run that was only about to open may be one ahead. An older
//! copy of persistent memory, or of what is below, has an older run. A copy of the directory has another
//! root. Each of them is refused, and nothing is changed.
//!
//! A lower file system without attributes has no number, and nothing is compared. Where asking for the number
//! or setting it fails otherwise, the mount or the fsync that was to promote fails: a pair that is not known
//! to be one is none.
//!
//! The attribute is not shown above.

use crate::fs::Spfs;
use crate::layout::{LOWER, ROOT, RUN, word};
use crate::store::Store;
use granary_device::Structure;
use granary_fs::{Call, FsError, Result};
use granary_vfs::Lower;

/// The attribute's name.
pub const NAME: &[u8] = b"user.granary.spfs";

/// Whether an error says that the lower file system has no such attributes. Every other one, EIO of a host's
/// file system too, is a failure, which says nothing of what is there.
fn lacks_attributes(e: &FsError) -> bool {
    matches!(e, FsError::NotSupported | FsError::NoAttribute)
}

/// Number and run in the attribute below. Earlier versions had no runs.
fn there(lower: &Lower, call: &Call<'_>) -> Result<Option<(u64, u64)>> {
    let value = match lower.getxattr(call, &lower.root(), NAME) {
        Err(e) if lacks_attributes(&e) => return Ok(None),
        value => value?,
    };
    let word = |b: &[u8], at: usize| {
        b.get(at..at + 8).map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")))
    };
    Ok(value.and_then(|b| Some((word(&b, 0)?, word(&b, 8).unwrap_or(0)))))
}

/// Which root directory this is; a copy of it is another one. Never 0.
fn root(lower: &Lower) -> u64 {
    let root = lower.root();
    let ino = lower.stat(&root).ino.0;
    (ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(lower.generation(&root)) << 1) | 1
}

/// Persistent memory's side of the pair.
struct Own {
    number: u64,
    root: u64,
    run: u64,
    opening: bool,
    files: u64,
}

fn own(store: &Store) -> Result<Own> {
    let read = |at| word(&store.pm, at, Structure::Superblock);
    let (number, root, run) = (read(LOWER)?, read(ROOT)?, read(RUN)?);
    let mut files = 0;
    store.names.for_each(&store.pm, &mut |_, _| {
        files += 1;
        Ok(())
    })?;
    Ok(Own { number, root, run: run >> 1, opening: run & 1 == 1, files })
}

/// Whether persistent memory may be mounted over this file system.
///
/// # Errors
/// `Mismatch` says why not; the devices'.
pub fn check(store: &Store, lower: &Lower) -> Result<()> {
    let own = own(store)?;
    let there = there(lower, &Call::kernel(lower.vfs().time()))?;
    let no = |why: String| Err(FsError::Mismatch(why));
    match there {
        Some((number, run)) if number != own.number && own.files == 0 => no(format!(
            "the newest bytes of some files below are in another persistent memory (pair {number:016x}, run {run}), and this one has \
             none of them: mount with that one, or give up what it has (`granary mount --stack DIR --forget IMAGE MNT`)"
        )),
        _ if own.number == 0 || own.files == 0 => Ok(()),
        Some((number, run)) if number == own.number => {
            let fits = run == own.run || own.opening && run + 1 == own.run;
            let copy = own.root != 0 && own.root != root(lower);
            match (fits, copy) {
                (true, false) => Ok(()),
                (true, true) => no(format!(
                    "what is below is a copy of the directory that this persistent memory has the newest bytes of {} files for: put back \
                     that directory itself, or give up what persistent memory has (`--forget`)",
                    own.files
                )),
                (false, _) => {
                    let old = if own.run < run {
                        "this persistent memory is an older copy"
                    } else {
                        "what is below is an older copy"
                    };
                    no(format!(
                        "{old}: persistent memory was used in run {}, what is below in run {run}. Put back the newest of both, or give \
                         up what persistent memory has (`--forget`)",
                        own.run
                    ))
                }
            }
        }
        other => no(format!(
            "this persistent memory has {} files of another file system{}: mount it over that one, or make it anew and lose them \
             (`--forget` does)",
            own.files,
            if other.is_none() { " (what is below knows of none)" } else { "" }
        )),
    }
}

/// Forgets, below, that persistent memory has the newest bytes of some files.
///
/// # Errors
/// The lower file system's.
pub fn forget(lower: &Lower) -> Result<()> {
    let call = Call::kernel(lower.vfs().time());
    match lower.setxattr(&call, &lower.root(), NAME, None) {
        Err(e) if lacks_attributes(&e) => Ok(()),
        Err(e) => Err(e),
        Ok(()) => lower.fsync(&call, &lower.root(), false),
    }
}

impl Spfs {
    /// Both sides of the pair say this number and run; durable.
    fn enter(&self, call: &Call<'_>, number: u64, run: u64) -> Result<()> {
        let put = |at, value| {
            let mut b = self.store.pm.batch();
            b.put_u64(at, value, Structure::Superblock)?;
            b.fence()
        };
        let _step = granary_sim::step("spfs: a run of the pair opens");
        put(RUN, run << 1 | 1)?;
        put(ROOT, root(&self.lower))?;
        put(LOWER, number)?;
        let value = [number.to_le_bytes(), run.to_le_bytes()].concat();
        let below = self.lower.root();
        // The pair is nobody's business above: nor is it a change of the root directory.
        match self.unseen(&below, |call| self.lower.setxattr(call, &below, NAME, Some(&value))) {
            Ok(()) => self.lower.fsync(call, &below, false)?,
            Err(e) if lacks_attributes(&e) => put(LOWER, 0)?,
            Err(e) => return Err(e),
        }
        put(RUN, run << 1)
    }

    /// Sees to it that persistent memory is paired, before it has a file.
    pub(crate) fn pair(&self, call: &Call<'_>) -> Result<()> {
        let mut paired = self.paired.lock();
        if *paired {
            return Ok(());
        }
        let old = word(&self.store.pm, LOWER, Structure::Superblock)?;
        // The attribute below still names this memory, which has had files before. With another number in one
        // of the two alone, a power failure here would leave a pair that fits nowhere.
        if there(&self.lower, call)?.is_some_and(|(number, _)| number == old && old != 0) {
            let run = word(&self.store.pm, RUN, Structure::Superblock)? >> 1;
            self.enter(call, old, run + 1)?;
            *paired = true;
            return Ok(());
        }
        // Another one than before, and than others': by when it was made.
        let number =
            (granary_sim::now().0 ^ (self.lower.vfs().time().0 as u64).rotate_left(20) ^ old.rotate_left(7))
                | 1;
        self.enter(call, number, 1)?;
        *paired = true;
        Ok(())
    }

    /// A mount of persistent memory that has files: the next run begins.
    pub(crate) fn next_run(&self, call: &Call<'_>) -> Result<()> {
        let own = own(&self.store)?;
        // A lower file system without attributes has no number.
        if own.files == 0 || own.number == 0 {
            return Ok(());
        }
        // A run that a power failure kept from opening is opened again: the attribute may still be one
        // behind, never two.
        self.enter(call, own.number, if own.opening { own.run } else { own.run + 1 })
    }

    /// An unmount: where no file is left, what is below is whole by itself.
    pub(crate) fn part(&self, call: &Call<'_>) -> Result<()> {
        let own = own(&self.store)?;
        if own.files > 0 || own.number == 0 {
            return Ok(());
        }
        if there(&self.lower, call)?.is_some_and(|(number, _)| number == own.number) {
            forget(&self.lower)?;
        }
        let mut b = self.store.pm.batch();
        b.put_u64(LOWER, 0, Structure::Superblock)?;
        b.fence()
    }
}
