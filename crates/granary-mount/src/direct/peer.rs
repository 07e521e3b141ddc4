//! [`Peer`]: a program that is connected: its identity, its open files, its channels.
//!
//! ```text
//!   handle = index into `files`          checked; each use holds the file for the time of one command
//! ```
//!
//! The kernel tells the identity at the moment of the connection (SO_PEERCRED, SO_PEERGROUPS), as everywhere
//! with UNIX sockets. Later changes do not count: the library then connects anew. A superuser without the
//! capabilities that go with it is not taken for one: such a program is refused, and stays with the kernel's
//! view.
//!
//! Invariant: however the connection ends, every open file is closed exactly once, by its last user.
#![allow(unsafe_code, reason = "SO_PEERGROUPS, which rustix does not have")]

use super::reach::Reach;
use super::users::{MAX_FILES, Share, User};
use super::{Shared, versions};
use crate::adapter::process_status;
use granary_direct::channel::{spins, spins_after};
use granary_direct::segment::Segment;
use granary_direct::socket::{Request, hand_over, next_request, refuse, welcome};
use granary_fs::{Caller, Cred, FsError, Result};
use granary_sim::JoinHandle;
use granary_vfs::{OpenFile, Vfs};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use rustix::process::geteuid;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// Channels of one program: threads that call at the same time.
const MAX_CHANNELS: usize = 64;
/// CAP_CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID of linux/capability.h: the capabilities that make
/// a superuser of files.
const SUPERUSER: u64 = 0b1_1111;

/// The open files.
#[derive(Default)]
struct Files {
    slots: Vec<Option<Arc<OpenFile>>>,
    free: Vec<u32>,
}

/// See the module.
pub(crate) struct Peer {
    socket: OwnedFd,
    pub(super) caller: Caller,
    user: Arc<User>,
    /// There once it has shown it.
    reach: OnceLock<Reach>,
    /// It may learn when what changes that it does not look at: it is the user who serves, or root.
    pub(super) sees_all: bool,
    files: Mutex<Files>,
    ends: AtomicBool,
}

/// The supplementary groups of the process at the other end.
fn groups(socket: BorrowedFd<'_>) -> std::result::Result<Vec<u32>, Errno> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut len = (groups.len() * 4) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to the vector, which has as many, and the length to
        // `len`.
        let done = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        let error = std::io::Error::last_os_error();
        match (done, error.raw_os_error()) {
            (0, _) => {
                groups.truncate(len as usize / 4);
                return Ok(groups);
            }
            // `len` is what it takes.
            (_, Some(libc::ERANGE)) if len as usize > groups.len() * 4 => groups.resize(len as usize / 4, 0),
            _ => return Err(Errno::from_io_error(&error).unwrap_or(Errno::PERM)),
        }
    }
}

/// The user, group and number of the process at the other end; the number is 0 where it is of a namespace
/// that this process does not see.
fn credentials(socket: BorrowedFd<'_>) -> std::result::Result<(u32, u32, u32), Errno> {
    let mut who = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the structure, which has as many, and the length to
    // `len`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &raw mut len,
        )
    };
    let error = std::io::Error::last_os_error();
    match done {
        0 => Ok((who.uid, who.gid, who.pid.unsigned_abs())),
        _ => Err(Errno::from_io_error(&error).unwrap_or(Errno::PERM)),
    }
}

/// Which namespace of a kind a process is in; `None` where this process may not look.
fn namespace(process: &str, kind: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/{kind}")).ok()
}

/// The caller at the other end.
fn caller(socket: BorrowedFd<'_>, others: bool) -> std::result::Result<Caller, Errno> {
    let (uid, gid, pid) = credentials(socket)?;
    // A number of 0 is one that this process's namespace has not.
    let elsewhere = |kind| namespace(&pid.to_string(), kind) != namespace("self", kind);
    if pid == 0 || (namespace(&pid.to_string(), "pid").is_some() && elsewhere("pid")) {
        return Err(Errno::SRCH);
    }
    // Where this process may not look, the other user is none who is more than its number says.
    if (uid == 0 || namespace(&pid.to_string(), "user").is_some()) && elsewhere("user") {
        return Err(Errno::USERS);
    }
    if uid != geteuid().as_raw() && !others {
        return Err(Errno::ACCESS);
    }
    if uid == 0 {
        let status = process_status(pid);
        let set = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
        let set = u64::from_str_radix(set.trim(), 16).unwrap_or(0);
        if set & SUPERUSER != SUPERUSER {
            return Err(Errno::PERM);
        }
    }
    Ok(Caller::new(Cred { uid, gid, groups: groups(socket)? }, pid))
}

impl Peer {
    /// The program that has connected. One that is not let in comes back as its socket, with the reason.
    pub(super) fn of(socket: OwnedFd, shared: &Shared) -> std::result::Result<Peer, (OwnedFd, Errno)> {
        let caller = match caller(socket.as_fd(), shared.others) {
            Ok(caller) => caller,
            Err(why) => return Err((socket, why)),
        };
        let uid = caller.cred.uid;
        let user = shared.users.get(uid);
        if !user.take(Share::Connections) {
            return Err((socket, Errno::DQUOT));
        }
        let sees_all = uid == 0 || uid == geteuid().as_raw();
        let (reach, files, ends) = (OnceLock::new(), Mutex::default(), AtomicBool::new(false));
        Ok(Peer { socket, caller, user, reach, sees_all, files, ends })
    }

    /// Whether changes may be made through the mount that it has shown.
    pub(super) fn may_change(&self) -> bool {
        self.reach.get().is_some_and(Reach::may_change)
    }

