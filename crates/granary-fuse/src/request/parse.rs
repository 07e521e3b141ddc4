//! Requests from bytes.

use super::{Op, Rest, SetTime, Setattr};
use crate::abi::{self, Valid, opcode};
use crate::{Handle, NodeId};
use zerocopy::FromBytes;

pub(super) fn decode(code: u32, mut rest: Rest<'_>) -> Option<Op<'_>> {
    let r = &mut rest;
    Some(match code {
        opcode::LOOKUP => Op::Lookup { name: r.name()? },
        opcode::FORGET => Op::Forget { lookups: r.take::<abi::ForgetIn>()?.nlookup },
        opcode::BATCH_FORGET => batch(r)?,
        opcode::GETATTR => Op::Getattr,
        opcode::SETATTR => Op::Setattr(setattr(&r.take()?)),
        opcode::READLINK => Op::Readlink,
        opcode::SYMLINK => Op::Symlink { name: r.name()?, target: r.name()? },
        opcode::MKNOD => {
            let abi::MknodIn { mode, rdev, umask, .. } = r.take()?;
            Op::Mknod { name: r.name()?, mode, umask, rdev }
        }
        opcode::MKDIR => {
            let abi::MkdirIn { mode, umask } = r.take()?;
            Op::Mkdir { name: r.name()?, mode, umask }
        }
        opcode::UNLINK => Op::Unlink { name: r.name()? },
        opcode::RMDIR => Op::Rmdir { name: r.name()? },
        opcode::RENAME => {
            let to_dir = NodeId(r.take::<abi::RenameIn>()?.newdir);
            Op::Rename { name: r.name()?, to_dir, to: r.name()?, flags: 0 }
        }
        opcode::RENAME2 => {
            let abi::Rename2In { newdir, flags, .. } = r.take()?;
            Op::Rename { name: r.name()?, to_dir: NodeId(newdir), to: r.name()?, flags }
        }
        opcode::LINK => Op::Link { from: NodeId(r.take::<abi::LinkIn>()?.oldnodeid), name: r.name()? },
        opcode::CREATE => {
            let abi::CreateIn { flags, mode, umask, .. } = r.take()?;
            Op::Create { name: r.name()?, mode, umask, flags }
        }
        opcode::TMPFILE => {
            let abi::CreateIn { flags, mode, umask, .. } = r.take()?;
            Op::Tmpfile { mode, umask, flags }
        }
        opcode::STATFS => Op::Statfs,
        opcode::ACCESS => Op::Access,
        opcode::INIT => Op::Init(init(r)?),
        opcode::INTERRUPT => Op::Interrupt,
        opcode::DESTROY => Op::Destroy,
        opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR | opcode::REMOVEXATTR => attribute(code, r)?,
        _ => return open_file(code, r),
    })
}

/// Operations on open files and directories.
pub(super) fn open_file<'a>(code: u32, r: &mut Rest<'a>) -> Option<Op<'a>> {
    Some(match code {
        opcode::OPEN => Op::Open { flags: r.take::<abi::OpenIn>()?.flags },
        opcode::OPENDIR => Op::Opendir,
        opcode::FLUSH => Op::Flush,
        opcode::READ => {
            let abi::ReadIn { fh, offset, size, flags, .. } = r.take()?;
            Op::Read { handle: Handle(fh), offset, size, flags }
        }
        opcode::WRITE => {
            let abi::WriteIn { fh, offset, size, write_flags, flags, .. } = r.take()?;
            let cached = write_flags & abi::WRITE_CACHE != 0;
            let kill = write_flags & abi::WRITE_KILL_SUIDGID != 0;
            Op::Write { handle: Handle(fh), offset, data: r.bytes(size)?, flags, cached, kill }
        }
        opcode::READDIR => {
            let abi::ReadIn { fh, offset, size, .. } = r.take()?;
            Op::Readdir { handle: Handle(fh), offset, size }
        }
        opcode::READDIRPLUS => {
            let abi::ReadIn { fh, offset, size, .. } = r.take()?;
            Op::Readdirplus { handle: Handle(fh), offset, size }
        }
        opcode::RELEASE => Op::Release { handle: Handle(r.take::<abi::ReleaseIn>()?.fh) },
        opcode::RELEASEDIR => Op::Releasedir { handle: Handle(r.take::<abi::ReleaseIn>()?.fh) },
        opcode::FSYNC => Op::Fsync { data_only: data_only(r)? },
        opcode::FSYNCDIR => Op::Fsyncdir { data_only: data_only(r)? },
        opcode::FALLOCATE => {
            let abi::FallocateIn { fh, offset, length, mode, .. } = r.take()?;
            Op::Fallocate { handle: Handle(fh), offset, length, mode }
        }
        opcode::LSEEK => {
            let abi::LseekIn { offset, whence, .. } = r.take()?;
            Op::Lseek { offset: offset as i64, whence }
        }
        opcode::IOCTL => {
            let abi::IoctlIn { cmd, in_size, out_size, .. } = r.take()?;
            Op::Ioctl { cmd, data: r.bytes(in_size)?, room: out_size }
        }
        opcode => Op::Unknown { opcode },
    })
}

