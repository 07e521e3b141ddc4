//! Writes to the SSD: whole aligned blocks of 32 KiB, until the NVM is full.

use crate::common::{Mounted, Subject};
use granary_device::{Command, Drive, DriveError, Role};
use granary_fs::FsError;
use granary_orchfs::geometry::{BLOCK, PAGES};
use granary_orchfs::{FullUpage, MountOptions, Reclaim};
use granary_sim::rng::Stream;
use granary_sim::{now, sleep};
use granary_suite::suite::{self, Pair, create, on_pair, run};
use granary_units::{Bytes, Dest, Nanos, PAGE_SIZE, Payload};
use granary_vfs::Posix;
use parking_lot::Mutex;
use std::sync::Arc;

/// An SSD that writes down what is written to it: (first page, pages).
struct Watched {
    inner: Arc<dyn Drive>,
    writes: Arc<Mutex<Vec<(u64, usize)>>>,
}

impl Drive for Watched {
    granary_device::forward_drive!(inner: info, identify, load, store_from, flush_lines, stream, load_pages, load_known, verify,
        look_ahead, look_ahead_lines, wants_attention, settle, power_fail, power_on, track_in_flight, traffic, counters,
        counters_at, check);

    fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
        if let Command::Write { lpa, pages, .. } = &command {
            self.writes.lock().push((lpa.0, pages.len()));
        }
        self.inner.submit(now, command)
    }
}

type Writes = Arc<Mutex<Vec<(u64, usize)>>>;

/// Devices of this size in all, whose SSD is watched.
fn watched(size: Bytes) -> (Arc<dyn Drive>, Writes) {
    let writes = Writes::default();
    let pair = Pair::new(size.0 / PAGE_SIZE as u64, |role, pages| {
        let size = Bytes(pages * PAGE_SIZE as u64);
        match role {
            Role::Nvm => suite::on_nvm(|| suite::drive(size)),
            Role::Ssd => {
                let inner = suite::on_ssd(|| suite::drive(size));
                Arc::new(Watched { inner, writes: writes.clone() })
            }
        }
    });
    (Arc::new(pair), writes)
}

/// Random writes of any size anywhere in one file, beside a model; says how many could not be made for lack
/// of space.
fn scribble(m: &Mounted, seed: u64, writes: usize, size: u64, longest: u64) -> usize {
    let mut random = Stream::new(seed, "writes");
    let mut p = m.process();
    let fd = create(&mut p, "/f");
    let (mut model, mut full) = (Vec::new(), 0);
    for i in 0..writes {
        let pos = random.below(size);
        let most = [300, 5_000, longest][random.below(3) as usize];
        let len = (1 + random.below(most)).min(size - pos);
        let byte = 1 + (i % 255) as u8;
        match p.pwrite(fd, Payload::Bytes(&vec![byte; len as usize]), pos) {
            Ok(_) => {
                model.resize(model.len().max((pos + len) as usize), 0);
                model[pos as usize..(pos + len) as usize].fill(byte);
            }
            Err(FsError::NoSpace) => full += 1,
            Err(e) => panic!("{e}"),
        }
    }
    let mut got = vec![0xee; model.len()];
    assert_eq!(p.pread(fd, Dest::Bytes(&mut got), 0), Ok(model.len()));
    let wrong = model.iter().zip(&got).position(|(a, b)| a != b);
    assert_eq!(wrong, None, "seed {seed}: wrong from there on");
    full
}

#[test]
fn the_ssd_gets_whole_aligned_blocks_only() {
    for (seed, reclaim) in [(1, Reclaim::Paper), (2, Reclaim::Artifact)] {
        run(move || {
            let (drive, writes) = watched(Bytes::mib(48));
            let mount = MountOptions { reclaim, ..MountOptions::default() };
            let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive);
            assert_eq!(scribble(&m, seed, 400, 6 << 20, 300_000), 0);
            let writes = writes.lock();
            assert!(writes.len() > 100, "the SSD got {} writes", writes.len());
            for (page, pages) in &*writes {
                assert!(page % PAGES as u64 == 0 && *pages == PAGES, "{pages} pages at {page}");
            }
            m.check();
        });
    }
}

