//! [`Connection`]: a program's side, as tests and `granary exec` use it.
//!
//! The library that is loaded into programs has its own table of channels, because it must not allocate under a signal; both
//! speak through [`Segment`] and [`crate::socket`].

use crate::channel::spins;
use crate::place::Place;
use crate::segment::{DATA, Segment};
use crate::socket::{ask_channel, connect_to, is_connected};
use crate::wire::{Answer, Attributes, Command, FOLLOW, Op, SeeKernel};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Why a call was not done through the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// An errno.
    Errno(i32),
    /// It is one for the kernel's view.
    Kernel,
    /// The server is gone.
    Gone,
}

/// A connection with one channel.
pub struct Connection {
    socket: OwnedFd,
    segment: Segment,
    spins: u32,
}

impl Connection {
    /// Connects, and asks for the channel.
    ///
    /// # Errors
    /// The system's; the server's refusal as an error of the system.
    pub fn open(socket: &Path) -> io::Result<Connection> {
        let socket = connect_to(socket)?;
        let file = ask_channel(socket.as_fd())?.map_err(io::Error::from_raw_os_error)?;
        Ok(Connection { segment: Segment::open(&file)?, socket, spins: spins() })
    }

    /// The shared memory.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Asks one thing.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn call(&self, command: &Command) -> Result<Answer, Refused> {
        let there = || is_connected(self.socket.as_fd());
        let answer = self.segment.ask(command, self.spins, there).ok_or(Refused::Gone)?;
        match answer.value() {
            Ok(Ok(_)) => Ok(answer),
            Ok(Err(errno)) => Err(Refused::Errno(errno)),
            Err(SeeKernel) => Err(Refused::Kernel),
        }
    }

    /// Asks one thing of a place, and of a second one if there is one.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn at(
        &self,
        command: &Command,
        place: Place<'_>,
        second: Option<Place<'_>>,
    ) -> Result<Answer, Refused> {
        let end = place.put(&self.segment, 0).ok_or(Refused::Kernel)?;
        let end = second.map_or(Some(end), |place| place.put(&self.segment, end)).ok_or(Refused::Kernel)?;
        self.call(&Command { len: end as u32, ..*command })
    }

    /// [`Op::Symlink`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn symlink(&self, target: &[u8], place: Place<'_>) -> Result<(), Refused> {
        let end = place.put(&self.segment, 0).ok_or(Refused::Kernel)?;
        if end + target.len() > DATA {
            return Err(Refused::Kernel);
        }
        self.segment.put_data_at(end, target);
        self.call(&Command { len: (end + target.len()) as u32, ..Command::new(Op::Symlink) }).map(drop)
    }

    /// [`Op::Readlink`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn readlink(&self, place: Place<'_>) -> Result<Vec<u8>, Refused> {
        let n = self.at(&Command::new(Op::Readlink), place, None)?.result as usize;
        let mut target = vec![0; n.min(DATA)];
        self.segment.data(&mut target);
        Ok(target)
    }

    fn with_path(&self, path: &[u8], command: Command) -> Result<Answer, Refused> {
        if path.len() > DATA {
            return Err(Refused::Kernel);
        }
        self.segment.put_data(path);
        self.call(&Command { len: path.len() as u32, ..command })
    }

    /// [`Op::Open`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn open_file(&self, path: &[u8], flags: u32, ino: u64) -> Result<u32, Refused> {
        let command = Command { flags, ino, ..Command::new(Op::Open) };
        self.with_path(path, command).map(|answer| answer.result as u32)
    }

    /// [`Op::Create`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn create(&self, path: &[u8], flags: u32, mode: u32) -> Result<(u32, Attributes), Refused> {
        let command = Command { flags, pos: mode.into(), ..Command::new(Op::Create) };
        self.at(&command, Place::at_root(path), None).map(|answer| (answer.result as u32, answer.attributes))
    }

    /// [`Op::StatPath`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn stat(&self, path: &[u8], follow: bool) -> Result<Attributes, Refused> {
        let command = Command { flags: if follow { FOLLOW } else { 0 }, ..Command::new(Op::StatPath) };
        self.at(&command, Place::at_root(path), None).map(|answer| answer.attributes)
    }

    /// [`Op::Stat`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn fstat(&self, handle: u32) -> Result<Attributes, Refused> {
        self.call(&Command { handle, ..Command::new(Op::Stat) }).map(|answer| answer.attributes)
    }

    /// [`Op::Close`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn close(&self, handle: u32) -> Result<(), Refused> {
        self.call(&Command { handle, ..Command::new(Op::Close) }).map(drop)
    }

    /// [`Op::Read`], of at most [`DATA`] bytes.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn read(&self, handle: u32, pos: u64, to: &mut [u8]) -> Result<usize, Refused> {
        let len = to.len().min(DATA);
        let command = Command { handle, pos, len: len as u32, ..Command::new(Op::Read) };
        let n = (self.call(&command)?.result as usize).min(len);
        self.segment.data(&mut to[..n]);
        Ok(n)
    }

    /// [`Op::Write`], of at most [`DATA`] bytes: where they went and how many.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn write(&self, handle: u32, pos: u64, data: &[u8]) -> Result<(u64, usize), Refused> {
        let data = &data[..data.len().min(DATA)];
        self.segment.put_data(data);
        let command = Command { handle, pos, len: data.len() as u32, ..Command::new(Op::Write) };
        self.call(&command).map(|answer| (answer.pos, answer.result as usize))
    }

    /// [`Op::Sync`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn sync(&self, handle: u32, data_only: bool) -> Result<(), Refused> {
        self.call(&Command { handle, flags: data_only.into(), ..Command::new(Op::Sync) }).map(drop)
    }
}
