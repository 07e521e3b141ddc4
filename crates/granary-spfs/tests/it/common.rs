//! SPFS on a DIMM over a file system in memory that is there from one mount to the next.

use granary_device::{Drive, Port};
use granary_fs::{Cred, FsError, Result};
use granary_pmem::{Dimm, DimmConfig};
use granary_spfs::{MkfsOptions, MountOptions, Recovery, Spfs};
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_suite::reference::Limits;
use granary_suite::suite::{self, Subject};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Process, Vfs, VfsConfig};
use parking_lot::Mutex;
use std::sync::Arc;

/// How it is made and mounted. The drive of a suite is the DIMM.
#[derive(Clone, Default)]
pub struct Stack {
    pub mkfs: MkfsOptions,
    pub mount: MountOptions,
    /// The file system below ends where the DIMM does, and an inode may have many links.
    pub ends: bool,
    memory: Arc<Mutex<Option<Arc<MemFs>>>>,
}

impl Stack {
    /// With these options; each stack has a lower file system of its own.
    pub fn new(mkfs: MkfsOptions, mount: MountOptions) -> Stack {
        Stack { mkfs, mount, ends: false, memory: Arc::default() }
    }

    /// Small tables, promotion by the second fsync, demotion every 50 us of what was used a few times without
    /// one.
    pub fn busy(form: granary_spfs::exthash::Form) -> Stack {
        let mount = MountOptions {
            promote_after: 2,
            tick: Nanos::from_micros(50),
            factor_percent: 40,
            purge_after: Nanos::from_micros(300),
            piece: 4,
            ..MountOptions::default()
        };
        Stack::new(MkfsOptions { form, segment: 1 }, mount)
    }
}

impl Stack {
    /// The file system below, mounted.
    pub fn below(&self) -> Arc<Vfs> {
        let memory = self.memory.lock().clone().expect("made");
        Vfs::mount(memory, suite::tiny_caches()).expect("mounts")
    }
}

impl Stack {
    /// The file system below itself.
    pub fn memory(&self) -> Arc<MemFs> {
        self.memory.lock().clone().expect("made")
    }
}

impl Subject for Stack {
    type Fs = Spfs;
    type Recovery = Recovery;

    fn limits(&self) -> Limits {
        Limits { max_file_size: 1 << 43, max_links: 5 }
    }

    fn mkfs(&self, port: &Port) -> Result<()> {
        let mut config =
            MemFsConfig { latency: Nanos::from_micros(1), max_links: 5, ..MemFsConfig::default() };
        if self.ends {
            (config.blocks, config.max_links) = (port.info().pages, 32_000);
        }
        *self.memory.lock() = Some(Arc::new(MemFs::new(config)));
        granary_spfs::mkfs(port, &self.mkfs)
    }

    fn mount(&self, port: Port) -> Result<Arc<Spfs>> {
        let memory = self.memory.lock().clone().ok_or(FsError::NoEntry)?;
        granary_spfs::mount(port, Vfs::mount(memory, suite::tiny_caches())?, &self.mount)
    }

    fn recovery(fs: &Spfs) -> Recovery {
        fs.recovery()
    }

    fn was_clean(recovery: &Recovery) -> bool {
        recovery.clean
    }
}

/// A DIMM of this size.
pub fn dimm(size: Bytes) -> Arc<dyn Drive> {
    let config = DimmConfig { caches: Bytes::kib(64), ..DimmConfig::optane_dcpmm() };
    Arc::new(Dimm::new(&config.with_capacity(size)).expect("a DIMM"))
}

/// A mounted stack.
pub struct Rig {
    pub stack: Stack,
    pub drive: Arc<dyn Drive>,
    pub fs: Arc<Spfs>,
    pub vfs: Arc<Vfs>,
    pub p: Process,
}

impl Rig {
    /// A new one on a DIMM of this size.
    pub fn new(stack: &Stack, size: Bytes) -> Rig {
        let drive = dimm(size);
        stack.mkfs(&Port::new(drive.clone())).expect("mkfs");
        Rig::again(stack, drive)
    }

    /// Mounts the stack that is there.
    pub fn again(stack: &Stack, drive: Arc<dyn Drive>) -> Rig {
        let fs = stack.mount(Port::new(drive.clone())).expect("mounts");
        let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("vfs");
        let p = Process::new(vfs.clone(), Cred::ROOT);
        Rig { stack: stack.clone(), drive, fs, vfs, p }
    }

    /// Unmounts.
    pub fn unmounted(self) -> Arc<dyn Drive> {
        self.p.exit();
        self.vfs.unmount().expect("unmounts");
        self.drive
    }

    /// Unmounts and mounts again.
    pub fn remounted(self) -> Rig {
        self.check();
        self.p.exit();
        self.vfs.unmount().expect("unmounts");
        let rig = Rig::again(&self.stack, self.drive);
        assert!(rig.fs.recovery().clean);
        rig
    }

    /// Everything agrees with everything.
    pub fn check(&self) {
        let wrong = self.vfs.check().expect("checks");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// A file of `len` bytes that was promoted.
    pub fn tiered(&mut self, path: &str, len: usize) -> Fd {
        let fd = self.p.open(path, OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("created");
        self.put(fd, 0, 1, len);
        let before = self.fs.stats().tiered;
        for _ in 0..self.stack.mount.promote_after {
            self.p.fsync(fd).expect("fsync");
        }
        assert_eq!(self.fs.stats().tiered, before + 1, "{path} is promoted");
        fd
    }

    /// Writes a repeated word.
    pub fn put(&mut self, fd: Fd, pos: u64, word: u64, len: usize) {
        assert_eq!(self.p.pwrite(fd, Payload::Fill { word, len }, pos), Ok(len));
    }

    /// All bytes of a file.
    pub fn content(&mut self, fd: Fd) -> Vec<u8> {
        let size = self.p.fstat(fd).expect("stat").attr.size as usize;
        let mut bytes = vec![0; size];
        assert_eq!(self.p.pread(fd, Dest::Bytes(&mut bytes), 0), Ok(size));
        bytes
    }
}
