//! Several threads in one file: writers that overlap have an order, writers that do not go on at the same
//! time, and two are enough for the SSD.

use crate::common::{Mounted, Subject, busy, migrating};
use granary_orchfs::{MountOptions, RangeKind};
use granary_sim::rng::Stream;
use granary_sim::{now, spawn};
use granary_suite::suite::{create, drive, fill, on_pair, run, run_jittered};
use granary_units::{Bytes, Dest, Nanos, Payload};
use granary_vfs::{Fd, MapHow, Posix, Process};
use std::sync::Arc;

/// A write that was made.
struct Made {
    range: std::ops::Range<usize>,
    begun: Nanos,
    ended: Nanos,
    word: u8,
}

/// Whether each write was one step: who lies above whom in what is there at the end, and who ended before
/// another began, is an order without a circle.
fn have_an_order(made: &[Made], content: &[u8], seed: u64) {
    let of = |word: u8| made.iter().position(|m| m.word == word);
    // before[a][b]: a comes before b.
    let mut before = vec![vec![false; made.len()]; made.len()];
    for (at, word) in content.iter().enumerate() {
        let Some(last) = of(*word) else { continue };
        for (i, m) in made.iter().enumerate() {
            if i != last && m.range.contains(&at) {
                before[i][last] = true;
            }
        }
    }
    for (i, a) in made.iter().enumerate() {
        for (j, b) in made.iter().enumerate() {
            before[i][j] |= a.ended < b.begun;
        }
    }
    for k in 0..made.len() {
        for i in 0..made.len() {
            for j in 0..made.len() {
                before[i][j] |= before[i][k] && before[k][j];
            }
        }
    }
    for (i, m) in made.iter().enumerate() {
        assert!(!before[i][i], "seed {seed}: write {} of {:?} is torn by others", m.word, m.range);
    }
}

const SIZE: usize = 5 * 32_768 + 777;

fn overlapping(seed: u64, range_lock: RangeKind, subject: Subject) {
    run_jittered(seed, move || {
        let mount = MountOptions { range_lock, ..subject.mount.clone() };
        let m = Mounted::fresh(&Subject { mount, ..subject }, &drive(Bytes::mib(24)));
        let mut p = m.process();
        let fd = create(&mut p, "/f");
        p.pwrite(fd, fill(0, SIZE), 0).expect("write");
        let made = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..5u8)
            .map(|task| {
                let (mut p, made) = (m.process(), made.clone());
                spawn("writer", move || {
                    let fd = create(&mut p, "/f");
                    let mut random = Stream::new(seed * 10 + u64::from(task), "writer");
                    for i in 0..12u8 {
                        let from = random.below(SIZE as u64) as usize;
                        let longest = [200, 9_000, 120_000][random.below(3) as usize];
                        let to = (from + 1 + random.below(longest) as usize).min(SIZE);
                        let word = 1 + task * 12 + i;
                        let begun = now();
                        p.pwrite(fd, Payload::Bytes(&vec![word; to - from]), from as u64).expect("write");
                        made.lock().push(Made { range: from..to, begun, ended: now(), word });
                        if random.chance(0.3) {
                            p.fsync(fd).expect("fsync");
                        }
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join());
        let mut content = vec![0; SIZE];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut content), 0), Ok(SIZE));
        have_an_order(&made.lock(), &content, seed);
        drop(p);
        let again = m.remounted();
        again.check();
        let mut p = again.process();
        let fd = create(&mut p, "/f");
        let mut later = vec![0; SIZE];
        assert_eq!(p.pread(fd, Dest::Bytes(&mut later), 0), Ok(SIZE));
        assert!(later == content, "seed {seed}: a remount changed it");
    });
}

