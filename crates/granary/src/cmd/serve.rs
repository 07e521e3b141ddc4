//! Code that `mount` and `export` share as processes that serve the kernel: the background, signals, a panic.
//!
//! ```text
//!   --daemon:  parent ── starts itself with --background ──> child: opens, recovers, mounts
//!                 | reads stdout <────────── "mounted ..." ──|  (or ends: its message and exit code are the
//!                                                               parent's)
//!                 └ exits 0                                  └ serves on, messages to --log
//!   SIGINT, SIGTERM:  unmount; in use: detach and wait; again: write everything back and stop, unclosed
//! ```

use crate::cmd::{control, interrupt};
use crate::failure::Failure;
use crate::out;
use granary_fs::quoted;
use granary_image::{Image, ImageError};
use granary_lab::LabError;
use granary_mount::{Breaker, DurableHook, MountError, Unmounter, mountinfo};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Weak};

/// Prefix of the image's path in the mount table. With it the source is the path of nothing, and umount(8)
/// takes it for a source.
const TABLE: &str = "granary:";
/// Number of looks at an image that a process is about to close, and the time in between: half a minute.
const CLOSING: u32 = 600;
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// Number of looks in a row at an image without a mount that takes requests. After so many, its path in the
/// mount table is of before a rename, and it is in use. After fewer, a server may not yet have seen that it
/// was unmounted.
const SERVED: u32 = 40;

/// Source of an image's mount in the mount table.
pub fn table_source(image: &OsStr) -> String {
    let image = image.to_string_lossy();
    if image.starts_with('/') { format!("{TABLE}{image}") } else { image.into_owned() }
}

/// The image of such a source.
pub fn image_of(source: &str) -> &str {
    source.strip_prefix(TABLE).unwrap_or(source)
}

/// Whether the mount table's source is this image: paths may be relative, or lead through links.
fn is_source(source: &str, image: &Path) -> bool {
    let file = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    file(image).is_some_and(|image| file(Path::new(image_of(source))) == Some(image))
}

/// Whether a process that has the image open is one of ours without a mount of it: it was unmounted, and
/// writes everything back.
fn is_closing(pid: u32, image: &Path) -> bool {
    let granary = std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "granary\n");
    granary && mountinfo::sees(pid, |source| is_source(source, image)) == Some(false)
}

/// Opens an image. One that was unmounted a moment ago, by umount(8) say, which does not wait, is waited for.
///
/// # Errors
/// Of `open`.
pub fn when_free<T>(image: &Path, mut open: impl FnMut() -> Result<T, LabError>) -> Result<T, LabError> {
    let mut served = 0;
    for _ in 0..CLOSING {
        match open() {
            Err(LabError::Image(ImageError::InUse { pid: Some(pid), .. }))
                if served < SERVED && is_closing(pid, image) =>
            {
                served = if control::is_served(image) { served + 1 } else { 0 };
                #[allow(clippy::disallowed_methods)] // another process ends on the wall clock
                std::thread::sleep(LOOK);
            }
            other => return other,
        }
    }
    open()
}

/// A broken invariant must not leave programs waiting for replies: the process ends, the kernel tells them,
/// and what was promised is in the image.
pub fn die_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}

/// A broken invariant leaves memory doubtful: nothing of it may reach the image, which keeps what was
/// promised. The program that asked is told, reads go on, and the next mount recovers as after a power
/// failure.
pub fn freeze_on_panic(breaker: &Breaker, image: Option<&Arc<Image>>) {
    // The hook stays; the image is closed before the process ends.
    let image = image.map(Arc::downgrade);
    let freeze = move |why: &str| {
        if let Some(image) = image.as_ref().and_then(Weak::upgrade) {
            image.freeze(why);
        }
    };
    let told = || {
        say(
            "this mount takes no more changes: an internal error (above) has left its memory doubtful; what was promised is in the \
             image. Unmount, and mount again, which recovers as after a power failure",
        );
    };
    let stuck = || {
        say("a request waits for what the internal error left undone: the mount ends");
        std::process::abort();
    };
    breaker.on_panic(freeze, told, stuck);
}

/// Promises of the mount kept by the image's barriers.
pub fn durable_hook(image: Arc<Image>) -> DurableHook {
    Arc::new(move |told| {
        image.barrier_then(move |safe| told(safe.map_err(|e| io::Error::other(e.to_string()))));
    })
}

/// The state of an image whose server is stopped with programs in it.
pub const NOT_CLOSED: &str = "everything was written back, and the image was not closed: the next to open it takes that from the redo log";

