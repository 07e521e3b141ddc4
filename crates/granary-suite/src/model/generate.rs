//! [`Generator`]: random calls on a small namespace, so that they meet.

use super::{DESCRIPTORS, Data, MAPS, Op};
use granary_fs::{Allocate, FileKind, RenameFlags, SetXattr};
use granary_sim::rng::Stream;
use granary_vfs::{Access, Fd, MapHow, MapId, OpenFlags, Whence};

/// Which calls a [`Generator`] makes, as weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Calls on names: create, link, remove, rename.
    pub names: u32,
    /// Calls on open files: read, write, truncate, sync.
    pub data: u32,
    /// Calls on attributes, and looks.
    pub attrs: u32,
    /// Become another user now and then.
    pub users: bool,
    /// Longest single write or read in bytes.
    pub longest: u64,
    /// Largest offset and size in bytes.
    pub largest: u64,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { names: 4, data: 5, attrs: 2, users: true, longest: 20_000, largest: 120_000 }
    }
}

/// See the module.
pub struct Generator {
    rng: Stream,
    mix: Mix,
}

impl Generator {
    /// The calls that `seed` stands for.
    pub fn new(seed: u64, mix: Mix) -> Generator {
        Generator { rng: Stream::new(seed, "model"), mix }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u64) as usize]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    /// A path of up to three components out of a few names; now and then an odd one.
    pub fn path(&mut self) -> String {
        let mut path = String::new();
        if self.chance(80) {
            path.push('/');
        }
        let depth = self.pick(&[1, 1, 2, 2, 2, 3]);
        for i in 0..depth {
            if i > 0 {
                path.push_str(if self.chance(3) { "//" } else { "/" });
            }
            let name = match self.rng.below(60) {
                0 => ".",
                1 | 2 => "..",
                // Directories tend to be called d and e, links l, files the rest.
                _ if i + 1 < depth => self.pick(&["d", "d", "e", "e", "l", "a"]),
                _ => self.pick(&["a", "b", "c", "d", "e", "l", "m"]),
            };
            path.push_str(name);
        }
        match self.rng.below(100) {
            0 => path.push_str(&"n".repeat(256)),
            1 => path = "/".to_owned(),
            2 => path = String::new(),
            3..6 => path.push('/'),
            _ => {}
        }
        path
    }

    fn fd(&mut self) -> Fd {
        Fd(self.rng.below(DESCRIPTORS as u64) as u32)
    }

    fn mode(&mut self) -> u16 {
        self.pick(&[
            0o777, 0o755, 0o700, 0o777, 0o2777, 0o1777, 0o666, 0o644, 0o600, 0o4755, 0o2755, 0o6711, 0o000,
        ])
    }

    fn offset(&mut self) -> u64 {
        let near = self.pick(&[0, 4096, 8192, 63, 64, 4095, 4097, 12_288, 40_000]);
        let largest = self.mix.largest;
        match self.rng.below(4) {
            0 => near.min(largest),
            1 => self.rng.below(10_000.min(largest) + 1),
            2 => self.rng.below(largest + 1),
            _ => 0,
        }
    }

    fn len(&mut self) -> usize {
        let longest = self.mix.longest;
        let len = match self.rng.below(4) {
            0 => self.pick(&[0, 1, 64, 512, 4096, 8192, 4095, 4097]),
            1 => self.rng.below(200),
            2 => self.rng.below(5_000),
            _ => self.rng.below(longest + 1),
        };
        len.min(longest) as usize
    }

    fn data(&mut self) -> Data {
        let len = self.len();
        match self.rng.below(3) {
            0 => Data::Fill { word: self.pick(&[0, 0x0101_0101_0101_0101, 0x0102_0304_0506_0708]), len },
            _ => Data::Bytes { seed: self.rng.below(256) as u8, len },
        }
    }

    fn flags(&mut self) -> OpenFlags {
        let mut flags = self.pick(&[OpenFlags::RDONLY, OpenFlags::RDWR, OpenFlags::RDWR, OpenFlags::WRONLY]);
        for (flag, percent) in [
            (OpenFlags::CREAT, 60),
            (OpenFlags::EXCL, 8),
            (OpenFlags::TRUNC, 15),
            (OpenFlags::APPEND, 15),
            (OpenFlags::DSYNC, 5),
            (OpenFlags::SYNC, 5),
            (OpenFlags::DIRECT, 15),
            (OpenFlags::DIRECTORY, 4),
            (OpenFlags::NOFOLLOW, 6),
            (OpenFlags::NOATIME, 3),
        ] {
            flags.set(flag, self.chance(percent));
        }
        flags
    }

    /// Flags to open a file without a name with: mostly such as may be.
    fn unnamed_flags(&mut self) -> OpenFlags {
        let mut flags = self.flags() - OpenFlags::CREAT - OpenFlags::DIRECTORY;
        if !flags.writes() && self.chance(90) {
            flags.insert(OpenFlags::RDWR);
        }
        flags
    }

    fn xattr(&mut self) -> String {
        let name = self.pick(&[
            "user.a",
            "user.a",
            "user.bb",
            "user.a longer name that is still no problem",
            "trusted.t",
            "security.s",
            "system.posix_acl",
            "system.other",
            "user.",
            "none.x",
            "",
        ]);
        name.to_owned()
    }

    /// The next call.
    pub fn next_op(&mut self) -> Op {
        let Mix { names, data, attrs, users, .. } = self.mix;
        if users && self.chance(4) {
            // Mostly back to root, who can do something.
            return Op::Become(self.pick(&[0, 0, 1, 2]));
        }
        let at = self.rng.below((names + data + attrs) as u64) as u32;
        if at < names {
            self.name_op()
        } else if at < names + data {
            self.data_op()
        } else {
            self.attr_op()
        }
    }

    /// A call on names.
    pub fn name_op(&mut self) -> Op {
        let path = self.path();
        match self.rng.below(23) {
            20 => {
                // Most paths lead to no directory.
                let dir = if self.chance(60) { "/".to_owned() } else { path };
                Op::OpenUnnamed { dir, flags: self.unnamed_flags(), mode: self.mode() }
            }
            21 | 22 => {
                let near = format!("/{}", self.pick(&["a", "b", "c", "m"]));
                Op::LinkOpen { fd: self.fd(), new: if self.chance(50) { near } else { path } }
            }
            0..4 => Op::Open { path, flags: self.flags(), mode: self.mode() },
            4..7 => Op::Mkdir { path, mode: self.mode() },
            7 => Op::Mknod {
                path,
                kind: self.pick(&[FileKind::Fifo, FileKind::CharDev, FileKind::File, FileKind::Socket]),
                mode: self.mode(),
            },
            8 | 9 => Op::Rmdir(path),
            10..13 => Op::Unlink(path),
            13..17 => {
                let flag = self.rng.below(10);
                let flags = RenameFlags { no_replace: flag == 0, exchange: flag == 1 };
                Op::Rename { from: path, to: self.path(), flags }
            }
            17 | 18 => Op::Link { old: path, new: self.path() },
            _ => Op::Symlink { target: self.path(), path },
        }
    }

    /// A call on an open file.
    pub fn data_op(&mut self) -> Op {
        let fd = self.fd();
        match self.rng.below(33) {
            26..33 => self.map_op(fd),
            0..3 => Op::Open { path: self.path(), flags: self.flags(), mode: self.mode() },
            3 | 4 => Op::Close(fd),
            5 | 6 => Op::Read { fd, len: self.len() },
            7..11 => Op::Pread { fd, pos: self.offset(), len: self.len() },
            11..14 => Op::Write { fd, data: self.data() },
            14..18 => Op::Pwrite { fd, pos: self.offset(), data: self.data() },
            18 => {
                let whence = self.pick(&[Whence::Set, Whence::Cur, Whence::End, Whence::Data, Whence::Hole]);
                Op::Seek { fd, offset: self.offset() as i64 - 100, whence }
            }
            19 => Op::Truncate { path: self.path(), size: self.offset() },
            20 | 21 => Op::Ftruncate { fd, size: self.offset() },
            24 | 25 => {
                let keep_size = self.chance(50);
                let how = match self.rng.below(3) {
                    0 => Allocate::Reserve { keep_size },
                    1 => Allocate::PunchHole,
                    _ => Allocate::ZeroRange { keep_size },
                };
                Op::Fallocate { fd, how, pos: self.offset(), len: self.len() as u64 }
            }
            22 => Op::Fsync { fd, data_only: self.chance(50) },
            _ if self.chance(50) => Op::Sync,
            _ => Op::Fstat(fd),
        }
    }

    /// A call on a mapping.
    fn map_op(&mut self, fd: Fd) -> Op {
        let map = MapId(self.rng.below(MAPS as u64) as u32);
        match self.rng.below(14) {
            0..3 => {
                let how = MapHow { shared: self.chance(70), write: self.chance(85) };
                let pos = if self.chance(95) { self.offset() / 4096 * 4096 } else { self.offset() };
                Op::Mmap { fd, pos, len: 1 + self.rng.below(self.mix.largest), how }
            }
            3..7 => Op::MapLoad { map, at: self.offset(), len: self.len() },
            7..12 => Op::MapStore { map, at: self.offset(), data: self.data() },
            12 => Op::Msync {
                map,
                at: self.offset() / 4096 * 4096,
                len: self.rng.below(20_000),
                wait: self.chance(80),
            },
            _ => Op::Munmap(map),
        }
    }

    /// A call on attributes, or a look.
    pub fn attr_op(&mut self) -> Op {
        let path = self.path();
        match self.rng.below(20) {
            16 => Op::Getxattr { path, name: self.xattr() },
            17 | 18 => {
                let how = self.pick(&[SetXattr::Any, SetXattr::Any, SetXattr::Create, SetXattr::Replace]);
                // Small enough for every file system: ext4 has one block for all of an inode.
                let len = self.pick(&[0, 1, 8, 20, 60, 150, 400]);
                let data = Data::Bytes { seed: self.rng.below(256) as u8, len };
                Op::Setxattr { path, name: self.xattr(), data, how }
            }
            19 if self.chance(50) => Op::Removexattr { path, name: self.xattr() },
            19 => Op::Listxattr(path),
            0..2 => Op::Stat(path),
            2 | 3 => Op::Lstat(path),
            4 => Op::Access { path, wanted: Access::from_bits_truncate(self.rng.below(8) as u8) },
            5 | 6 => Op::Chmod { path, mode: self.mode() },
            7 | 8 => {
                let mut id = || self.pick(&[None, Some(0), Some(100), Some(200)]);
                let (uid, gid) = (id(), id());
                Op::Chown { path, uid, gid, follow: self.chance(70) }
            }
            9 => Op::Utimens { path, now: self.chance(50) },
            10..12 => Op::List(path),
            12 => Op::Readlink(path),
            13 => Op::Chdir(path),
            14 => Op::Umask(self.pick(&[0, 0o022, 0o077])),
            _ => Op::Fstat(self.fd()),
        }
    }
}
