//! A file system on a lower vfs: it behaves as the reference, charges a system call once, and no schedule
//! makes its layers wait for each other.

use granary_device::Port;
use granary_fs::{Cred, FsError, Result, SetXattr};
use granary_sim::{Cores, HostCosts, World, WorldConfig};
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_suite::model::{Generator, Mix, run_concurrently};
use granary_suite::passthrough::{Passthrough, PassthroughConfig};
use granary_suite::reference::Limits;
use granary_suite::suite::{self, Subject, tiny_caches};
use granary_units::{Dest, Nanos, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Through, Vfs, VfsConfig};
use parking_lot::Mutex;
use std::sync::Arc;

const LATENCY: Nanos = Nanos::from_micros(1);

/// Every sensible place for pages: below, above, in both layers.
const PLACES: [PassthroughConfig; 3] = [
    PassthroughConfig { page_cache: false, through: Through::Cache },
    PassthroughConfig { page_cache: true, through: Through::Direct },
    PassthroughConfig { page_cache: true, through: Through::Cache },
];

/// A file system in memory that is there from one mount to the next, and a layer on it.
#[derive(Clone)]
struct Stack {
    config: PassthroughConfig,
    memory: Arc<Mutex<Option<Arc<MemFs>>>>,
}

impl Stack {
    fn new(config: PassthroughConfig) -> Stack {
        Stack { config, memory: Arc::default() }
    }

    fn layer(&self, fs: Arc<MemFs>) -> Result<Arc<Passthrough>> {
        Ok(Arc::new(Passthrough::new(Vfs::mount(fs, tiny_caches())?, self.config)))
    }
}

impl Subject for Stack {
    type Fs = Passthrough;
    type Recovery = ();

    fn limits(&self) -> Limits {
        Limits { max_file_size: 1 << 43, max_links: 5 }
    }

    fn mkfs(&self, _: &Port) -> Result<()> {
        let config = MemFsConfig { latency: LATENCY, max_links: 5, ..MemFsConfig::default() };
        *self.memory.lock() = Some(Arc::new(MemFs::new(config)));
        Ok(())
    }

    fn mount(&self, _: Port) -> Result<Arc<Passthrough>> {
        let memory = self.memory.lock().clone();
        self.layer(memory.ok_or(FsError::NoEntry)?)
    }

    fn recovery(_: &Passthrough) {}

    fn was_clean((): &()) -> bool {
        true
    }
}

#[test]
fn calls_through_two_layers_behave_as_the_reference() {
    for (i, config) in (0..).zip(PLACES) {
        let stack = Stack::new(config);
        let first = 20 * i;
        suite::calls_behave_as_the_reference(&stack, first..first + 4, tiny_caches(), Mix::default(), 3_000);
        let mix = Mix { names: 1, attrs: 1, data: 20, users: false, longest: 300_000, largest: 1_000_000 };
        suite::calls_behave_as_the_reference(&stack, first + 10..first + 12, VfsConfig::default(), mix, 500);
    }
}

#[test]
fn concurrent_calls_through_two_layers_have_a_serial_order() {
    for config in PLACES {
        suite::concurrent_calls_have_a_serial_order(&Stack::new(config));
    }
}

#[test]
fn any_calls_of_64_tasks_through_two_layers_end() {
    for config in PLACES {
        suite::any_calls_of_64_tasks_end_and_leave_a_sound_file_system(&Stack::new(config));
    }
}

#[test]
fn threads_on_the_wall_clock_leave_two_sound_layers() {
    for config in PLACES {
        suite::threads_on_the_wall_clock_leave_a_sound_file_system(&Stack::new(config));
    }
}

/// No lock cycle within or between the layers, whose flushers run all the time, in any of these schedules.
#[test]
fn eight_tasks_through_two_layers_end_in_every_schedule() {
    for seed in 0..120 {
        let world = World::new(WorldConfig { jitter: Nanos(3_000), seed, ..WorldConfig::default() });
        let result = world.run(move || {
            let stack = Stack::new(PLACES[seed as usize % PLACES.len()]);
            let memory = Arc::new(MemFs::new(MemFsConfig { latency: LATENCY, ..MemFsConfig::default() }));
            let fs = stack.layer(memory.clone()).map_err(|e| e.to_string())?;
            let vfs = Vfs::mount(fs.clone(), tiny_caches()).map_err(|e| e.to_string())?;
            let calls = |task| {
                let mix = Mix { names: 6, users: false, ..Mix::default() };
                let mut generator = Generator::new(seed * 100 + task, mix);
                (0..60).map(|_| generator.next_op()).collect()
            };
            run_concurrently(&vfs, Vec::new(), (0..8).map(calls).collect())?;
            assert_eq!(fs.lower().vfs().calls(), 0, "every call came from above");
            vfs.unmount().map_err(|e| format!("unmount: {e}"))?;
            assert!(memory.has_ended(), "both layers are unmounted");
            Ok(())
        });
        match result {
            Ok(Ok(())) => {}
            Ok(Err::<(), String>(why)) => panic!("seed {seed}: {why}"),
            Err(stop) => panic!("seed {seed}: {stop}"),
        }
    }
}

/// With nothing else that costs, every call costs what one costs, however many calls it makes below.
#[test]
fn a_system_call_through_two_layers_is_charged_once() {
    const SYSCALL: Nanos = Nanos(1_000);
    for config in PLACES {
        let costs = HostCosts { syscall: SYSCALL, ..HostCosts::ZERO };
        let world = World::new(WorldConfig { costs, ..WorldConfig::default() });
        let run = world.run(move || {
            let memory = Arc::new(MemFs::new(MemFsConfig::default()));
            let lower = Vfs::mount(memory, VfsConfig::default()).expect("mounts");
            let fs = Arc::new(Passthrough::new(lower.clone(), config));
            let vfs = Vfs::mount(fs, VfsConfig::default()).expect("mounts");
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            let mut once = |what: &str, call: &mut dyn FnMut(&mut Process) -> Result<()>| {
                let (busy, calls) = (Cores::HOST.busy(), vfs.calls());
                call(&mut p).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(Cores::HOST.busy() - busy, SYSCALL, "{what}, {config:?}");
                assert_eq!((vfs.calls() - calls, lower.calls()), (1, 0), "{what}, {config:?}");
            };
            let mut fd = None;
            once("mkdir", &mut |p| p.mkdir("/d", 0o755));
            once("open", &mut |p| {
                fd = Some(p.open("/d/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644)?);
                Ok(())
            });
            let fd = fd.expect("opened");
            once("write", &mut |p| p.write(fd, Payload::Fill { word: 7, len: 100_000 }).map(drop));
            once("fsync", &mut |p| p.fsync(fd));
            once("read", &mut |p| p.pread(fd, Dest::Discard(100_000), 0).map(drop));
            once("truncate", &mut |p| p.ftruncate(fd, 5_000));
            once("setxattr", &mut |p| p.setxattr("/d/f", b"user.a", b"v", SetXattr::Any));
            once("getxattr", &mut |p| p.getxattr("/d/f", b"user.a").map(drop));
            once("chmod", &mut |p| p.chmod("/d/f", 0o600));
            once("rename", &mut |p| p.rename("/d/f", "/d/g"));
            once("link", &mut |p| p.link("/d/g", "/h"));
            once("stat", &mut |p| p.stat("/h").map(drop));
            once("unlink", &mut |p| p.unlink("/d/g"));
            once("sync", &mut |p| p.sync());
            once("close", &mut |p| p.close(fd));
        });
        run.expect("no deadlock");
    }
}
