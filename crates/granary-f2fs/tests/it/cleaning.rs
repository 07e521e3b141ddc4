//! Cleaning beside calls that free what is cleaned.

use crate::common::{Mounted, Subject};
use granary_f2fs::MkfsOptions;
use granary_fs::{FileKind, Sweep};
use granary_sim::{JoinHandle, World, WorldConfig};
use granary_suite::suite::{create, drive, fill, run};
use granary_units::{Bytes, Nanos};
use granary_vfs::Posix;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const DIRS: u64 = 6;
const NAMES: u64 = 20;

/// A name so long that so many of them need blocks of their own.
fn path(dir: u64, n: u64) -> String {
    format!("/{dir}/{}", "n".repeat(200 + n as usize))
}

/// Nothing stays in memory: each look into a table waits for the drive.
struct Dropper {
    done: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Dropper {
    fn of(m: &Mounted) -> Dropper {
        let (vfs, done) = (Arc::clone(&m.vfs), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&done);
        let task = granary_sim::spawn("dropper", move || {
            while !ended.load(Relaxed) {
                vfs.drop_caches();
                granary_sim::sleep(Nanos(1_500));
            }
        });
        Dropper { done, task }
    }

    fn end(self) {
        self.done.store(true, Relaxed);
        self.task.join();
    }
}

/// A file or directory that is removed while its nodes and blocks are being cleaned is gone. Every wait of
/// the removal is met: it begins at many instants of the cleaning.
#[test]
fn what_goes_while_it_is_cleaned_is_gone() {
    for part in 0..60 {
        run(move || {
            let mkfs = MkfsOptions { segment_blocks: Some(16), ..MkfsOptions::default() };
            let m = Mounted::fresh(&Subject { mkfs, ..Subject::default() }, &drive(Bytes::mib(16)));
            let mut p = m.process();
            for d in 0..DIRS {
                p.mkdir(format!("/{d}"), 0o755).expect("mkdir");
                for i in 0..NAMES {
                    let fd = create(&mut p, &path(d, i));
                    p.pwrite(fd, fill(i, 5000), 0).expect("write");
                    p.close(fd).expect("close");
                }
            }
            p.sync().expect("sync");
            // Holes in every segment, so that cleaning has something to win.
            for (d, i) in (0..DIRS).flat_map(|d| (0..NAMES).step_by(3).map(move |i| (d, i))) {
                p.unlink(path(d, i)).expect("unlink");
            }
            p.sync().expect("sync");
            let dropper = Dropper::of(&m);
            let mut other = m.process();
            let remover = granary_sim::spawn("remover", move || {
                granary_sim::sleep(Nanos(part * 20_000));
                for d in 0..DIRS {
                    for i in (0..NAMES).filter(|i| i % 3 != 0) {
                        other.unlink(path(d, i)).expect("unlink");
                    }
                    other.rmdir(format!("/{d}")).expect("rmdir");
                }
            });
            let swept = m.vfs.sweep(&Sweep::default()).expect("sweep");
            assert!(swept.blocks_copied > 0, "{swept:?}");
            remover.join();
            dropper.end();
            p.sync().expect("what is gone is not written");
            m.check();
        });
    }
}

/// A directory that ends while its block is being cleaned stays gone. Between two looks of the cleaning all
/// of that end takes place: every lock is waited for, and nothing stays in memory.
#[test]
fn a_directory_that_ends_while_its_block_is_cleaned_is_gone() {
    const DIRS: u64 = 48;
    for seed in 0..40 {
        let config = WorldConfig { jitter: Nanos(30_000), seed, ..WorldConfig::default() };
        let run = World::new(config).run(move || {
            let mkfs = MkfsOptions { segment_blocks: Some(16), ..MkfsOptions::default() };
            let m = Mounted::fresh(&Subject { mkfs, ..Subject::default() }, &drive(Bytes::mib(16)));
            let mut p = m.process();
            for d in 0..DIRS {
                p.mkdir(format!("/{d}"), 0o755).expect("mkdir");
                // So many that they leave the inode; the block stays when they have gone.
                for i in 0..9 {
                    p.mknod(path(d, i), FileKind::File, 0o644, 0).expect("mknod");
                }
                for i in 0..9 {
                    p.unlink(path(d, i)).expect("unlink");
                }
            }
            p.sync().expect("sync");
            // Holes in every segment, so that cleaning has something to win.
            for d in (0..DIRS).step_by(3) {
                p.rmdir(format!("/{d}")).expect("rmdir");
            }
            p.sync().expect("sync");
            let dropper = Dropper::of(&m);
            let mut other = m.process();
            let remover = granary_sim::spawn("remover", move || {
                granary_sim::sleep(Nanos(seed * 100_000));
                for d in (0..DIRS).filter(|d| d % 3 != 0) {
                    other.rmdir(format!("/{d}")).expect("rmdir");
                }
            });
            m.vfs.sweep(&Sweep::default()).expect("sweep");
            remover.join();
            dropper.end();
            p.sync().expect("what is gone is not written");
            m.check();
        });
        run.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
    }
}
