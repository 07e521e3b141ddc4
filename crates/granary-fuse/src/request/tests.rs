//! Each request out of its bytes; and what is cut short, or random, is refused.

use super::*;
use crate::abi::*;
use proptest::prelude::*;
use zerocopy::IntoBytes;

fn bytes(opcode: u32, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let len = (size_of::<InHeader>() + body.len()) as u32;
    let header =
        InHeader { len, opcode, unique: 9, nodeid: 5, uid: 1, gid: 2, pid: 3, ..InHeader::default() };
    [header.as_bytes(), &body].concat()
}

/// The request is read as `expected`, with the caller; and no shorter one is taken.
fn reads(code: u32, parts: &[&[u8]], expected: Op<'_>) {
    let all = bytes(code, parts);
    let request = Request::decode(&all).expect("well formed");
    let whole = Request { unique: 9, node: NodeId(5), uid: 1, gid: 2, pid: 3, op: expected, bytes: &all };
    assert_eq!((request, request.keep().request()), (whole, whole));
    for len in 0..all.len() {
        assert!(Request::decode(&all[..len]).is_err(), "opcode {code}: {len} of {} bytes", all.len());
        // The same where the header knows.
        let mut cut = all[..len].to_vec();
        if len >= size_of::<InHeader>() {
            cut[..4].copy_from_slice(&(len as u32).to_ne_bytes());
            let same = Request::decode(&cut).is_ok_and(|r| r.op == expected);
            assert!(
                !same || matches!(expected, Op::Init(_) | Op::Tmpfile { .. } | Op::Unknown { .. }),
                "{code}"
            );
        }
    }
}

#[test]
fn names_are_read() {
    let name = b"name".as_slice();
    reads(opcode::LOOKUP, &[b"name\0"], Op::Lookup { name });
    reads(opcode::UNLINK, &[b"name\0"], Op::Unlink { name });
    reads(opcode::RMDIR, &[b"name\0"], Op::Rmdir { name });
    reads(opcode::REMOVEXATTR, &[b"name\0"], Op::Removexattr { name });
    reads(opcode::SYMLINK, &[b"name\0to/where\0"], Op::Symlink { name, target: b"to/where" });
    let link = LinkIn { oldnodeid: 7 };
    reads(opcode::LINK, &[link.as_bytes(), b"name\0"], Op::Link { from: NodeId(7), name });
    let rename = RenameIn { newdir: 7 };
    let op = |flags| Op::Rename { name, to_dir: NodeId(7), to: b"to", flags };
    reads(opcode::RENAME, &[rename.as_bytes(), b"name\0to\0"], op(0));
    let rename = Rename2In { newdir: 7, flags: 2, padding: 0 };
    reads(opcode::RENAME2, &[rename.as_bytes(), b"name\0to\0"], op(2));
}

#[test]
fn what_is_made_is_read() {
    let name = b"name".as_slice();
    let mknod = MknodIn { mode: 0o20644, rdev: 8, umask: 0o22, padding: 0 };
    let op = Op::Mknod { name, mode: 0o20644, umask: 0o22, rdev: 8 };
    reads(opcode::MKNOD, &[mknod.as_bytes(), b"name\0"], op);
    let mkdir = MkdirIn { mode: 0o755, umask: 0o22 };
    reads(opcode::MKDIR, &[mkdir.as_bytes(), b"name\0"], Op::Mkdir { name, mode: 0o755, umask: 0o22 });
    let create = CreateIn { flags: 2, mode: 0o100644, umask: 0o22, open_flags: 0 };
    let (mode, umask, flags) = (0o100644, 0o22, 2);
    reads(opcode::CREATE, &[create.as_bytes(), b"name\0"], Op::Create { name, mode, umask, flags });
    reads(opcode::TMPFILE, &[create.as_bytes(), b"/\0"], Op::Tmpfile { mode, umask, flags });
}

#[test]
fn open_files_are_read() {
    let handle = Handle(4);
    reads(opcode::OPEN, &[OpenIn { flags: 3, open_flags: 0 }.as_bytes()], Op::Open { flags: 3 });
    let read = ReadIn { fh: 4, offset: 1 << 40, size: 4096, flags: 2, ..ReadIn::default() };
    let (offset, size) = (1 << 40, 4096);
    reads(opcode::READ, &[read.as_bytes()], Op::Read { handle, offset, size, flags: 2 });
    reads(opcode::READDIR, &[read.as_bytes()], Op::Readdir { handle, offset, size });
    reads(opcode::READDIRPLUS, &[read.as_bytes()], Op::Readdirplus { handle, offset, size });
    let write = WriteIn { fh: 4, offset: 5, size: 4, write_flags: 1, flags: 2, ..WriteIn::default() };
    let op = Op::Write { handle, offset: 5, data: b"data", flags: 2, cached: true, kill: false };
    reads(opcode::WRITE, &[write.as_bytes(), b"data"], op);
    let release = ReleaseIn { fh: 4, ..ReleaseIn::default() };
    reads(opcode::RELEASE, &[release.as_bytes()], Op::Release { handle });
    reads(opcode::RELEASEDIR, &[release.as_bytes()], Op::Releasedir { handle });
    let fsync = FsyncIn { fh: 4, fsync_flags: 1, padding: 0 };
    reads(opcode::FSYNC, &[fsync.as_bytes()], Op::Fsync { data_only: true });
    reads(opcode::FSYNCDIR, &[FsyncIn::default().as_bytes()], Op::Fsyncdir { data_only: false });
    let allocate = FallocateIn { fh: 4, offset: 1, length: 2, mode: 3, padding: 0 };
    let op = Op::Fallocate { handle, offset: 1, length: 2, mode: 3 };
    reads(opcode::FALLOCATE, &[allocate.as_bytes()], op);
    let seek = LseekIn { fh: 4, offset: u64::MAX, whence: 3, padding: 0 };
    reads(opcode::LSEEK, &[seek.as_bytes()], Op::Lseek { offset: -1, whence: 3 });
}