#[test]
fn writers_that_overlap_have_an_order_with_either_lock() {
    for seed in 0..4 {
        for range_lock in [RangeKind::Rw, RangeKind::Bits] {
            on_pair(|| overlapping(seed, range_lock, busy()));
        }
    }
    for (seed, range_lock) in [(10, RangeKind::Rw), (11, RangeKind::Bits)] {
        on_pair(|| overlapping(seed, range_lock, migrating()));
    }
}

/// The bytes of the file of `sees_whole_writes`.
const WHOLE: usize = 100_000;

/// Three tasks fill all of a file with words of their own; what `look` returns meanwhile is of one write.
fn sees_whole_writes(
    seed: u64,
    range_lock: RangeKind,
    look: impl Fn(&mut Process, Fd) -> Vec<u8> + Send + 'static,
) {
    on_pair(|| {
        run_jittered(seed, move || {
            let mount = MountOptions { range_lock, ..MountOptions::default() };
            let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive(Bytes::mib(24)));
            let mut p = m.process();
            let fd = create(&mut p, "/f");
            p.pwrite(fd, fill(9, WHOLE), 0).expect("write");
            let tasks: Vec<_> = (0..3u64)
                .map(|task| {
                    let mut p = m.process();
                    spawn("writer", move || {
                        let fd = create(&mut p, "/f");
                        (0..8).for_each(|i| {
                            p.pwrite(fd, fill(10 * task + i, WHOLE), 0).map(drop).expect("write");
                        });
                    })
                })
                .collect();
            for _ in 0..12 {
                let seen = look(&mut p, fd);
                assert!(seen.chunks_exact(8).all(|word| word == &seen[..8]), "{range_lock:?}: a torn write");
            }
            tasks.into_iter().for_each(|task| task.join());
        });
    });
}

#[test]
fn a_reader_sees_whole_writes_with_either_lock() {
    for (seed, range_lock) in [(1, RangeKind::Rw), (2, RangeKind::Bits)] {
        sees_whole_writes(seed, range_lock, |p, fd| {
            let mut seen = vec![0; WHOLE];
            p.pread(fd, Dest::Bytes(&mut seen), 0).expect("read");
            seen
        });
    }
}

/// Page by page, as a mapping is read.
#[test]
fn a_load_through_a_mapping_sees_whole_writes() {
    sees_whole_writes(1, RangeKind::Rw, |p, fd| {
        let map = p.mmap(fd, 0, WHOLE as u64, MapHow { shared: false, write: false }).expect("mmap");
        let mut seen = vec![0; WHOLE];
        p.map_load(map, 0, Dest::Bytes(&mut seen)).expect("load");
        p.munmap(map).expect("munmap");
        seen
    });
}

/// A store into a private mapping copies its pages one by one, with all that they hold.
#[test]
fn a_private_store_copies_whole_writes() {
    const PAGES: usize = 16 * 4096;
    sees_whole_writes(2, RangeKind::Rw, |p, fd| {
        let map = p.mmap(fd, 0, WHOLE as u64, MapHow { shared: false, write: true }).expect("mmap");
        // From the last word of the first page to the last but one of the last.
        p.map_store(map, 4088, fill(77, PAGES)).expect("store");
        let mut seen = vec![0; PAGES + 4096];
        p.map_load(map, 0, Dest::Bytes(&mut seen)).expect("load");
        p.munmap(map).expect("munmap");
        seen.drain(4088..4088 + PAGES);
        seen
    });
}

