//! The socket: a client shows that it reaches the mount, asks for channels, one message for each, and for the
//! versions, and is handed their memory.
//!
//! ```text
//!   client:  magic 4 | version 4 | MOUNT 4, with a descriptor of the mount's root    server:  0, or an errno
//!   client:  magic 4 | version 4 | what 4    server:  0, with the memfd    or an errno, without
//! ```
//!
//! Messages keep their bounds (SOCK_SEQPACKET). A client does not state its identity: the kernel does
//! (SO_PEERCRED). Nor does it claim that it reaches the mount: the descriptor proves it. One side gives the
//! descriptor away, the other one closes it at once, so it holds the mount for an instant.

use crate::wire::VERSION;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind, connect,
    listen, recvmsg, send, sendmsg, socket_with,
};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// "GRND".
const MAGIC: u32 = 0x444e_5247;
const CHANNEL: u32 = 0;
const VERSIONS: u32 = 1;
const MOUNT: u32 = 2;

fn new_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Listens at a path that does not exist yet. `mode`: who may connect.
///
/// # Errors
/// The system's.
pub fn listen_at(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    // Binding makes the file with the mode of the socket, less the umask: unix_bind_bsd of Linux's
    // net/unix/af_unix.c.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmod(path, Mode::from_raw_mode(mode))?;
    listen(&socket, 64)?;
    Ok(socket)
}

