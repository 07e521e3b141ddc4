//! The connection to the server, and its channels.
//!
//! ```text
//!   EPOCH       number of the present connection; handles of earlier ones mean nothing
//!   CHANNELS    EMPTY ── handed over by the server ──> FREE <── one call at a time ──> BUSY
//! ```
//!
//! A call takes a free channel, or asks the server for one more; where none is to be had the call goes to the
//! kernel. The connection is made when the first call needs it, and again after it was lost (fork, another
//! user, a server that ended).
//!
//! Nothing waits for what the same thread holds: a signal handler that comes in between takes another
//! channel, or the kernel. Where it forks, the child's thread finds an empty channel of its own when it goes
//! on, and asks the kernel (signals.rs has changes wait).

use crate::setup::{report, setup};
use crate::{owner, signals, versions};
use granary_direct::channel::spins;
use granary_direct::segment::Segment;
use granary_direct::socket::{ask_channel, connect_through, is_connected, refusal};
use granary_direct::{Answer, Command, Op};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Threads of a program that call at the same time; the server gives no more.
const CHANNELS: usize = 64;
const EMPTY: u32 = 0;
const FREE: u32 = 1;
const BUSY: u32 = 2;
/// Where the socket's number is put, out of the way of programs that count on low ones.
const SOCKET_FROM: c_int = 700;
/// How often a failed connection is left alone before it is tried again: calls.
const REST: u32 = 1000;
/// How often a thread lets others run while one of them connects.
const PATIENCE: u32 = 10_000;

struct Channel {
    state: AtomicU32,
    epoch: AtomicU32,
    /// The thread that has made it BUSY.
    user: AtomicU32,
    segment: UnsafeCell<Option<Segment>>,
}

// SAFETY: the cell is touched only by the thread that has turned EMPTY or FREE into BUSY; and by the only
// thread of a child after a fork.
unsafe impl Sync for Channel {}

static TABLE: [Channel; CHANNELS] = [const {
    Channel {
        state: AtomicU32::new(EMPTY),
        epoch: AtomicU32::new(0),
        user: AtomicU32::new(0),
        segment: UnsafeCell::new(None),
    }
}; CHANNELS];
static EPOCH: AtomicU32 = AtomicU32::new(1);
/// How often this process has become a child.
static FORKS: AtomicU32 = AtomicU32::new(0);
static SOCKET: AtomicI32 = AtomicI32::new(-1);
/// Which file it is.
static SOCKET_FILE: AtomicU64 = AtomicU64::new(0);
/// The thread that makes a connection or asks for a channel.
static ASKING: AtomicU32 = AtomicU32::new(0);
/// Calls until the server is tried again.
static RESTS: AtomicU32 = AtomicU32::new(0);
static SPINS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// The number of this thread.
pub fn thread() -> u32 {
    THREAD.with(|me| {
        if me.get() == 0 {
            me.set(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        }
        me.get()
    })
}

/// A handle, and the connection that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    pub epoch: u32,
    pub handle: u32,
}

impl Connected {
    /// As one word, never 0.
    pub fn word(self) -> u64 {
        (u64::from(self.epoch) << 32) | (u64::from(self.handle) + 1)
    }

    pub fn of(word: u64) -> Option<Connected> {
        let handle = (word as u32).checked_sub(1)?;
        Some(Connected { epoch: (word >> 32) as u32, handle })
    }

    pub fn is_current(&self) -> bool {
        self.epoch == EPOCH.load(SeqCst)
    }
}

/// The number of the present connection.
pub fn epoch() -> u32 {
    EPOCH.load(SeqCst)
}

/// Asks the server: the answer, and the connection that gave it. `of`: the connection that the command's
/// handle is of. `put` fills the data area before, `take` reads it after. `None`: nobody answers; the command
/// may have been done.
pub fn call(
    of: Option<Connected>,
    command: Command,
    put: impl FnOnce(&Segment),
    take: impl FnOnce(&Segment, &Answer),
) -> Option<(Answer, u32)> {
    // Signals wait, or a handler that forks meanwhile would have the change done twice.
    let _held = Op::of(command.op).is_some_and(Op::changes).then(signals::hold);
    if !owner::is_here() {
        return None;
    }
    let forks = FORKS.load(SeqCst);
    let busy = acquire()?;
    let epoch = busy.0.epoch.load(SeqCst);
    if of.is_some_and(|of| of.epoch != epoch) {
        return None;
    }
    // SAFETY: this thread has made it BUSY.
    let segment = unsafe { &*busy.0.segment.get() }.as_ref()?;
    let there = || {
        signals::let_through();
        is_there(epoch)
    };
    // It goes before the channel does.
    let Some(taken) = segment.take(there) else {
        lose(epoch);
        return None;
    };
    put(segment);
    let Some(answer) = taken.ask(&command, SPINS.load(Relaxed), there) else {
        lose(epoch);
        return None;
    };
    take(segment, &answer);
    // A handler has forked meanwhile: this is the child, and what was read was nothing.
    if !owner::is_here() || FORKS.load(SeqCst) != forks {
        return None;
    }
    Some((answer, epoch))
}

