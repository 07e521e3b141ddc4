//! Sixteen threads at once: nothing is mixed up, and the file system is in order afterwards.

use super::rig::{Rig, each};
use granary_sim::rng::Stream;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const THREADS: u64 = 16;

/// How long the mixed work goes on: `GRANARY_SECONDS`, or a moment.
fn seconds() -> f64 {
    std::env::var("GRANARY_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1.5)
}

#[test]
fn threads_of_mixed_work_leave_a_file_system_in_order() {
    each(|rig| {
        let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
        fs::create_dir(rig.path("shared")).expect("mkdir");
        std::thread::scope(|s| {
            for t in 0..THREADS {
                let (stop, calls) = (&stop, &calls);
                s.spawn(move || {
                    let mut rng = Stream::new(t, rig.fs);
                    let own = rig.path(&format!("t{t}"));
                    fs::create_dir(&own).expect("mkdir");
                    while !stop.load(Relaxed) {
                        work(rig, t, &mut rng);
                        calls.fetch_add(1, Relaxed);
                    }
                });
            }
            for _ in 0..(seconds() * 100.0) as u64 {
                super::rig::pause();
            }
            stop.store(true, Relaxed);
        });
        assert!(calls.load(Relaxed) > 500, "only {} rounds", calls.load(Relaxed));
    });
}

/// A round: own files are checked to the byte, shared names may come and go under us.
fn work(rig: &Rig, t: u64, rng: &mut Stream) {
    let own = rig.path(&format!("t{t}/f{}", rng.below(20)));
    let shared = |rng: &mut Stream| rig.path(&format!("shared/s{}", rng.below(30)));
    match rng.below(10) {
        0..=3 => {
            let data = vec![t as u8 + 1; 1 + rng.below(40_000) as usize];
            fs::write(&own, &data).expect("write");
            if rng.chance(0.3) {
                File::open(&own).expect("open").sync_all().expect("fsync");
            }
            assert_eq!(fs::read(&own).expect("read"), data, "thread {t} reads what it wrote");
        }
        4 => drop(fs::remove_file(&own)),
        5 => drop(fs::rename(shared(rng), shared(rng))),
        6 => drop(fs::write(shared(rng), vec![0xee; rng.below(20_000) as usize])),
        7 => drop(fs::remove_file(shared(rng))),
        8 => {
            drop(fs::hard_link(shared(rng), shared(rng)));
            let mut log =
                OpenOptions::new().append(true).create(true).open(rig.path("shared/log")).expect("log");
            log.write_all(&[t as u8; 16]).expect("append");
        }
        _ => {
            if let Ok(mut f) = File::open(shared(rng)) {
                let mut data = Vec::new();
                f.read_to_end(&mut data).expect("read");
                assert!(data.iter().all(|&b| b == 0xee || b == 0));
            }
            assert!(fs::read_dir(rig.path("shared")).expect("readdir").all(|e| e.is_ok()));
        }
    }
}

#[test]
fn appends_of_many_threads_are_whole() {
    each(|rig| {
        std::thread::scope(|s| {
            for t in 0..THREADS {
                s.spawn(move || {
                    let mut f =
                        OpenOptions::new().append(true).create(true).open(rig.path("log")).expect("open");
                    for _ in 0..50 {
                        f.write_all(&[t as u8; 100]).expect("append");
                    }
                });
            }
        });
        let f = File::open(rig.path("log")).expect("open");
        let mut record = [0; 100];
        let mut counts = [0; THREADS as usize];
        for i in 0..THREADS * 50 {
            f.read_exact_at(&mut record, i * 100).expect("as many records as were written");
            assert!(record.iter().all(|&b| b == record[0]), "record {i} is whole");
            counts[record[0] as usize] += 1;
        }
        assert_eq!(counts, [50; THREADS as usize]);
    });
}
