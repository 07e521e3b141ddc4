//! [`Direct`]: direct access, the second way to a mounted file system (`granary_direct` is its protocol).
//!
//! ```text
//!   thread "direct"             accepts programs ── Peer: who it is (SO_PEERCRED), its open files
//!   thread "direct PID"         one for each program: hands out channels; ends when the program's socket
//!                               closes
//!   thread "direct PID.N"       one for each channel: command ──> Vfs ──> answer
//!                                                     (serve.rs, names.rs, walk.rs)
//!                                        └─ views.rs: the kernel's pages of the file are dropped, if any
//! ```
//!
//! Answers that stay true for a while come with a version, so that a program may keep them (versions.rs).
//!
//! It is the same vfs as the FUSE requests', under the same guard, and waits for the same durability. But the
//! caller is a real one: the vfs checks what the process may do. The kernel tells its user, groups and number
//! when it connects. The process first shows that it reaches the mount (reach.rs). The resources of one
//! user's programs together are limited (users.rs).
//!
//! Invariants:
//!
//! 1. Nothing of a command is looked at before it is copied. A handle is an index that is checked.
//! 2. When a program's socket closes, however it died, its threads end and its files are closed. After the
//!    last socket of a process the file system learns that it has ended (`Life::process_ended`).
//! 3. When the mount ends, all of that happens before the vfs is unmounted.
//!
//! It does *not* know locks, mappings, the reading of directories, or paths that leave the mount: they are
//! the FUSE view's.
//!
//! Source: DevFS (FAST '18) sections 4.1 and 4.4: queues in shared memory, credentials that the operating
//! system has vouched for.

mod names;
mod peer;
mod reach;
mod serve;
mod users;
mod versions;
mod views;
mod walk;

use crate::adapter::Adapter;
use granary_direct::channel::Crowd;
use granary_direct::socket::{accept, listen_at};
use granary_sim::JoinHandle;
use granary_units::Nanos;
use parking_lot::Mutex;
use peer::Peer;
use reach::Table;
use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use users::Users;
pub(crate) use views::Settling;

/// Programs that may be connected at once. Each takes a thread.
const MAX_PEERS: usize = 512;
/// Channels of all of them. Each takes a thread, and up to 1 MiB of memory that both sides see.
const MAX_CHANNELS: usize = 1024;

/// State that the threads share.
pub(crate) struct Shared {
    adapter: Arc<Adapter>,
    /// Other users than the one who serves may connect.
    others: bool,
    ends: AtomicBool,
    channels: AtomicUsize,
    crowd: Arc<Crowd>,
    mounts: Arc<Table>,
    users: Users,
    peers: Mutex<BTreeMap<u64, Arc<Peer>>>,
}

/// See the module. Dropped, it has ended.
pub(crate) struct Direct {
    path: PathBuf,
    listener: Arc<OwnedFd>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Direct {
    /// Serves at the socket `path`, which does not exist yet, the mount of this device ("major:minor").
    /// `others`: every user who can reach the mount may connect.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(
        adapter: &Arc<Adapter>,
        path: &Path,
        device: &str,
        others: bool,
    ) -> io::Result<Direct> {
        versions::begin();
        let mounts = Arc::new(Table::of(None, device)?);
        let listener = Arc::new(listen_at(path, if others { 0o666 } else { 0o600 })?);
        let shared = Arc::new(Shared {
            adapter: Arc::clone(adapter),
            others,
            ends: AtomicBool::new(false),
            channels: AtomicUsize::new(0),
            crowd: Arc::new(Crowd::new()),
            mounts,
            users: Users::default(),
            peers: Mutex::default(),
        });
        let (its, socket) = (Arc::clone(&shared), Arc::clone(&listener));
        let thread = granary_sim::spawn("direct", move || its.listen(&socket));
        Ok(Direct { path: path.to_owned(), listener, shared, thread: Some(thread) })
    }

    /// Lets go of all programs, and ends.
    pub(crate) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.ends.store(true, SeqCst);
        // accept(2) of a socket that is shut down ends with EINVAL.
        let _ = shutdown(&*self.listener, Shutdown::Both);
        let _ = fs::remove_file(&self.path);
        thread.join();
        versions::expire();
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn listen(self: &Arc<Shared>, listener: &OwnedFd) {
        let mut threads: BTreeMap<u64, JoinHandle<()>> = BTreeMap::new();
        for number in 0.. {
            let socket = match accept(listener.as_fd()) {
                Ok(Some(socket)) => socket,
                Ok(None) => break,
                Err(_) if self.ends.load(SeqCst) => break,
                Err(_) => {
                    // No descriptor is free: some program will go.
                    granary_sim::sleep(Nanos::from_millis(10));
                    continue;
                }
            };
            // Those that have ended since.
            let alive: Vec<u64> = self.peers.lock().keys().copied().collect();
            let ended: Vec<u64> =
                threads.keys().copied().filter(|n| alive.binary_search(n).is_err()).collect();
            ended.iter().filter_map(|n| threads.remove(n)).for_each(JoinHandle::join);
            if alive.len() >= MAX_PEERS {
                let _ = granary_direct::socket::refuse(socket.as_fd(), rustix::io::Errno::AGAIN);
                continue;
            }
            match Peer::of(socket, self) {
                Ok(peer) => {
                    let peer = Arc::new(peer);
                    self.peers.lock().insert(number, Arc::clone(&peer));
                    let its = Arc::clone(self);
                    let name = format!("direct {}", peer.caller.process);
                    threads.insert(
                        number,
                        granary_sim::spawn(&name, move || {
                            peer.attend(&its);
                            its.let_go(number, peer.caller.process);
                        }),
                    );
                }
                Err((socket, why)) => drop(granary_direct::socket::refuse(socket.as_fd(), why)),
            }
        }
        self.peers.lock().values().for_each(|peer| peer.hang_up());
        threads.into_values().for_each(JoinHandle::join);
    }

    /// This connection has ended. When it was the last one of its process, the file system takes back what it
    /// has lent to that.
    fn let_go(&self, number: u64, process: u32) {
        let is_last = {
            let mut peers = self.peers.lock();
            peers.remove(&number);
            !peers.values().any(|peer| peer.caller.process == process)
        };
        if is_last {
            self.adapter.guard.answer(|| self.adapter.vfs.process_ended(process));
        }
    }

    /// Takes one of the channels, if one is left.
    fn take_channel(&self) -> bool {
        let more = |n: usize| (n < MAX_CHANNELS).then_some(n + 1);
        self.channels.fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    fn give_channel_back(&self) {
        self.channels.fetch_sub(1, SeqCst);
    }
}
