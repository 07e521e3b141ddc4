//! Stores through a shared mapping that were msynced survive a power failure at any command. Later stores are
//! there or not, line by line, but nothing else is.

use granary_crash::{Faults, Target, Trip};
use granary_fs::{Call, Cred};
use granary_sim::rng::Stream;
use granary_sim::{Stop, World, WorldConfig, sleep_until};
use granary_units::{Dest, LINE_SIZE, Nanos, PAGE_SIZE, Payload};
use granary_vfs::{MapHow, OpenFlags, Posix, Process, Vfs};
use parking_lot::Mutex;
use std::sync::Arc;

const PAGES: usize = 6;
const LINES: usize = PAGES * PAGE_SIZE / LINE_SIZE;

/// Versions of each line: the last one that was msynced, and the last one that was stored. A line of version
/// v repeats v in all its words.
#[derive(Clone)]
struct Lines {
    synced: [u64; LINES],
    stored: [u64; LINES],
}

/// Stores and syncs until the power fails.
fn work(p: &mut Process, lines: &Mutex<Lines>, random: &mut Stream) {
    let fd = p.open("/f", OpenFlags::RDWR, 0).expect("opens");
    let how = MapHow { shared: true, write: true };
    let map = p.mmap(fd, 0, (LINES * LINE_SIZE) as u64, how).expect("maps");
    for version in 1.. {
        let first = random.below(LINES as u64) as usize;
        // Few lines of a page go by byte, many by block.
        let count = if random.chance(0.7) { 1 + random.below(4) } else { 1 + random.below(100) } as usize;
        let count = count.min(LINES - first);
        lines.lock().stored[first..first + count].fill(version);
        let data = Payload::Fill { word: version, len: count * LINE_SIZE };
        p.map_store(map, (first * LINE_SIZE) as u64, data).expect("stores");
        if random.chance(0.3) {
            let page = random.below(PAGES as u64) as usize;
            let pages = 1 + random.below((PAGES - page) as u64) as usize;
            let covered = page * PAGE_SIZE / LINE_SIZE..(page + pages) * PAGE_SIZE / LINE_SIZE;
            p.msync(map, (page * PAGE_SIZE) as u64, (pages * PAGE_SIZE) as u64, true).expect("syncs");
            let mut lines = lines.lock();
            for line in covered {
                lines.synced[line] = lines.stored[line];
            }
        }
    }
}

fn point(target: Arc<dyn Target>, seed: u64) {
    let devices = target.devices(seed);
    let lines = Arc::new(Mutex::new(Lines { synced: [0; LINES], stored: [0; LINES] }));
    let (shared, t, d) = (lines.clone(), target.clone(), devices.clone());
    let stopped = World::new(WorldConfig { seed, ..WorldConfig::default() }).run(move || {
        t.mkfs(&d).expect("mkfs");
        let (faulty, faults) = Faults::around(&d);
        let fs = t.mount(&faulty).expect("mount");
        let mut p = Process::new(Vfs::mount(fs, t.vfs()).expect("vfs"), Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600).expect("creates");
        p.pwrite(fd, Payload::Fill { word: 0, len: LINES * LINE_SIZE }, 0).expect("writes");
        p.sync().expect("syncs");
        p.close(fd).expect("closes");
        d.track_in_flight(true);
        let mut random = Stream::new(seed, "mmap");
        let n = 1 + random.below(600);
        faults.arm(Some(if random.chance(0.5) { Trip::Before(n) } else { Trip::After(n) }));
        work(&mut p, &shared, &mut random);
    });
    let Err(Stop::PowerFail(at)) = stopped else { panic!("seed {seed}: the power failed: {stopped:?}") };
    devices.power_fail(at, &mut Stream::new(seed, "survivors"));
    let ready = devices.power_on(at + Nanos(1)).expect("power on");
    let lines = lines.lock().clone();
    let result = World::default().run(move || {
        sleep_until(ready);
        let fs = target.mount(&devices).expect("mount");
        assert_eq!(fs.check(&Call::offline()).expect("readable"), Vec::<String>::new());
        let mut p = Process::new(Vfs::mount(fs, target.vfs()).expect("vfs"), Cred::ROOT);
        let fd = p.open("/f", OpenFlags::RDONLY, 0).expect("opens");
        let mut content = vec![0; LINES * LINE_SIZE];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut content), 0), Ok(LINES * LINE_SIZE));
        for (n, line) in content.chunks_exact(LINE_SIZE).enumerate() {
            let words: Vec<u64> = line
                .chunks_exact(8)
                .map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")))
                .collect();
            let (version, promised) = (words[0], lines.synced[n]..=lines.stored[n]);
            assert!(words.iter().all(|&w| w == version), "seed {seed}: line {n} is torn: {words:?}");
            assert!(promised.contains(&version), "seed {seed}: line {n} has {version}, not {promised:?}");
        }
    });
    result.unwrap_or_else(|stop| panic!("seed {seed}: {stop}"));
}

fn points(fs: &str, count: u64) {
    for seed in 0..count {
        point(crate::targets::by_name(fs).expect("a target"), seed);
    }
}

#[test]
fn an_msynced_page_survives_on_bytefs() {
    points("bytefs", 150);
    points("bytefs-dual", 40);
}

#[test]
fn an_msynced_page_survives_on_ext4_and_f2fs() {
    points("ext4", 40);
    points("f2fs", 40);
}

#[test]
fn an_msynced_page_survives_without_a_page_cache() {
    points("nova", 40);
}
