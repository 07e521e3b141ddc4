//! Bytes and blocks: straight to the host's file.

use crate::errno::error;
use crate::host::Host;
use crate::{HostDir, follow, of};
use granary_fs::{
    Allocate, Call, Data, DirtyPage, FileKind, FsError, Inode, Result, Space, StatFs, WriteBackCause,
};
use granary_units::{Dest, PAGE_SIZE, Page, Payload};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

/// Bytes of a fill written at once.
const STEP: usize = 1 << 20;

/// Reads all of `out`; zeros where the file has become shorter meanwhile.
fn read_all(fd: &OwnedFd, mut pos: u64, mut out: &mut [u8]) -> Result<()> {
    while !out.is_empty() {
        match rustix::io::pread(fd, &mut *out, pos) {
            Ok(0) => {
                out.fill(0);
                return Ok(());
            }
            Ok(n) => {
                pos += n as u64;
                out = &mut out[n..];
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(error(errno)),
        }
    }
    Ok(())
}

fn write_all(fd: &OwnedFd, mut pos: u64, mut data: &[u8]) -> Result<()> {
    while !data.is_empty() {
        match rustix::io::pwrite(fd, data, pos) {
            Ok(0) => return Err(FsError::NoSpace),
            Ok(n) => {
                pos += n as u64;
                data = &data[n..];
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(error(errno)),
        }
    }
    Ok(())
}

fn write_payload(fd: &OwnedFd, pos: u64, data: Payload<'_>) -> Result<()> {
    if let Payload::Bytes(bytes) = data {
        return write_all(fd, pos, bytes);
    }
    let mut buffer = vec![0; STEP.min(data.len())];
    let mut done = 0;
    while done < data.len() {
        let (at, n) = (pos + done as u64, STEP.min(data.len() - done));
        data.part(done, n).copy_to(at, &mut buffer[..n]);
        write_all(fd, at, &buffer[..n])?;
        done += n;
    }
    Ok(())
}

/// Makes the directories' entries durable under which it was made or renamed, upwards as far as they are new.
fn sync_names(host: &Host) -> Result<()> {
    let mut next = host.take_new_name().map(|place| place.dir);
    while let Some(dir) = next {
        if let Err(e) = dir.directory().and_then(|fd| rustix::fs::fsync(fd).map_err(error)) {
            host.name_is_new();
            return Err(e);
        }
        next = dir.take_new_name().map(|place| place.dir);
    }
    Ok(())
}

impl Data for HostDir {
    granary_fs::file_system_lacks!(reserve, wrote, rewrites_cut_page, flush_on_close);

    /// The vfs keeps no pages of it; mappings ask for bytes.
    fn read_pages(&self, _call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
        let fd = of(inode).bytes(false)?;
        let mut bytes = [0; PAGE_SIZE];
        for (page, index) in out.iter_mut().zip(first..) {
            read_all(&fd, index * PAGE_SIZE as u64, &mut bytes)?;
            *page = Page::from_bytes(&bytes);
        }
        Ok(())
    }

    fn write_pages(
        &self,
        _call: &Call<'_>,
        inode: &Inode,
        pages: &[DirtyPage],
        _why: WriteBackCause,
    ) -> Result<()> {
        self.may_change()?;
        let fd = of(inode).bytes(true)?;
        pages.iter().try_for_each(|dirty| {
            write_all(&fd, dirty.index * PAGE_SIZE as u64, &dirty.page.to_bytes()[..dirty.valid])
        })
    }

    fn read_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()> {
        match dest {
            Dest::Bytes(out) => read_all(&*of(inode).bytes(false)?, pos, out),
            Dest::Discard(_) => Ok(()),
        }
    }

    fn write_direct(&self, _call: &Call<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()> {
        self.may_change()?;
        let (fd, old) = (of(inode).bytes(true)?, inode.size());
        let wrote = write_payload(&fd, pos, data);
        if wrote.is_err() && pos + data.len() as u64 > old {
            // Bytes written within the old size stay, as after a failed write of the host's.
            let _ = rustix::fs::ftruncate(&fd, old);
        }
        follow(inode)?;
        wrote
    }

    fn fsync(&self, _call: &Call<'_>, inode: &Inode, data_only: bool) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        let host = of(inode);
        match inode.view(|a| a.kind) {
            FileKind::File if data_only => rustix::fs::fdatasync(&*host.bytes(false)?),
            FileKind::File => rustix::fs::fsync(&*host.bytes(false)?),
            FileKind::Dir => rustix::fs::fsync(host.directory()?),
            // Nothing else can be opened without consequences.
            _ => rustix::fs::syncfs(self.root.directory()?),
        }
        .map_err(error)?;
        sync_names(&host)
    }
}

impl Space for HostDir {
    granary_fs::file_system_lacks!(empty_until, trim, grow, sweep);

    fn fallocate(&self, _call: &Call<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        self.may_change()?;
        let keep = |keep: bool| if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        let mode = match how {
            Allocate::Reserve { keep_size } => keep(keep_size),
            Allocate::PunchHole => FallocateFlags::PUNCH_HOLE | keep(true),
            Allocate::ZeroRange { keep_size } => FallocateFlags::ZERO_RANGE | keep(keep_size),
        };
        rustix::fs::fallocate(&*of(inode).bytes(true)?, mode, pos, len).map_err(error)?;
        follow(inode)
    }

    fn seek_data(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        // Nobody uses the descriptor's own position.
        match rustix::fs::seek(&*of(inode).bytes(false)?, SeekFrom::Data(pos)) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(error(errno)),
        }
    }

    fn seek_hole(&self, _call: &Call<'_>, inode: &Inode, pos: u64) -> Result<u64> {
        match rustix::fs::seek(&*of(inode).bytes(false)?, SeekFrom::Hole(pos)) {
            Ok(at) => Ok(at),
            Err(Errno::NXIO) => Ok(inode.size()),
            Err(errno) => Err(error(errno)),
        }
    }

    fn statfs(&self, _call: &Call<'_>) -> Result<StatFs> {
        let s = rustix::fs::fstatvfs(self.root.directory()?).map_err(error)?;
        let blocks = |n: u64| (u128::from(n) * u128::from(s.f_frsize) / PAGE_SIZE as u128) as u64;
        Ok(StatFs {
            blocks: blocks(s.f_blocks),
            free_blocks: blocks(s.f_bfree),
            reserved_blocks: blocks(s.f_bfree.saturating_sub(s.f_bavail)),
            inodes: s.f_files,
            free_inodes: s.f_ffree,
        })
    }
}
