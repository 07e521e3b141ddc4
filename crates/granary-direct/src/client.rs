//! [`Connection`]: a program's side, as tests and `granary exec` use it.
//!
//! The library that is loaded into programs has its own table of channels, because it must not allocate under
//! a signal; both speak through [`Segment`] and [`crate::socket`].

use crate::channel::spins;
use crate::place::PathPlace;
use crate::segment::{DATA, Segment};
use crate::socket::{ask_channel, connect_through, is_connected, refusal};
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
    /// Connects to the server of the mount on `dir`, and asks for the channel.
    ///
    /// # Errors
    /// The system's; the server's refusal as an error of the system.
    pub fn open(socket: &Path, dir: &Path) -> io::Result<Connection> {
        let socket = connect_through(socket, dir)?;
        let file = ask_channel(socket.as_fd())?.map_err(refusal)?;
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
        self.with(command, || Some(command.len), |_| ())
    }

    /// Asks one thing: `put` fills the data area, and says how many bytes of it there are; `take` reads it.
    fn with(
        &self,
        command: &Command,
        put: impl FnOnce() -> Option<u32>,
        take: impl FnOnce(&Answer),
    ) -> Result<Answer, Refused> {
        let there = || is_connected(self.socket.as_fd());
        let taken = self.segment.take(there).ok_or(Refused::Gone)?;
        let command = Command { len: put().ok_or(Refused::Kernel)?, ..*command };
        let answer = taken.ask(&command, self.spins, there).ok_or(Refused::Gone)?;
        match answer.value() {
            Ok(Ok(_)) => {
                take(&answer);
                Ok(answer)
            }
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
        place: PathPlace<'_>,
        second: Option<PathPlace<'_>>,
    ) -> Result<Answer, Refused> {
        let put = || {
            let end = place.put(&self.segment, 0)?;
            second.map_or(Some(end), |place| place.put(&self.segment, end)).map(|end| end as u32)
        };
        self.with(command, put, |_| ())
    }

    /// [`Op::Symlink`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn symlink(&self, target: &[u8], place: PathPlace<'_>) -> Result<(), Refused> {
        let put = || {
            let at = place.put(&self.segment, 0)?;
            let end = Some(at + target.len()).filter(|end| *end <= DATA)?;
            self.segment.put_data_at(at, target);
            Some(end as u32)
        };
        self.with(&Command::new(Op::Symlink), put, |_| ()).map(drop)
    }

    /// [`Op::Readlink`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn readlink(&self, place: PathPlace<'_>) -> Result<Vec<u8>, Refused> {
        let mut target = Vec::new();
        let put = || place.put(&self.segment, 0).map(|end| end as u32);
        self.with(&Command::new(Op::Readlink), put, |answer| {
            target.resize((answer.result as usize).min(DATA), 0);
            self.segment.data(&mut target);
        })?;
        Ok(target)
    }

    fn with_path(&self, path: &[u8], command: Command) -> Result<Answer, Refused> {
        if path.len() > DATA {
            return Err(Refused::Kernel);
        }
        let put = || {
            self.segment.put_data(path);
            Some(path.len() as u32)
        };
        self.with(&command, put, |_| ())
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
        self.at(&command, PathPlace::at_root(path), None)
            .map(|answer| (answer.result as u32, answer.attributes))
    }

    /// [`Op::StatPath`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn stat(&self, path: &[u8], follow: bool) -> Result<Attributes, Refused> {
        let command = Command { flags: if follow { FOLLOW } else { 0 }, ..Command::new(Op::StatPath) };
        self.at(&command, PathPlace::at_root(path), None).map(|answer| answer.attributes)
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
        let mut n = 0;
        self.with(
            &command,
            || Some(command.len),
            |answer| {
                n = (answer.result as usize).min(len);
                self.segment.data(&mut to[..n]);
            },
        )?;
        Ok(n)
    }

    /// [`Op::Write`], of at most [`DATA`] bytes: where they went and how many.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn write(&self, handle: u32, pos: u64, data: &[u8]) -> Result<(u64, usize), Refused> {
        let data = &data[..data.len().min(DATA)];
        let put = || {
            self.segment.put_data(data);
            Some(data.len() as u32)
        };
        let command = Command { handle, pos, ..Command::new(Op::Write) };
        self.with(&command, put, |_| ()).map(|answer| (answer.pos, answer.result as usize))
    }

    /// [`Op::Sync`].
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn sync(&self, handle: u32, data_only: bool) -> Result<(), Refused> {
        self.call(&Command { handle, flags: data_only.into(), ..Command::new(Op::Sync) }).map(drop)
    }
}