    fn shows(&self, root: OwnedFd, shared: &Shared) -> std::io::Result<()> {
        match Reach::of(root, &shared.mounts, self.caller.process) {
            Ok(reach) => {
                let _ = self.reach.set(reach);
                welcome(self.socket.as_fd())
            }
            Err(why) => refuse(self.socket.as_fd(), why),
        }
    }

    /// Makes [`Peer::attend`] end.
    pub(super) fn hang_up(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Serves it until its socket closes.
    pub(super) fn attend(self: &Arc<Peer>, shared: &Arc<Shared>) {
        let mut channels: Vec<(Arc<Segment>, JoinHandle<()>)> = Vec::new();
        while let Some(request) = next_request(self.socket.as_fd()) {
            let done = match request {
                Request::Foreign => refuse(self.socket.as_fd(), Errno::PROTO),
                Request::Mount(root) => self.shows(root, shared),
                _ if self.reach.get().is_none() => refuse(self.socket.as_fd(), Errno::XDEV),
                Request::Versions if !self.sees_all => refuse(self.socket.as_fd(), Errno::ACCESS),
                Request::Versions => match versions::file() {
                    Some(file) => hand_over(self.socket.as_fd(), file),
                    None => refuse(self.socket.as_fd(), Errno::OPNOTSUPP),
                },
                Request::Channel if !self.user.take(Share::Channels) => {
                    refuse(self.socket.as_fd(), Errno::DQUOT)
                }
                Request::Channel if channels.len() >= MAX_CHANNELS || !shared.take_channel() => {
                    self.user.give_back(Share::Channels, 1);
                    refuse(self.socket.as_fd(), Errno::AGAIN)
                }
                Request::Channel => self.open_channel(shared, &mut channels).inspect_err(|_| {
                    self.user.give_back(Share::Channels, 1);
                    shared.give_channel_back();
                    let _ = refuse(self.socket.as_fd(), Errno::NOMEM);
                }),
            };
            if done.is_err() {
                break;
            }
        }
        self.ends.store(true, SeqCst);
        for (segment, thread) in channels {
            segment.end();
            thread.join();
            self.user.give_back(Share::Channels, 1);
            shared.give_channel_back();
        }
        let files = std::mem::take(&mut *self.files.lock());
        self.user.give_back(Share::Files, files.slots.iter().flatten().count());
        shared.adapter.guard.answer(|| {
            files.slots.into_iter().flatten().for_each(|file| self.let_go(&shared.adapter.vfs, file));
        });
    }

    fn open_channel(
        self: &Arc<Peer>,
        shared: &Arc<Shared>,
        channels: &mut Vec<(Arc<Segment>, JoinHandle<()>)>,
    ) -> std::io::Result<()> {
        let (segment, file) = Segment::make()?;
        let segment = Arc::new(segment);
        let name = format!("direct {}.{}", self.caller.process, channels.len());
        let (peer, its, adapter) = (Arc::clone(self), Arc::clone(&segment), Arc::clone(&shared.adapter));
        let crowd = Arc::clone(&shared.crowd);
        let thread = granary_sim::spawn(&name, move || {
            let _whose = granary_sim::on_behalf(peer.caller.process as usize);
            let (spins, mut buffer) = (spins(), Vec::new());
            let (mut rounds, mut last) = (spins, 0);
            while let Some(command) = its.next(&peer.ends, rounds, || buffer = Vec::new()) {
                let crowded = crowd.is_there(&mut last);
                its.reply(&adapter.serve_direct(&peer, &command, &its, &mut buffer), crowded);
                rounds = if crowded { 0 } else { spins_after(command.op, spins) };
            }
        });
        channels.push((segment, thread));
        // Where it cannot be handed over the program is gone, or does not listen: the connection ends, and
        // the channel with it.
        let _ = hand_over(self.socket.as_fd(), &file).inspect_err(|_| self.hang_up());
        Ok(())
    }

    /// # Errors
    /// `TooManyFiles`, with the file.
    pub(super) fn insert(&self, file: OpenFile) -> std::result::Result<u32, OpenFile> {
        let mut files = self.files.lock();
        if !self.user.take(Share::Files) {
            return Err(file);
        }
        let at = match files.free.pop() {
            Some(at) => at as usize,
            None if files.slots.len() < MAX_FILES => {
                files.slots.push(None);
                files.slots.len() - 1
            }
            None => {
                self.user.give_back(Share::Files, 1);
                return Err(file);
            }
        };
        files.slots[at] = Some(Arc::new(file));
        Ok(at as u32)
    }

    /// The file with this handle, for the time of a command: [`Peer::let_go`] ends it.
    pub(super) fn file(&self, handle: u32) -> Result<Arc<OpenFile>> {
        self.files.lock().slots.get(handle as usize).cloned().flatten().ok_or(FsError::BadFd)
    }

    /// Takes it out.
    pub(super) fn remove(&self, handle: u32) -> Result<Arc<OpenFile>> {
        let mut files = self.files.lock();
        let slot = files.slots.get_mut(handle as usize).ok_or(FsError::BadFd)?;
        let file = slot.take().ok_or(FsError::BadFd)?;
        files.free.push(handle);
        self.user.give_back(Share::Files, 1);
        Ok(file)
    }

    /// The last to do so closes it.
    pub(super) fn let_go(&self, vfs: &Vfs, file: Arc<OpenFile>) {
        if let Some(file) = Arc::into_inner(file) {
            vfs.close(&self.caller, file);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.user.give_back(Share::Connections, 1);
    }
}
