//! JBD2: block journalling of metadata, and with `data = "journal"` of file data, in transactions that many operations
//! share.
//!
//! ```text
//!   operation:  start(credits) -> Handle -> change blocks ... -> stop
//!                     |joins
//!   running T+1  ──(5 s, fsync, full: locked, drained of handles, blocks snapshot)──> committing T
//!   committing T:  [revokes][descriptor|copies]... -> wait, ordered data too -> FLUSH -> commit block (FUA)
//!   committed:     blocks wait to be written home (checkpoint): after 30 s, by sync, or when the log is short
//!
//!   log:  | sb |      tail ->[T-3][T-2][T-1][T]<- head            |   blocks 1..len, circular
//! ```
//!
//! Invariants
//! - A block is written home only with content that is committed: never while the running or committing transaction
//!   holds it. A block that the running transaction changes while it is being committed is copied on write (the
//!   snapshot is the kernel's "frozen data").
//! - The log's tail passes a transaction only when each of its blocks is home or in a later committed transaction.
//! - Blocks freed in T are given back to the allocator when T has committed, and their home writes dropped then.
//! - Whoever holds a handle never waits for a commit; whoever starts a handle holds no lock that handle holders take.
//!
//! Lock order: operation locks, handle, `home`, `tail`, `state` (the last is only held for bookkeeping).
//!
//! With a data journal a handle brings pages of files into its transaction, too; they are kept here until they are home,
//! and reads find them here. Then there are no revoke records, as in the kernel (`ext4_forget`): whatever comes into a
//! freed block is itself journalled, in the transaction that maps it, so that replay ends with the newest content.
//!
//! Not here: fast commit, asynchronous commit, the batching pause for synchronous handles. Source: reference/baselines.md section 3.2; S. Tweedie, "Journaling the Linux ext2fs"
//! (1998); behaviour of Linux 6.1 fs/jbd2.

mod checkpoint;
mod commit;
mod handle;
mod replay;

pub(crate) use handle::Handle;
pub(crate) use replay::{Replay, replay};

use crate::layout::corrupt;
use crate::layout::journal::{LogSuper, REVOKES};
use crate::options::JournalShare;
use granary_device::{Port, Structure, Ticket};
use granary_fs::{FsError, Result};
use granary_kit::{Block, BlockCache};
use granary_sim::sync::{Condvar, Mutex};
use granary_sim::{costs, cpu, now};
use granary_units::{Lpa, Nanos, Page};
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

/// What the journal did since mount.
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

/// Starts writing pages of files, (inode, page), as far as they are dirty and lie where they are committed to lie. Begins no handle.
pub(crate) type WriteCut = Box<dyn Fn(&BTreeSet<(u32, u32)>) -> Ticket + Send + Sync>;

/// What is journalled.
enum Content {
    /// A metadata block, shared with the cache and pinned there.
    Meta(Arc<Block>),
    /// File data as the last handle left it.
    Data(Page),
}

impl Content {
    fn what(&self) -> Structure {
        match self {
            Content::Meta(block) => block.what(),
            Content::Data(_) => Structure::Data,
        }
    }

    /// The content now, as a page that later changes do not touch.
    fn snapshot(&self) -> Page {
        match self {
            Content::Meta(block) => block.snapshot(),
            Content::Data(page) => page.clone(),
        }
    }

    /// No transaction knows it any more.
    fn let_go(&self) {
        if let Content::Meta(block) = self {
            block.unpin();
        }
    }
}

/// A block that some transaction knows; numbers are transactions, 0 = none.
struct Tracked {
    content: Content,
    running: u32,
    committing: u32,
    /// Last committed transaction with the block, while it is not home.
    home: u32,
    /// The running or committing transaction has freed it: what is in memory is not what was committed, and does not go home.
    doomed: bool,
}

/// The transaction that operations join.
struct Running {
    tid: u32,
    started: Nanos,
    locked: bool,
    /// Open handles.
    updates: u32,
    /// Credits of the open handles.
    reserved: u32,
    /// Blocks in the order in which they were first changed.
    metas: Vec<u64>,
    revoked: Vec<u64>,
    /// Freed blocks that some transaction knows, without a revoke record (data journal).
    forgotten: Vec<u64>,
    freed: Vec<(u64, u32)>,
    /// When the last ordered data is on the drive.
    ordered: Nanos,
    /// Pages of files, (inode, page), that the commit writes where they are dirty.
    cut: BTreeSet<(u32, u32)>,
}

/// A committed transaction whose blocks are not all home.
struct Checkpoint {
    tid: u32,
    /// Its first block in the log.
    first: u32,
    /// Blocks that wait for their home write on behalf of this transaction.
    left: usize,
    metas: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Committing {
    tid: u32,
    first: u32,
    /// The flush of the commit block has been sent: data written from now on is not covered.
    flushed: bool,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    committing: Option<Committing>,
    next_tid: u32,
    committed: u32,
    requested: u32,
    tracked: FxHashMap<u64, Tracked>,
    checkpoints: VecDeque<Checkpoint>,
    /// Next log block to write.
    head: u32,
    /// Oldest log block that recovery needs, and its transaction.
    tail: u32,
    tail_tid: u32,
    free: u32,
    /// The superblock on media says that the log is empty.
    marked_empty: bool,
    /// When the first of the blocks that wait to go home came to wait.
    dirty_since: Option<Nanos>,
    stop: bool,
    aborted: Option<FsError>,
    stats: JournalStats,
}

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

