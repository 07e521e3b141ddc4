//! `fusermount3`, the set-user-ID program of the fuse3 package, which mounts and unmounts for users other
//! than root.
//!
//! ```text
//!   fusermount3 -o fsname=..,subtype=..,.. -- DIR      its standard input is one end of a socket, and it is
//!                                                      told so
//!        └─ opens /dev/fuse, mounts, and sends the open file through the socket (SCM_RIGHTS)
//! ```
//!
//! Source: fusermount3(1); the environment variable `_FUSE_COMMFD` of libfuse's `util/fusermount.c`.

use crate::device::Device;
use crate::mount::MountConfig;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAMS: [&str; 2] = ["fusermount3", "fusermount"];

/// Mounts.
///
/// # Errors
/// `NotFound` where there is no such program, `PermissionDenied` where it may not let others in; what it
/// says.
pub(crate) fn mount(dir: &Path, config: &MountConfig) -> io::Result<Device> {
    let mut missing = ErrorKind::NotFound.into();
    for program in PROGRAMS {
        match run(program, dir, config) {
            Err(e) if e.kind() == ErrorKind::NotFound => missing = e,
            other => return other,
        }
    }
    Err(missing)
}

/// The options, as the program takes them: a comma within one is quoted.
fn options(config: &MountConfig) -> String {
    let quoted = config.source.replace('\\', "\\\\").replace(',', "\\,");
    let word = |on, yes, no| if on { yes } else { no };
    format!(
        "fsname={quoted},{},{},{},{}",
        config.options(),
        word(config.dev, "dev", "nodev"),
        word(config.suid, "suid", "nosuid"),
        word(config.read_only, "ro", "rw"),
    )
}

fn run(program: &str, dir: &Path, config: &MountConfig) -> io::Result<Device> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(program);
    command.arg("-o").arg(options(config)).arg("--").arg(dir);
    // As its standard input the socket is open there, and nowhere else.
    command
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // Our copy of its end, without which we would not see it go.
    drop(command);
    let received = receive(&ours);
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    child.wait()?;
    match received {
        Ok(Some(fd)) => Ok(Device::from(fd)),
        Err(e) if said.is_empty() => Err(e),
        _ if said.contains("user_allow_other") => Err(io::Error::new(ErrorKind::PermissionDenied, said)),
        _ => Err(io::Error::other(said.trim().to_owned())),
    }
}

/// The open file that comes through the socket; none where it is closed.
fn receive(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    rustix::io::retry_on_intr(|| recvmsg(socket, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let fds = control.drain().filter_map(|m| match m {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok(fds.flatten().next())
}

/// Unmounts, now or when nobody uses it any more.
pub(crate) fn unmount(dir: &Path) {
    for program in PROGRAMS {
        let mut command = Command::new(program);
        command.args(["-u", "-q", "-z", "--"]).arg(dir).stdin(Stdio::null()).stdout(Stdio::null());
        if command.stderr(Stdio::null()).status().is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::io::{IoSlice, Write};

    #[test]
    fn a_source_with_commas_is_one_option() {
        let config =
            MountConfig { source: "a,b\\c".to_owned(), subtype: "x".to_owned(), ..MountConfig::default() };
        assert_eq!(options(&config), "fsname=a\\,b\\\\c,subtype=x,default_permissions,nodev,nosuid,rw");
    }

    #[test]
    fn an_open_file_comes_through_a_socket_and_a_closed_one_brings_none() {
        let (ours, theirs) = UnixStream::pair().expect("a socket");
        let (mut read, write) = std::io::pipe().expect("a pipe");
        let fds = [write.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&theirs, &[IoSlice::new(&[0])], &mut control, SendFlags::empty()).expect("sent");
        drop((write, theirs));
        let got = receive(&ours).expect("received").expect("an open file");
        std::fs::File::from(got).write_all(b"through").expect("written");
        let mut text = String::new();
        read.read_to_string(&mut text).expect("read");
        assert_eq!(text, "through");
        assert!(receive(&ours).expect("closed").is_none());
    }
}