#[test]
fn extended_attributes_are_read() {
    let name = b"user.a".as_slice();
    let set = SetxattrIn { size: 5, flags: 1 };
    let op = Op::Setxattr { name, value: b"v\0lue", flags: 1 };
    reads(opcode::SETXATTR, &[set.as_bytes(), b"user.a\0v\0lue"], op);
    let get = GetxattrIn { size: 100, padding: 0 };
    reads(opcode::GETXATTR, &[get.as_bytes(), b"user.a\0"], Op::Getxattr { name, size: 100 });
    reads(opcode::LISTXATTR, &[get.as_bytes()], Op::Listxattr { size: 100 });
}

#[test]
fn what_says_nothing_more_is_read() {
    // Bytes behind some of these do not matter.
    for (code, op) in [
        (opcode::GETATTR, Op::Getattr),
        (opcode::READLINK, Op::Readlink),
        (opcode::STATFS, Op::Statfs),
        (opcode::FLUSH, Op::Flush),
        (opcode::OPENDIR, Op::Opendir),
        (opcode::ACCESS, Op::Access),
        (opcode::INTERRUPT, Op::Interrupt),
        (opcode::DESTROY, Op::Destroy),
        (47, Op::Unknown { opcode: 47 }),
    ] {
        reads(code, &[], op);
        assert_eq!(Request::decode(&bytes(code, &[&[1; 16]])).expect("longer").op, op);
    }
}

#[test]
fn lookups_are_given_back_one_by_one_and_together() {
    reads(opcode::FORGET, &[ForgetIn { nlookup: 3 }.as_bytes()], Op::Forget { lookups: 3 });
    let nodes = [ForgetOne::new(NodeId(7), 1), ForgetOne::new(NodeId(8), 2)];
    let batch = BatchForgetIn { count: 2, dummy: 0 };
    reads(opcode::BATCH_FORGET, &[batch.as_bytes(), nodes.as_bytes()], Op::BatchForget { nodes: &nodes });
    let lie = BatchForgetIn { count: u32::MAX, dummy: 0 };
    assert!(Request::decode(&bytes(opcode::BATCH_FORGET, &[lie.as_bytes(), nodes.as_bytes()])).is_err());
}

#[test]
fn the_first_request_may_be_an_older_kernels() {
    let init = InitIn { major: 7, minor: 45, max_readahead: 1, flags: 2, flags2: 3, ..InitIn::default() };
    reads(opcode::INIT, &[init.as_bytes()], Op::Init(init));
    let old = InitIn { flags2: 0, ..init };
    assert_eq!(
        Request::decode(&bytes(opcode::INIT, &[&init.as_bytes()[..16]])).expect("7.6").op,
        Op::Init(old)
    );
}

#[test]
fn attributes_to_change_are_those_that_are_marked() {
    let set = SetattrIn { valid: 1 << 3 | 1 << 0, size: 77, mode: 0o100600, uid: 5, ..SetattrIn::default() };
    let op = Setattr { size: Some(77), mode: Some(0o100600), ..Setattr::default() };
    reads(opcode::SETATTR, &[set.as_bytes()], Op::Setattr(op));
    let set = SetattrIn { valid: 1 << 1 | 1 << 2, uid: 5, gid: 6, ..SetattrIn::default() };
    let op = Setattr { uid: Some(5), gid: Some(6), ..Setattr::default() };
    reads(opcode::SETATTR, &[set.as_bytes()], Op::Setattr(op));
}

#[test]
fn times_before_1970_count_forwards() {
    let set = SetattrIn {
        valid: 1 << 4 | 1 << 5,
        atime: -2i64 as u64,
        atimensec: 800_000_000,
        mtime: 3,
        mtimensec: 4,
        ..SetattrIn::default()
    };
    let at = |seconds, nanos| Some(SetTime::At { seconds, nanos });
    let op = Setattr { atime: at(-2, 800_000_000), mtime: at(3, 4), ..Setattr::default() };
    reads(opcode::SETATTR, &[set.as_bytes()], Op::Setattr(op));
    let now = SetattrIn { valid: set.valid | 1 << 7, ..set };
    let op = Setattr { atime: Some(SetTime::Now), mtime: at(3, 4), ..Setattr::default() };
    reads(opcode::SETATTR, &[now.as_bytes()], Op::Setattr(op));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        known in any::<prop::sample::Index>(),
        body in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200),
        cut in 0usize..240,
    ) {
        let code = *known.get(opcode::KNOWN);
        let mut all = bytes(code, &[&body]);
        let _ = Request::decode(&all);
        let _ = Request::decode(&body);
        all.truncate(cut);
        let refused = Request::decode(&all).is_err();
        prop_assert!(refused || all.len() == 40 + body.len());
    }
}
