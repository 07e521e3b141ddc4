//! JBD2: block journalling of metadata, and with `data = "journal"` of file data, in transactions that many
//! operations share.
//!
//! ```text
//!   operation:  start(credits) -> Handle -> change blocks ... -> stop
//!                     |joins
//!   running T+1  ──(5 s, fsync, full: locked, drained of handles, blocks snapshot)──> committing T
//!   committing T:  [revokes][descriptor|copies]... -> wait, ordered data too -> FLUSH -> commit block (FUA)
//!   committed:     blocks wait to be written home (checkpoint): after 30 s, by sync, or when the log is
//!                  short
//!
//!   log:  | sb |      tail ->[T-3][T-2][T-1][T]<- head            |   blocks 1..len, circular
//! ```
//!
//! Invariants
//! - A block is written home only with content that is committed: never while the running or committing
//!   transaction holds it. A block that the running transaction changes while it is being committed is copied
//!   on write (the snapshot is the kernel's "frozen data").
//! - The log's tail passes a transaction only when each of its blocks is home or in a later committed
//!   transaction.
//! - Blocks freed in T are given back to the allocator when T has committed, and their home writes dropped
//!   then.
//! - A task that holds a handle never waits for a commit. A task that starts a handle holds no lock that
//!   handle holders take.
//!
//! Lock order: operation locks, handle, `home`, `tail`, `state` (the last is only held for bookkeeping).
//!
//! With a data journal a handle brings pages of files into its transaction, too. They are kept here until
//! they are home, and reads find them here. Then there are no revoke records, as in the kernel
//! (`ext4_forget`): new content of a freed block is itself journalled, in the transaction that maps it, so
//! that replay ends with the newest content.
//!
//! Not here: fast commit, asynchronous commit, the batching pause for synchronous handles. Source:
//! reference/baselines.md section 3.2; S. Tweedie, "Journaling the Linux ext2fs" (1998); behaviour of
//! Linux 6.1 fs/jbd2.

mod checkpoint;
mod commit;
mod handle;
mod log;
mod replay;
mod state;
mod tasks;

pub(crate) use handle::Handle;
use log::place;
pub(crate) use replay::{Replay, replay};
use state::{Checkpoint, Committing, Content, Running, State, Tracked};

use crate::layout::corrupt;
use crate::layout::journal::REVOKES;
use crate::options::JournalShare;
use granary_device::{Port, Ticket};
use granary_fs::Result;
use granary_kit::BlockCache;
use granary_sim::sync::{Condvar, Mutex};
use granary_sim::{costs, cpu, now};
use granary_units::{Nanos, Page};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// Counters of the journal since mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Transactions committed.
    pub commits: u64,
    /// Blocks written to the journal: revokes, descriptors, copies, commit blocks.
    pub log_blocks: u64,
    /// FLUSH commands: PREFLUSH of commit blocks, empty flushes of fsync, before tail updates.
    pub flushes: u64,
    /// Writes with FUA: commit blocks, tail updates.
    pub fua_writes: u64,
    /// Writes of the journal's superblock.
    pub superblock_writes: u64,
    /// Blocks written home.
    pub home_blocks: u64,
}

/// Where the journal lies: runs of (first journal block, first page, blocks).
pub(crate) type LogRuns = Vec<(u32, u64, u32)>;

/// Where the journal lies and how it behaves.
pub(crate) struct LogConfig {
    pub map: LogRuns,
    pub len: u32,
    pub next_tid: u32,
    pub commit_interval: Nanos,
    pub barrier: bool,
    /// Age at which a committed block is written home.
    pub expire: Nanos,
    /// How often the flusher looks.
    pub wake: Nanos,
    /// File data is journalled.
    pub data: bool,
    /// The largest transaction, as a part of the log.
    pub share: JournalShare,
}

/// Receives the blocks freed by a committed transaction: runs of (first block, count).
pub(crate) type Release = Box<dyn Fn(&[(u64, u32)]) + Send + Sync>;