    /// Who writes [`Handle::cut_page`]'s pages from now on.
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

    /// The transaction that an inode loaded now has to assume its last change in: the kernel's `ext4_iget` rule.
    pub fn present_tid(&self) -> u32 {
        let s = self.state.lock();
        match (&s.running, s.committing) {
            (Some(r), _) => r.tid,
            (None, Some(c)) => c.tid,
            (None, None) => s.committed,
        }
    }

    /// Makes transaction `tid` durable, and all data written before: fsync's last step. Commits where needed; sends
    /// an empty flush where no commit block will come.
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

    /// What it did so far.
    pub fn stats(&self) -> JournalStats {
        self.state.lock().stats
    }

    /// The commit task: commits what was asked for, and what is older than the interval.
    pub fn commit_loop(&self) {
        loop {
            let mut s = self.state.lock();
            loop {
                if s.stop || s.aborted.is_some() {
                    return;
                }
                let Some(r) = &s.running else {
                    self.wake.wait(&mut s);
                    continue;
                };
                let due = r.started.saturating_add(self.config.commit_interval);
                if s.requested >= r.tid || now() >= due {
                    break;
                }
                self.wake.wait_until(&mut s, due);
            }
            drop(s);
            cpu(costs().context_switch);
            if let Err(e) = self.commit() {
                self.abort(e);
            }
        }
    }

    /// The flusher: writes blocks home that have waited long enough.
    pub fn flush_loop(&self) {
        loop {
            let mut s = self.state.lock();
            loop {
                if s.stop || s.aborted.is_some() {
                    return;
                }
                let Some(since) = s.dirty_since else {
                    self.dirtied.wait(&mut s);
                    continue;
                };
                // The flusher looks every `wake` and takes what has expired by then.
                let wake = self.config.wake.0.max(1);
                let due = Nanos(since.saturating_add(self.config.expire).0.div_ceil(wake) * wake);
                if now() >= due {
                    break;
                }
                self.dirtied.wait_until(&mut s, due);
            }
            drop(s);
            cpu(costs().context_switch);
            if let Err(e) = self.write_home(checkpoint::Which::All) {
                self.abort(e);
            }
        }
    }

    /// Ends both tasks' loops.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.wake.notify_all();
        self.dirtied.notify_all();
    }

    /// The drive failed: every further change is refused with its error.
    fn abort(&self, error: FsError) {
        let mut s = self.state.lock();
        s.aborted.get_or_insert(error);
        drop(s);
        for c in [&self.wake, &self.done, &self.unlocked, &self.drained, &self.dirtied] {
            c.notify_all();
        }
    }

    /// Writes the journal's superblock.
    fn write_super(&self, sequence: u32, start: u32, fua: bool) -> Result<()> {
        let page = LogSuper { len: self.config.len, sequence, start }.page();
        let mut s = self.state.lock();
        s.stats.superblock_writes += 1;
        s.stats.fua_writes += fua as u64;
        drop(s);
        let ticket = self.port.submit_write(Lpa(self.config.map[0].1), &[page], Structure::Journal)?;
        if fua {
            return self.wait_safe(ticket);
        }
        self.port.wait(ticket);
        Ok(())
    }

    /// The log block `n` blocks after `at`.
    fn after(&self, at: u32, n: u32) -> u32 {
        let room = self.config.len - 1;
        (at - 1 + n) % room + 1
    }

    /// Blocks from log block `from` up to `to`.
    fn distance(&self, from: u32, to: u32) -> u32 {
        let room = self.config.len - 1;
        (to + room - from) % room
    }

    /// Starts writing pages into the log from block `at` on, in as few commands as the log's runs allow.
    fn submit_log(&self, mut at: u32, mut pages: &[Page]) -> Result<granary_device::Ticket> {
        let mut ticket = granary_device::Ticket::NONE;
        while !pages.is_empty() {
            let (lpa, run) = place(&self.config.map, at);
            let n = (run as usize).min(pages.len());
            ticket = ticket.and(self.port.submit_write(Lpa(lpa), &pages[..n], Structure::Journal)?);
            pages = &pages[n..];
            at = self.after(at, n as u32);
        }
        Ok(ticket)
    }
}

/// The page of log block `at`, and how many log blocks from it on lie together.
fn place(map: &[(u32, u64, u32)], at: u32) -> (u64, u32) {
    let i = map.partition_point(|run| run.0 <= at) - 1;
    let (first, lpa, len) = map[i];
    (lpa + (at - first) as u64, first + len - at)
}