/// `full_upage = "writeback"`: pages with fifteen chunks go back to the SSD, 4 KiB each, and are free;
/// nothing else is smaller than a block.
#[test]
fn a_full_upage_is_written_back_as_one_page_where_that_is_asked_for() {
    for (full_upage, written_back) in [(FullUpage::Writeback, 10), (FullUpage::Convert, 0)] {
        run(move || {
            let (drive, writes) = watched(Bytes::mib(24));
            let mount = MountOptions { full_upage, migrate: false, ..MountOptions::default() };
            let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive);
            let mut p = m.process();
            let fd = create(&mut p, "/f");
            p.pwrite(fd, Payload::Fill { word: 0, len: 4 * BLOCK as usize }, 0).expect("write");
            // Ten pages, fifteen chunks each.
            for page in 0..10u64 {
                for chunk in 0..15u64 {
                    p.pwrite(fd, Payload::Bytes(&[7; 9]), page * 4096 + chunk * 100 + 3).expect("write");
                }
            }
            let single = writes.lock().iter().filter(|(_, pages)| *pages == 1).count();
            assert_eq!(single, written_back);
            let mut got = vec![0xee; 10 * 4096];
            p.pread(fd, Dest::Bytes(&mut got), 0).expect("read");
            for (at, byte) in got.iter().enumerate() {
                let (within, chunk) = (at % 4096 % 100, at % 4096 / 100);
                assert_eq!(*byte, if chunk < 15 && (3..12).contains(&within) { 7 } else { 0 }, "byte {at}");
            }
            drop(p);
            m.remounted().check();
        });
    }
}

/// An NVM of some megabytes, small writes all over a file that only the SSD has room for: with migration or
/// without, none fails.
#[test]
fn small_writes_go_on_when_the_nvm_is_full() {
    for (seed, migrate) in [(1, false), (2, true)] {
        run(move || {
            let (drive, writes) = watched(Bytes::mib(12));
            let mount = MountOptions { migrate, ..MountOptions::default() };
            let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive);
            assert_eq!(scribble(&m, seed, 3_000, 7 << 20, 5_000), 0);
            // The host merged, or migration did.
            assert!(writes.lock().len() > 100);
            m.check();
            m.remounted().check();
        });
    }
}

/// While nobody calls, all blocks that may move do, not so many a look of the daemon.
#[test]
fn whatever_may_migrate_does_in_one_idle_time() {
    on_pair(|| {
        run(|| {
            const BLOCKS: u64 = 200;
            let m = Mounted::fresh(&Subject::default(), &suite::drive(Bytes::mib(96)));
            let mut p = m.process();
            let fd = create(&mut p, "/f");
            p.pwrite(fd, Payload::Fill { word: 1, len: (BLOCKS * BLOCK) as usize }, 0).expect("write");
            for block in 0..BLOCKS {
                p.pwrite(fd, Payload::Fill { word: 2, len: 100 }, block * BLOCK + 5_000).expect("write");
            }
            assert!(m.fs.migrations() < 8, "{} blocks moved while the program wrote", m.fs.migrations());
            let options = MountOptions::default();
            sleep(Nanos(options.migrate_idle.0 + 3 * options.migrate_pause.0));
            assert_eq!(m.fs.migrations(), BLOCKS);
            let mut got = [0; 8];
            p.pread(fd, Dest::Bytes(&mut got), 5_000).expect("read");
            assert_eq!(u64::from_le_bytes(got), 2);
            m.check();
        });
    });
}

/// Blocks that the host merges and writes as a whole do not get into another's file. A full SSD reports that,
/// and keeps everything.
#[test]
fn both_full_is_no_space_and_nothing_is_lost() {
    run(|| {
        let (drive, _) = watched(Bytes::mib(12));
        let m = Mounted::fresh(&Subject::default(), &drive);
        assert!(scribble(&m, 3, 3_000, 20 << 20, BLOCK * 4) > 0);
        m.check();
    });
}

/// Time of 20 appends of this size, each at an odd place.
fn appends(engine: bool, len: usize) -> Nanos {
    on_pair(|| {
        run(move || {
            let mount = MountOptions { engine, ..MountOptions::default() };
            let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &suite::drive(Bytes::mib(96)));
            let mut p = m.process();
            let fd = create(&mut p, "/f");
            let begin = now();
            for i in 0..20u64 {
                p.pwrite(fd, Payload::Fill { word: i + 1, len }, 777 + i * len as u64).expect("write");
            }
            now().saturating_sub(begin)
        })
    })
}

/// Slides, Figure 11b: the engine takes up to 48.6 % of a write's latency away. Writes without anything for
/// the SSD gain nothing.
#[test]
fn the_engine_makes_large_writes_faster() {
    let (with, without) = (appends(true, 1 << 20), appends(false, 1 << 20));
    println!("1 MiB: {with:?} with the engine, {without:?} without");
    // These devices are not the paper's: what must be is the gain, not its size.
    assert!(with.0 * 100 < without.0 * 90, "{with:?} with the engine, {without:?} without");
    assert_eq!(appends(true, 4096), appends(false, 4096));
}