/// Bytes a second of `threads` threads that overwrite parts of one file at random, each request of 1 MiB.
fn overwrites(threads: u64, range_lock: RangeKind, shared: bool) -> f64 {
    const EACH: u64 = 12;
    on_pair(|| {
        run(move || {
            let mount = MountOptions { range_lock, ..MountOptions::default() };
            let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive(Bytes::mib(96)));
            let mut p = m.process();
            let name = move |task: u64| if shared { "/f".to_owned() } else { format!("/f{task}") };
            for task in 0..threads {
                let fd = create(&mut p, &name(task));
                p.pwrite(fd, fill(1, 16 << 20), 0).expect("write");
                p.close(fd).expect("close");
            }
            let begin = now();
            let tasks: Vec<_> = (0..threads)
                .map(|task| {
                    let mut p = m.process();
                    spawn("writer", move || {
                        let fd = create(&mut p, &name(task));
                        let mut random = Stream::new(task, "places");
                        for i in 0..EACH {
                            let at = random.below(15) << 20;
                            p.pwrite(fd, fill(i + 2, 1 << 20), at).expect("write");
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(|task| task.join());
            ((threads * EACH) << 20) as f64 / now().saturating_sub(begin).as_secs_f64()
        })
    })
}

/// Slides, "multi-threaded writes": a small number of user threads, 2 for example, saturates the SSD, in one
/// file too.
#[test]
fn two_threads_saturate_the_ssd_in_one_file() {
    let all: Vec<f64> = [1, 2, 4].map(|threads| overwrites(threads, RangeKind::Rw, true)).into();
    println!("1, 2, 4 threads in one file: {all:.0?} B/s");
    assert!(all[1] > all[0] * 0.99 && all[1] > all[2] * 0.9, "{all:?}");
    let bits = overwrites(2, RangeKind::Bits, true);
    assert!(bits > all[1] * 0.7, "{bits} with bits");
    let own = overwrites(2, RangeKind::Rw, false);
    assert!(all[1] > own * 0.8, "{} in one file, {own} in files of their own", all[1]);
}

/// Writers of blocks of one file that do not overlap need not wait for each other: together they take what
/// the link to the SSD takes.
#[test]
fn writers_of_different_blocks_go_on_together() {
    let time = |threads: u64, range_lock: RangeKind| {
        on_pair(|| {
            run(move || {
                let mount = MountOptions { range_lock, ..MountOptions::default() };
                let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive(Bytes::mib(48)));
                let mut p = m.process();
                let fd = create(&mut p, "/f");
                p.pwrite(fd, fill(1, 8 << 20), 0).expect("write");
                let begin = now();
                let tasks: Vec<_> = (0..threads)
                    .map(|task| {
                        let mut p = m.process();
                        spawn("writer", move || {
                            let fd = create(&mut p, "/f");
                            for i in 0..200 / threads {
                                p.pwrite(fd, fill(i, 32_768), (task << 20) + i % 32 * 32_768).expect("write");
                            }
                        })
                    })
                    .collect();
                tasks.into_iter().for_each(|task| task.join());
                now().saturating_sub(begin)
            })
        })
    };
    for range_lock in [RangeKind::Rw, RangeKind::Bits] {
        let (one, four) = (time(1, range_lock), time(4, range_lock));
        assert!(four.0 * 10 < one.0 * 9, "{range_lock:?}: {four:?} with four, {one:?} with one");
    }
}

/// A file of SSD blocks that is read from the beginning: the pages behind are there before they are wanted.
#[test]
fn sequential_reads_are_read_ahead() {
    let time = |engine: bool| {
        on_pair(|| {
            run(move || {
                let mount = MountOptions { engine, ..MountOptions::default() };
                let m = Mounted::fresh(&Subject { mount, ..Subject::default() }, &drive(Bytes::mib(48)));
                let mut p = m.process();
                let fd = create(&mut p, "/f");
                p.pwrite(fd, fill(7, 8 << 20), 0).expect("write");
                m.vfs.drop_caches();
                let begin = now();
                for page in 0..2048u64 {
                    let mut word = [0; 8];
                    p.pread(fd, Dest::Bytes(&mut word), page * 4096).expect("read");
                    assert_eq!(u64::from_le_bytes(word), 7);
                }
                now().saturating_sub(begin)
            })
        })
    };
    let (with, without) = (time(true), time(false));
    println!("2048 pages in order: {with:?} read ahead, {without:?} one by one");
    assert!(with.0 * 2 < without.0, "{with:?} {without:?}");
}