/// Starts writing pages of files, (inode, page), as far as they are dirty and lie where they are committed to
/// lie. Begins no handle.
pub(crate) type WriteCut = Box<dyn Fn(&BTreeSet<(u32, u32)>) -> Ticket + Send + Sync>;

pub(crate) struct Journal {
    port: Port,
    cache: Arc<BlockCache>,
    config: LogConfig,
    /// Most blocks of a transaction, all included.
    max_transaction: u32,
    state: Mutex<State>,
    /// The commit task waits here for work.
    wake: Condvar,
    /// A transaction has committed.
    done: Condvar,
    /// A new running transaction may begin.
    unlocked: Condvar,
    /// The last handle of a locked transaction has stopped.
    drained: Condvar,
    /// Blocks wait to go home.
    dirtied: Condvar,
    /// Held while blocks are written home.
    home: Mutex<()>,
    /// Held while the journal's superblock is written.
    tail: Mutex<()>,
    /// Held by the task that makes room in the log.
    space: Mutex<()>,
    release: Release,
    write_cut: OnceLock<WriteCut>,
}

impl Journal {
    /// A journal whose log is empty.
    ///
    /// # Errors
    /// `Corrupt` where it is too short to hold a transaction.
    pub fn new(port: Port, cache: Arc<BlockCache>, config: LogConfig, release: Release) -> Result<Journal> {
        if config.len < 512 {
            return Err(corrupt(format!("a journal of {} blocks is too short", config.len)));
        }
        let state = State {
            next_tid: config.next_tid,
            committed: config.next_tid - 1,
            head: 1,
            tail: 1,
            tail_tid: config.next_tid,
            free: config.len - 1,
            marked_empty: true,
            ..State::default()
        };
        Ok(Journal {
            port,
            cache,
            max_transaction: config.share.of(config.len),
            config,
            state: Mutex::new(state),
            wake: Condvar::new(),
            done: Condvar::new(),
            unlocked: Condvar::new(),
            drained: Condvar::new(),
            dirtied: Condvar::new(),
            home: Mutex::new(()),
            tail: Mutex::new(()),
            space: Mutex::new(()),
            release,
            write_cut: OnceLock::new(),
        })
    }

    /// Sets the writer of [`Handle::cut_page`]'s pages.
    pub fn write_cut_by(&self, write: WriteCut) {
        assert!(self.write_cut.set(write).is_ok(), "set once");
    }

    /// Runs `body` in a handle of at most `credits` blocks.
    ///
    /// # Errors
    /// Of `body`; the drive's where the journal was aborted.
    pub fn run<T>(&self, credits: u32, body: impl FnOnce(&mut Handle<'_>) -> Result<T>) -> Result<T> {
        let mut handle = self.start(credits)?;
        let result = body(&mut handle);
        handle.stop();
        result
    }

    /// Opens a handle: joins the running transaction, waiting for one that has room and for room in the log.
    ///
    /// # Errors
    /// The drive's where the journal was aborted.
    pub fn start(&self, credits: u32) -> Result<Handle<'_>> {
        let most = self.most_metas();
        assert!(credits <= most, "a handle of {credits} blocks in transactions of {most}");
        let mut s = self.state.lock();
        loop {
            if let Some(e) = &s.aborted {
                return Err(e.clone());
            }
            if let Some(r) = &s.running {
                if r.locked {
                    self.unlocked.wait(&mut s);
                    continue;
                }
                let used = r.metas.len() + r.reserved as usize + r.revoked.len() / REVOKES;
                if used + credits as usize > most as usize {
                    s.requested = s.requested.max(r.tid);
                    self.wake.notify_one();
                    self.unlocked.wait(&mut s);
                    continue;
                }
            }
            // 32 blocks in hand, as in the kernel's jbd2_log_space_left.
            if s.free < self.max_transaction + 32 {
                drop(s);
                self.make_space()?;
                s = self.state.lock();
                continue;
            }
            break;
        }
        let tid = s.next_tid;
        let r = s.running.get_or_insert_with(|| Running {
            tid,
            started: now(),
            locked: false,
            updates: 0,
            reserved: 0,
            metas: Vec::new(),
            revoked: Vec::new(),
            forgotten: Vec::new(),
            freed: Vec::new(),
            ordered: Nanos::ZERO,
            cut: BTreeSet::new(),
        });
        r.updates += 1;
        r.reserved += credits;
        let (tid, first) = (r.tid, r.updates == 1 && r.metas.is_empty());
        if tid == s.next_tid {
            s.next_tid += 1;
        }
        drop(s);
        if first {
            self.wake.notify_one(); // the commit task sets its timer
        }
        Ok(Handle::new(self, tid, credits))
    }