/// Ends the mount when a signal comes. `first`: done before each attempt to unmount; `write_back`: before
/// stopping with programs still in it, says what is left.
///
/// # Errors
/// The system's.
pub fn watch_signals(
    unmounter: Unmounter,
    first: impl Fn() + Send + 'static,
    write_back: impl Fn() -> Result<&'static str, String> + Send + 'static,
) -> Result<(), Failure> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| Failure::io("watching for signals", e))?;
    granary_sim::spawn("signals", move || {
        let mut asked = false;
        for _ in signals.forever() {
            if asked {
                say(&match write_back() {
                    Ok(left) => format!("stopped; {left}"),
                    Err(e) => format!("stopped; writing back failed: {e}"),
                });
                interrupt::end_records();
                std::process::exit(1);
            }
            asked = true;
            first();
            match unmounter.unmount(false) {
                Ok(()) => {}
                Err(MountError::InUse(dir)) => {
                    say(&format!(
                        "{} is in use: detached, ends when the last program lets go of it; signal again to stop now",
                        dir.display()
                    ));
                    if let Err(e) = unmounter.unmount(true) {
                        say(&e.to_string());
                    }
                }
                Err(e) => say(&e.to_string()),
            }
        }
    });
    Ok(())
}

/// A message for people; a daemon whose log has gone must not fail over it.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "granary: {line}");
}

/// Starts this program again as the one that serves `dir`, and waits for its word.
///
/// # Errors
/// The reason why it does not serve.
pub fn start_daemon(dir: &Path) -> Result<(), Failure> {
    let me = std::env::current_exe().map_err(|e| Failure::io("finding this program", e))?;
    let rest = std::env::args_os().skip(1).filter(|a| a != "--daemon");
    let mut child = Command::new(me)
        .args(rest)
        .arg("--background")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|e| Failure::io("starting the background process", e))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let mut line = String::new();
    if let Some(out) = out {
        BufReader::new(out).read_line(&mut line).map_err(|e| Failure::io("waiting for the mount", e))?;
    }
    // It has let go of both by now: what it said before are warnings, or the reason why it ended.
    let mut message = String::new();
    if let Some(mut err) = err {
        let _ = err.read_to_string(&mut message);
    }
    if let Some(told) = line.strip_prefix("mounted ") {
        message.lines().for_each(|said| say!("{said}"));
        say!("{}", told.trim_end());
        return Ok(());
    }
    let _ = child.wait();
    let message = message.trim().trim_start_matches("granary: ").to_owned();
    let dir = dir.display();
    Err(Failure::usage(if message.is_empty() {
        format!("{dir}: the background process died")
    } else {
        message
    }))
}

/// Where messages go once nobody is at the terminal. Opened before anything else, so that an image is not
/// opened for nothing.
///
/// # Errors
/// It cannot be opened.
pub fn open_log(log: Option<&Path>) -> Result<File, Failure> {
    let log = log.unwrap_or(Path::new("/dev/null"));
    let file = OpenOptions::new().create(true).append(true).open(log);
    file.map_err(|e| Failure::io(format!("opening {}", log.display()), e))
}

/// The child's side: says that the mount answers, and lets go of the terminal.
///
/// # Errors
/// The system's.
pub fn hand_over(log: &File, line: &str) -> Result<(), Failure> {
    let std_io = |e: rustix::io::Errno| Failure::io("redirecting messages", e.into());
    rustix::stdio::dup2_stderr(log).map_err(std_io)?;
    std::env::set_current_dir("/").map_err(|e| Failure::io("leaving the working directory", e))?;
    // Nobody may be listening any more; the mount stands all the same.
    outln!("mounted {line}");
    out::flush();
    rustix::stdio::dup2_stdout(log).map_err(std_io)
}

/// Where a daemon finds an image: it leaves its working directory.
///
/// # Errors
/// The path means nothing.
pub fn absolute_image(image: &OsStr) -> Result<OsString, Failure> {
    if in_memory(image).is_some() {
        return Ok(image.to_owned());
    }
    let path = std::path::absolute(image).map_err(|e| Failure::io(image.display(), e))?;
    Ok(path.into_os_string())
}

/// A path as part of a message of one line: what a daemon says ends with its first newline.
pub fn shown(path: impl AsRef<OsStr>) -> String {
    quoted(path.as_ref().as_bytes())
}

/// Of a drive in memory, ram:FS: what is behind the colon. An image may have any other name.
pub fn in_memory(image: &OsStr) -> Option<Cow<'_, str>> {
    image.as_bytes().strip_prefix(b"ram:").map(String::from_utf8_lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that takes a mounted image for one that is being closed waits for half a minute, and more.
    #[test]
    fn an_image_is_the_source_of_its_mount_by_whatever_path() {
        let place = tempfile::tempdir().expect("a directory");
        let (image, link) = (place.path().join("img"), place.path().join("link"));
        std::fs::create_dir(&image).expect("made");
        std::os::unix::fs::symlink(&image, &link).expect("linked");
        let source = table_source(image.as_os_str());
        assert!(source.starts_with(TABLE));
        let relative = place.path().join("link/../img/.");
        for path in [&image, &link, &relative] {
            assert!(is_source(&source, path), "{}", path.display());
        }
        assert!(!is_source(&source, place.path()) && !is_source("elsewhere", &image));
        assert!(!is_source(&source, Path::new("not there")));
    }
}