/// A channel that this thread has made BUSY.
struct Busy(&'static Channel);

impl Drop for Busy {
    fn drop(&mut self) {
        release(self.0, self.0.epoch.load(SeqCst));
    }
}

/// Closes a handle; where its connection is gone, so is it.
pub fn close(handle: Connected) {
    if handle.is_current() {
        let command = Command { handle: handle.handle, ..Command::new(Op::Close) };
        call(Some(handle), command, |_| (), |_, _| ());
    }
}

fn release(channel: &Channel, epoch: u32) {
    if epoch == EPOCH.load(SeqCst) {
        channel.state.store(FREE, SeqCst);
    } else {
        // SAFETY: this thread has made it BUSY.
        unsafe { *channel.segment.get() = None };
        channel.state.store(EMPTY, SeqCst);
    }
}

fn acquire() -> Option<Busy> {
    let me = thread();
    for _ in 0..PATIENCE {
        let epoch = EPOCH.load(SeqCst);
        let mut is_empty = false;
        for channel in &TABLE {
            match channel.state.load(Relaxed) {
                FREE if channel.state.compare_exchange(FREE, BUSY, SeqCst, Relaxed).is_ok() => {
                    channel.user.store(me, SeqCst);
                    let busy = Busy(channel);
                    if channel.epoch.load(SeqCst) == epoch {
                        return Some(busy);
                    }
                    is_empty = true;
                }
                EMPTY => {
                    is_empty = true;
                    break;
                }
                _ => {}
            }
        }
        if !is_empty {
            rustix::thread::sched_yield();
            continue;
        }
        match one_more() {
            Some(true) => {}
            Some(false) => rustix::thread::sched_yield(),
            None => return None,
        }
    }
    None
}

/// Asks the server for a channel. `Some(false)`: somebody else is asking, or there are no more; `None`: there
/// is no server for this thread.
fn one_more() -> Option<bool> {
    if RESTS.load(Relaxed) > 0 {
        RESTS.fetch_sub(1, Relaxed);
        return None;
    }
    let me = thread();
    match ASKING.compare_exchange(0, me, SeqCst, Relaxed) {
        Ok(_) => {}
        // A signal came while this thread was asking.
        Err(owner) if owner == me => return None,
        Err(_) => return Some(false),
    }
    let got = connect_and_ask();
    ASKING.store(0, SeqCst);
    match got {
        Ok(true) => Some(true),
        // The ones that there are come free.
        Ok(false) if TABLE.iter().any(|c| c.state.load(SeqCst) != EMPTY) => Some(false),
        _ => {
            RESTS.store(REST, Relaxed);
            None
        }
    }
}

fn connect_and_ask() -> Result<bool, ()> {
    let setup = setup().ok_or(())?;
    if SOCKET.load(SeqCst) < 0 {
        let socket = connect_through(&setup.socket, setup.root())
            .map_err(|e| report(&format!("no connection: {e}; the kernel's view serves")))?;
        // Out of the way; where there are fewer descriptors than that it stays where it is.
        let high = rustix::io::fcntl_dupfd_cloexec(&socket, SOCKET_FROM);
        let socket = high.unwrap_or(socket);
        SPINS.store(spins(), Relaxed);
        SOCKET_FILE.store(number_of(&socket), SeqCst);
        SOCKET.store(into_raw(socket), SeqCst);
    }
    let epoch = EPOCH.load(SeqCst);
    let Some(socket) = socket() else { return Err(()) };
    versions::get(socket, epoch);
    let file = match ask_channel(socket) {
        Ok(Ok(file)) => file,
        Ok(Err(errno)) => {
            report(&format!("no channel: {}; the kernel's view serves", refusal(errno)));
            return Ok(false);
        }
        Err(e) => {
            report(&format!("the server has gone: {e}"));
            lose(epoch);
            return Err(());
        }
    };
    let segment = Segment::open(&file).map_err(drop)?;
    for channel in &TABLE {
        if channel.state.compare_exchange(EMPTY, BUSY, SeqCst, Relaxed).is_ok() {
            // SAFETY: this thread has made it BUSY.
            unsafe { *channel.segment.get() = Some(segment) };
            channel.epoch.store(epoch, SeqCst);
            channel.state.store(FREE, SeqCst);
            return Ok(true);
        }
    }
    Ok(false)
}

fn number_of(file: impl AsFd) -> u64 {
    rustix::fs::fstat(file).map_or(0, |s| s.st_ino)
}

fn into_raw(socket: OwnedFd) -> c_int {
    let raw = socket.as_raw_fd();
    std::mem::forget(socket);
    raw
}

fn socket() -> Option<BorrowedFd<'static>> {
    let raw = SOCKET.load(SeqCst);
    // SAFETY: it is this library's, which closes it in `drop_socket` alone; a program that closes what it has
    // not opened meets an error of the socket's calls, or another connection, whose server does not
    // understand.
    (raw >= 0).then(|| unsafe { BorrowedFd::borrow_raw(raw) })
}

