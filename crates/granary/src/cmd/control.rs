//! Requests to the process that has an image mounted: a socket in the image's directory.
//!
//! ```text
//!   granary grow IMAGE --size N           IMAGE/control          mount: thread "control"
//!     {"grow": N} and a newline   ───────────────────────────>   grows, everything goes on
//!     <─────────────────────────────   {"grown": {...}} or {"refused": "why"}, and the end
//! ```
//!
//! One request at a time. The socket is its owner's only, and reached through its directory's descriptor:
//! names of sockets are at most 108 bytes long, and an image that is renamed while it is mounted takes its
//! socket along. A mount that died leaves it behind; nobody answers there, and the next mount replaces it.
//! Mounts that only read have none.

use crate::cmd::live::directory::open_dir;
use crate::failure::Failure;
use granary_image::CONTROL;
use granary_lab::image::Grown;
use granary_sim::JoinHandle;
use granary_units::Bytes;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, openat, statat, unlinkat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// A request is shorter than this.
const LONGEST: u64 = 4096;
/// Time for a client to send its request: others wait.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests to the serving process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// A larger drive, of so many bytes at least, and its file system as large.
    Grow(Bytes),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Reply {
    Grown { before: Bytes, after: Bytes },
    Refused(String),
}

/// Takes requests until it is dropped.
pub struct Control {
    image: OwnedFd,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Whether what is called as the socket is one: a link would lead elsewhere.
fn check(image: BorrowedFd<'_>) -> io::Result<()> {
    is_socket(&statat(image, CONTROL, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn is_socket(found: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Socket => Ok(()),
        _ => Err(io::Error::other(format!("{CONTROL} in the image's directory is no socket: remove it"))),
    }
}

/// Makes the socket, in the place of one that nobody answers on.
fn listen_in(image: BorrowedFd<'_>) -> io::Result<UnixListener> {
    match check(image).and_then(|()| Ok(unlinkat(image, CONTROL, AtFlags::empty())?)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Binding makes the file with the mode of the socket: unix_bind_bsd of Linux's net/unix/af_unix.c.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    let name = Path::new("/proc/self/fd").join(image.as_raw_fd().to_string()).join(CONTROL);
    bind(&socket, &SocketAddrUnix::new(&name)?)?;
    listen(&socket, 16)?;
    Ok(socket.into())
}

/// Reaches whoever listens on the socket.
fn connect_in(image: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let socket = openat(image, CONTROL, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    is_socket(&fstat(&socket)?)?;
    UnixStream::connect(Path::new("/proc/self/fd").join(socket.as_raw_fd().to_string()))
}

/// Whether somebody takes requests for this image.
pub fn is_served(image: &Path) -> bool {
    open_dir(image).is_ok_and(|dir| connect_in(dir.as_fd()).is_ok())
}

impl Control {
    /// Serves requests for the image in this directory, which this process has open.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn start(
        image: OwnedFd,
        serve: impl Fn(Request) -> Result<Grown, String> + Send + 'static,
    ) -> io::Result<Control> {
        let listener = listen_in(image.as_fd())?;
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        let thread = granary_sim::spawn("control", move || {
            for stream in listener.incoming() {
                if ended.load(SeqCst) {
                    return;
                }
                // A client that does not wait for the answer does not need it.
                let _ = stream.and_then(|stream| answer(&stream, &serve));
            }
        });
        Ok(Control { image, ends, thread: Some(thread) })
    }
}

impl Drop for Control {
    /// Returns when the request under way, if there is one, has been answered.
    fn drop(&mut self) {
        self.ends.store(true, SeqCst);
        let image = self.image.as_fd();
        let woken = connect_in(image);
        let _ = check(image).and_then(|()| Ok(unlinkat(image, CONTROL, AtFlags::empty())?));
        if woken.is_ok()
            && let Some(thread) = self.thread.take()
        {
            thread.join();
        }
    }
}

fn answer(mut stream: &UnixStream, serve: &impl Fn(Request) -> Result<Grown, String>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).take(LONGEST).read_line(&mut line)?;
    let done = match serde_json::from_str(&line) {
        Ok(request) => serve(request),
        Err(e) => Err(format!("not understood by this version of granary: {e}")),
    };
    let reply = match done {
        Ok(Grown { before, after }) => Reply::Grown { before, after },
        Err(why) => Reply::Refused(why),
    };
    stream.write_all(serde_json::to_string(&reply)?.as_bytes())
}

/// Asks the process that has the image in the directory `dir` mounted; `None` where nobody takes requests.
/// Messages call the image `image`.
///
/// # Errors
/// The process refuses, and gives its reason; or it died over the request.
pub fn ask(dir: BorrowedFd<'_>, image: &Path, request: Request) -> Result<Option<Grown>, Failure> {
    let mut stream = match connect_in(dir) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        other => other.map_err(|e| Failure::io(format!("asking the mount of {}", image.display()), e))?,
    };
    let mut asked = || {
        writeln!(stream, "{}", serde_json::to_string(&request)?)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text =
        asked().map_err(|e: io::Error| Failure::io(format!("asking the mount of {}", image.display()), e))?;
    match serde_json::from_str(&text) {
        Ok(Reply::Grown { before, after }) => Ok(Some(Grown { before, after })),
        Ok(Reply::Refused(why)) => Err(Failure::usage(why)),
        Err(_) => Err(Failure::usage(format!(
            "{}: the mount ended without an answer; the image has the old size or the new one, `granary stat IMAGE` tells which",
            image.display()
        ))),
    }
}