pub(super) fn data_only(r: &mut Rest<'_>) -> Option<bool> {
    Some(r.take::<abi::FsyncIn>()?.fsync_flags & abi::FSYNC_DATA_ONLY != 0)
}

/// Operations on extended attributes.
pub(super) fn attribute<'a>(code: u32, r: &mut Rest<'a>) -> Option<Op<'a>> {
    Some(match code {
        opcode::SETXATTR => {
            let abi::SetxattrIn { size, flags } = r.take()?;
            Op::Setxattr { name: r.name()?, value: r.bytes(size)?, flags }
        }
        opcode::GETXATTR => {
            let size = r.take::<abi::GetxattrIn>()?.size;
            Op::Getxattr { name: r.name()?, size }
        }
        opcode::LISTXATTR => Op::Listxattr { size: r.take::<abi::GetxattrIn>()?.size },
        _ => Op::Removexattr { name: r.name()? },
    })
}

pub(super) fn batch<'a>(r: &mut Rest<'a>) -> Option<Op<'a>> {
    let count = r.take::<abi::BatchForgetIn>()?.count as usize;
    let (nodes, _) = <[abi::ForgetOne]>::ref_from_prefix_with_elems(r.0, count).ok()?;
    Some(Op::BatchForget { nodes })
}

/// Kernels before 7.36 send less of it.
pub(super) fn init(r: &mut Rest<'_>) -> Option<abi::InitIn> {
    let mut whole = [0; size_of::<abi::InitIn>()];
    let len = r.0.len().min(whole.len());
    // Up to `flags`.
    (len >= 16).then(|| whole[..len].copy_from_slice(&r.0[..len]))?;
    abi::InitIn::read_from_bytes(&whole).ok()
}

pub(super) fn setattr(s: &abi::SetattrIn) -> Setattr {
    let valid = Valid::from_bits_retain(s.valid);
    let time = |set: Valid, now: Valid, seconds: u64, nanos: u32| {
        let at = SetTime::At { seconds: seconds as i64, nanos };
        valid.contains(set).then_some(if valid.contains(now) { SetTime::Now } else { at })
    };
    Setattr {
        mode: valid.contains(Valid::MODE).then_some(s.mode),
        uid: valid.contains(Valid::UID).then_some(s.uid),
        gid: valid.contains(Valid::GID).then_some(s.gid),
        size: valid.contains(Valid::SIZE).then_some(s.size),
        atime: time(Valid::ATIME, Valid::ATIME_NOW, s.atime, s.atimensec),
        mtime: time(Valid::MTIME, Valid::MTIME_NOW, s.mtime, s.mtimensec),
        kill: valid.contains(Valid::KILL_SUIDGID),
    }
}