/// Whether the server of this connection is there.
pub fn is_there(epoch: u32) -> bool {
    epoch == EPOCH.load(SeqCst) && socket().is_some_and(|socket| is_connected(socket.as_fd()))
}

fn drop_socket() {
    let raw = SOCKET.swap(-1, SeqCst);
    if raw >= 0 {
        // SAFETY: this library's own, and nobody else's from now on.
        drop(unsafe { OwnedFd::from_raw_fd(raw) });
    }
}

/// The connection of this number is no good any more.
fn lose(epoch: u32) {
    if EPOCH.compare_exchange(epoch, epoch.wrapping_add(1), SeqCst, SeqCst).is_ok() {
        drop_socket();
    }
}

/// This process is about to be another user's: the server must ask the kernel again who it is.
pub fn start_anew() {
    if !owner::is_here() {
        return;
    }
    if SOCKET.load(SeqCst) >= 0 {
        lose(EPOCH.load(SeqCst));
    }
    RESTS.store(0, Relaxed);
}

/// This is the child of a fork, with one thread: the connection is the parent's.
pub fn forked() {
    let me = THREAD.with(|me| me.replace(0));
    ASKING.store(0, SeqCst);
    RESTS.store(0, Relaxed);
    FORKS.fetch_add(1, SeqCst);
    EPOCH.fetch_add(1, SeqCst);
    // A child that nobody has told may have closed it, and opened something else.
    if socket().is_some_and(|socket| number_of(socket) == SOCKET_FILE.load(SeqCst)) {
        drop_socket();
    }
    SOCKET.store(-1, SeqCst);
    for channel in &TABLE {
        if channel.state.load(SeqCst) == BUSY && me != 0 && channel.user.load(SeqCst) == me {
            // A handler has forked, and this thread goes on where it was: with memory of its own, in which
            // nobody answers. SAFETY: nobody else is here.
            if let Some(segment) = unsafe { &*channel.segment.get() } {
                segment.leave();
            }
            continue;
        }
        // SAFETY: no other thread is here. Work that the parent's other threads were about to do with it is
        // not done here.
        unsafe { *channel.segment.get() = None };
        channel.state.store(EMPTY, SeqCst);
    }
}

/// Whether a descriptor is this library's own, which programs must not close.
pub fn is_ours(fd: c_int) -> bool {
    fd >= 0 && SOCKET.load(Relaxed) == fd && owner::is_here()
}

/// The number of the library's own descriptor.
pub fn our_socket() -> Option<u32> {
    u32::try_from(SOCKET.load(SeqCst)).ok().filter(|_| owner::is_here())
}

/// The program puts something of its own at this number: ours goes elsewhere.
pub fn make_way(fd: c_int) {
    if is_ours(fd)
        && let Some(socket) = socket()
    {
        match rustix::io::fcntl_dupfd_cloexec(socket, SOCKET_FROM) {
            Ok(other) => SOCKET.store(into_raw(other), SeqCst),
            Err(_) => lose(EPOCH.load(SeqCst)),
        }
    }
}