/// The next client; `None` where the socket was shut down.
///
/// # Errors
/// The system's: too many open files, say.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    loop {
        match acceptfrom_with(listener, SocketFlags::CLOEXEC) {
            Ok((client, _)) => return Ok(Some(client)),
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(Errno::INVAL) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Connects to a server.
///
/// # Errors
/// The system's: nobody listens, or this user may not.
pub fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The client asks for a channel: the memory, or the errno that the server refuses it with.
///
/// # Errors
/// The system's; the server ended.
pub fn ask_channel(socket: BorrowedFd<'_>) -> io::Result<Result<OwnedFd, i32>> {
    ask(socket, CHANNEL)
}

/// The client asks for the versions.
///
/// # Errors
/// As [`ask_channel`].
pub fn ask_versions(socket: BorrowedFd<'_>) -> io::Result<Result<OwnedFd, i32>> {
    ask(socket, VERSIONS)
}

/// The client shows that it reaches the mount, by a descriptor of its root (O_PATH suffices); an errno where
/// that does not suffice.
///
/// # Errors
/// As [`ask_channel`].
pub fn greet(socket: BorrowedFd<'_>, root: BorrowedFd<'_>) -> io::Result<Result<(), i32>> {
    let files = [root];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    control.push(SendAncillaryMessage::ScmRights(&files));
    match sendmsg(socket, &[IoSlice::new(&message(MOUNT))], &mut control, SendFlags::NOSIGNAL) {
        // It has said why, and is gone.
        Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => {}
        Err(e) => return Err(e.into()),
    }
    match answer(socket)? {
        (0, _) => Ok(Ok(())),
        (errno, _) => Ok(Err(errno)),
    }
}

/// Connects to the server of the mount on a directory, and shows that this process reaches it there.
///
/// # Errors
/// The system's; why the server does not let this program in ([`refusal`]).
pub fn connect_through(path: &Path, dir: &Path) -> io::Result<OwnedFd> {
    let socket = connect_to(path)?;
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(dir, how, Mode::empty())?;
    greet(socket.as_fd(), root.as_fd())?.map_err(refusal)?;
    Ok(socket)
}

/// The meaning of an errno by which the server refuses a program, or gives it nothing.
pub fn refusal(errno: i32) -> io::Error {
    let error = io::Error::from_raw_os_error(errno);
    let Some(known) = Errno::from_io_error(&error) else { return error };
    let why = match known {
        Errno::ACCESS => {
            "only the user who has mounted it may: others with `granary mount --allow-other IMAGE DIR`"
        }
        Errno::PERM => {
            "this superuser lacks capabilities over files, or has them in another user namespace only"
        }
        Errno::SRCH => "this process is in another process namespace than the process of the mount",
        Errno::USERS => "this process is in another user namespace than the process of the mount",
        Errno::XDEV => "this process does not reach the root of the mount, or its mounts cannot be looked at",
        Errno::DQUOT => "this user has as many connections or channels as one user may have",
        Errno::AGAIN => "all connections or channels are taken",
        Errno::PROTO => "the process of the mount is of another version of granary",
        _ => return error,
    };
    io::Error::new(error.kind(), why)
}

fn message(what: u32) -> [u8; 12] {
    let mut request = [0; 12];
    request[..4].copy_from_slice(&MAGIC.to_ne_bytes());
    request[4..8].copy_from_slice(&VERSION.to_ne_bytes());
    request[8..].copy_from_slice(&what.to_ne_bytes());
    request
}

fn ask(socket: BorrowedFd<'_>, what: u32) -> io::Result<Result<OwnedFd, i32>> {
    match send(socket, &message(what), SendFlags::NOSIGNAL) {
        // As of `greet`.
        Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => {}
        Err(e) => return Err(e.into()),
    }
    match answer(socket)? {
        (0, Some(file)) => Ok(Ok(file)),
        (errno @ 1.., _) => Ok(Err(errno)),
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

/// The status that comes next, with the file.
fn answer(socket: BorrowedFd<'_>) -> io::Result<(i32, Option<OwnedFd>)> {
    let mut status = [0; 4];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let mut receive = || {
        rustix::io::retry_on_intr(|| {
            recvmsg(socket, &mut [IoSliceMut::new(&mut status)], &mut control, flags)
        })
    };
    // A client whose message was not read gets CONNRESET once. The server's earlier messages come after that.
    let got = match receive() {
        Err(Errno::CONNRESET) => receive(),
        other => other,
    }?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match (got.bytes, i32::from_ne_bytes(status)) {
        (4, status @ 0..) => Ok((status, file)),
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

/// Requests of a client.
#[derive(Debug)]
pub enum Request {
    /// It shows that it reaches the mount, by this descriptor.
    Mount(OwnedFd),
    /// It wants a channel.
    Channel,
    /// It wants the versions.
    Versions,
    /// It speaks another version.
    Foreign,
}

/// The server waits for a client's next request; `None`: it is gone.
pub fn next_request(socket: BorrowedFd<'_>) -> Option<Request> {
    let mut bytes = [0; 13];
    // More files than one are closed by the kernel: there is no room for them.
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
    });
    let got = got.ok().filter(|got| got.bytes > 0)?;
    let mut file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let is_ours = got.bytes == 12
        && !got.flags.contains(ReturnFlags::TRUNC)
        && bytes[..4] == MAGIC.to_ne_bytes()
        && bytes[4..8] == VERSION.to_ne_bytes();
    let what = bytes[8..].first_chunk().map(|b| u32::from_ne_bytes(*b));
    Some(match what.filter(|_| is_ours) {
        Some(CHANNEL) => Request::Channel,
        Some(VERSIONS) => Request::Versions,
        Some(MOUNT) => file.take().map_or(Request::Foreign, Request::Mount),
        _ => Request::Foreign,
    })
}

/// The server hands a channel over.
///
/// # Errors
/// The client is gone, or does not take its messages.
pub fn hand_over(socket: BorrowedFd<'_>, file: &OwnedFd) -> io::Result<()> {
    let files = [file.as_fd()];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    control.push(SendAncillaryMessage::ScmRights(&files));
    let status = 0i32.to_ne_bytes();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&status)], &mut control, flags)?;
    Ok(())
}

/// The server lets a client in.
///
/// # Errors
/// As [`hand_over`].
pub fn welcome(socket: BorrowedFd<'_>) -> io::Result<()> {
    say(socket, 0)
}

/// The server refuses one, or what it asks for.
///
/// # Errors
/// As [`hand_over`].
pub fn refuse(socket: BorrowedFd<'_>, errno: Errno) -> io::Result<()> {
    say(socket, errno.raw_os_error())
}

fn say(socket: BorrowedFd<'_>, status: i32) -> io::Result<()> {
    let status = status.to_ne_bytes();
    send(socket, &status, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// Whether the other side still has its end open.
pub fn is_connected(socket: BorrowedFd<'_>) -> bool {
    let mut byte = [0; 1];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(socket, &mut byte[..], flags) {
        Ok((n, _)) => n > 0,
        Err(e) => e == Errno::AGAIN || e == Errno::INTR,
    }
}