    /// Most metadata blocks of a transaction: descriptors, revokes and the commit block need room too.
    fn most_metas(&self) -> u32 {
        self.max_transaction - self.max_transaction / 32 - 8
    }

    /// File data that is not home yet: what the block at `lpa` holds when a file's.
    pub fn data(&self, lpa: u64) -> Option<Page> {
        match self.state.lock().tracked.get(&lpa) {
            Some(Tracked { content: Content::Data(page), .. }) => Some(page.clone()),
            _ => None,
        }
    }

    /// The transaction that an inode loaded now has to assume its last change in: the kernel's `ext4_iget`
    /// rule.
    pub fn present_tid(&self) -> u32 {
        let s = self.state.lock();
        match (&s.running, s.committing) {
            (Some(r), _) => r.tid,
            (None, Some(c)) => c.tid,
            (None, None) => s.committed,
        }
    }

    /// Makes transaction `tid` durable, and all data written before: fsync's last step. Commits where needed;
    /// sends an empty flush where no commit block will come.
    ///
    /// # Errors
    /// Of the drive.
    pub fn sync_tid(&self, tid: u32) -> Result<()> {
        let mut s = self.state.lock();
        let covered = match (&s.running, s.committing) {
            (Some(r), _) if r.tid == tid => true,
            (_, Some(c)) if c.tid == tid => !c.flushed,
            _ => false,
        };
        self.wait_committed(&mut s, tid)?;
        drop(s);
        if covered { Ok(()) } else { self.flush() }
    }

    /// Commits the running transaction and waits for the committing one.
    ///
    /// # Errors
    /// Of the drive.
    pub fn commit_all(&self) -> Result<()> {
        let mut s = self.state.lock();
        let tid = match (&s.running, s.committing) {
            (Some(r), _) => r.tid,
            (None, Some(c)) => c.tid,
            (None, None) => return s.aborted.clone().map_or(Ok(()), Err),
        };
        self.wait_committed(&mut s, tid)
    }

    fn wait_committed(&self, s: &mut granary_sim::sync::MutexGuard<'_, State>, tid: u32) -> Result<()> {
        if s.committed >= tid {
            return s.aborted.clone().map_or(Ok(()), Err);
        }
        if s.requested < tid {
            s.requested = tid;
        }
        self.wake.notify_one();
        while s.committed < tid && s.aborted.is_none() {
            self.done.wait(s);
        }
        let result = s.aborted.clone().map_or(Ok(()), Err);
        granary_sim::sync::MutexGuard::unlocked(s, || cpu(costs().context_switch));
        result
    }

    /// A FLUSH where barriers are on.
    ///
    /// # Errors
    /// Of the drive.
    pub fn flush(&self) -> Result<()> {
        if self.config.barrier {
            self.state.lock().stats.flushes += 1;
            self.port.flush()?;
        }
        Ok(())
    }

    /// Waits for writes with FUA; without barriers they are plain ones (`JBD2_BARRIER`).
    fn wait_safe(&self, ticket: granary_device::Ticket) -> Result<()> {
        if self.config.barrier {
            return Ok(self.port.wait_safe(ticket)?);
        }
        self.port.wait(ticket);
        Ok(())
    }

    /// Counters since mount.
    pub fn stats(&self) -> JournalStats {
        self.state.lock().stats
    }
}
