//! A chain of loads is the same as its loads one by one: in time, in counters, in the cache's later victims.
//!
//! ```text
//!   one schedule ──> drive with its own load_known
//!               └──> drive that is asked run by run                        every answer, every counter equal
//! ```

use granary_device::{Chain, Command, Drive, Streamed, Structure, load_one_by_one};
use granary_mssd::{DriveConfig, Mode, Mssd};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, PAGE_SIZE, Page, Payload, TxId};

const WHAT: Structure = Structure::Dentry;

/// A drive and the content of its pages as the host last saw it.
struct Side {
    drive: Mssd,
    known: Vec<Page>,
    load: Load,
}

/// How a chain is loaded: [`Drive::load_known`] or the function that says what that has to equal.
type Load = fn(&Mssd, Nanos, &[(Lpa, usize)], Nanos, &[Page], &mut [Page], Structure) -> Chain;

impl Side {
    fn new(drive: Mssd, pages: u64, load: Load) -> Side {
        Side { drive, known: vec![Page::ZERO; pages as usize], load }
    }

    /// The chain, and what it brought; the host knows that from now on, unless it is to `forget` it.
    fn chain(
        &mut self,
        now: Nanos,
        runs: &[(Lpa, usize)],
        until: Nanos,
        forget: bool,
    ) -> (Chain, Vec<(Lpa, Page)>) {
        let pages = |runs: &[(Lpa, usize)]| -> Vec<Lpa> {
            runs.iter().flat_map(|&(lpa, n)| (0..n as u64).map(move |i| lpa.offset(i))).collect()
        };
        let known: Vec<Page> = pages(runs).iter().map(|l| self.known[l.0 as usize].clone()).collect();
        let mut fresh = vec![Page::ZERO; 64];
        let chain = (self.load)(&self.drive, now, runs, until, &known, &mut fresh, WHAT);
        let last = chain.runs.checked_sub(1).map_or(Vec::new(), |last| pages(&runs[last..=last]));
        let new: Vec<(Lpa, Page)> = last
            .into_iter()
            .zip(fresh)
            .enumerate()
            .filter(|(i, _)| chain.changed >> i & 1 == 1)
            .map(|(_, p)| p)
            .collect();
        for (lpa, page) in &new {
            self.known[lpa.0 as usize] = if forget { Page::ZERO } else { page.clone() };
        }
        (chain, new)
    }
}

fn config(rng: &mut Stream) -> DriveConfig {
    let mode = if rng.chance(0.25) { Mode::Log } else { Mode::Cache };
    let mut c = DriveConfig::tiny(mode);
    c.firmware.cache = Bytes::kib(16 << rng.below(6));
    c.firmware.write_buffer = Bytes::kib(16 << rng.below(4));
    c.firmware.cores = 1 + rng.below(3) as usize;
    c
}

#[test]
fn a_chain_of_loads_is_its_loads_one_by_one() {
    let (mut whole, mut stopped, mut missed) = (0, 0, 0);
    for seed in 0..150 {
        let mut rng = Stream::new(seed, "chains");
        let config = config(&mut rng);
        let [a, b] = [(); 2].map(|()| Mssd::new(&config).expect("a drive"));
        // Pages that are used: with the smaller caches more than fit, with the larger ones fewer.
        let pages = a.info().pages.min(60);
        let mut sides = [Side::new(a, pages, Mssd::load_known), Side::new(b, pages, load_one_by_one)];
        let tracking = rng.chance(0.2);
        sides.iter().for_each(|s| s.drive.track_in_flight(tracking));
        let mut now = Nanos::ZERO;
        // A directory: its pages are loaded in one order again and again.
        let order: Vec<Lpa> = (0..30).map(|_| Lpa(rng.below(pages))).collect();
        for step in 0..400 {
            let at = |b: u64| format!("seed {seed} step {step}: {b}");
            let lpa = Lpa(rng.below(pages));
            match rng.below(10) {
                0 | 1 => {
                    let n = 1 + rng.below(3) as usize * 60;
                    let from = ByteAddr(lpa.byte().0 + rng.below((PAGE_SIZE - n) as u64));
                    let data = vec![rng.below(256) as u8; n];
                    let [x, y] = sides.each_ref().map(|s| {
                        let t = s.drive.store(now, from, &data, TxId::NONE, WHAT).expect("stores");
                        // Some lines stay where they are: a load pushes them out.
                        if step % 3 == 0 { t } else { s.drive.flush_lines(t, from, n).expect("flushes") }
                    });
                    assert_eq!(x, y, "{}", at(0));
                    now = x;
                }
                2 => {
                    let word = rng.below(1000);
                    let [x, y] = sides.each_ref().map(|s| {
                        let data = Streamed::Part(Payload::Fill { word, len: PAGE_SIZE / 2 });
                        s.drive.stream(now, lpa, 0, data, WHAT).expect("streams")
                    });
                    assert_eq!(x, y, "{}", at(1));
                    now = x;
                }
                3 => {
                    let [x, y] = sides.each_ref().map(|s| {
                        let write = Command::Write { lpa, pages: &[Page::word(step)], what: WHAT };
                        s.drive.submit(now, write).expect("writes")
                    });
                    assert_eq!(x, y, "{}", at(2));
                    now = if step % 2 == 0 { x } else { now + Nanos(300) };
                }
                4 => {
                    let [x, y] = sides.each_ref().map(|s| s.drive.verify(now).expect("verifies"));
                    assert_eq!(x, y, "{}", at(3));
                    now = x;
                }
                _ => {
                    let from = rng.below(order.len() as u64) as usize;
                    let runs: Vec<(Lpa, usize)> = order[from..]
                        .iter()
                        .map(|l| (*l, 1 + rng.below(6).saturating_sub(3).min(pages - 1 - l.0) as usize))
                        .collect();
                    let until = now
                        + [Nanos::ZERO, Nanos(rng.below(200_000)), Nanos::from_micros(10_000)]
                            [rng.below(3) as usize];
                    let forget = rng.chance(0.05);
                    let mut at_run = 0;
                    // As a port goes on: behind what was new, and behind what came too late.
                    while at_run < runs.len() {
                        let [x, y] = sides.each_mut().map(|s| s.chain(now, &runs[at_run..], until, forget));
                        assert_eq!(x, y, "{}", at(4));
                        let chain = x.0;
                        assert_eq!(chain.failed, None, "{}", at(5));
                        assert!(chain.runs > 0 && chain.done > now, "{}", at(6));
                        whole += (chain.runs > 3) as u64;
                        stopped += (chain.changed != 0) as u64;
                        (now, at_run) = (chain.done, at_run + chain.runs);
                    }
                }
            }
            let [x, y] = sides.each_ref().map(|s| s.drive.counters());
            assert_eq!(x, y, "{}", at(7));
            let [x, y] = sides.each_ref().map(|s| s.drive.counters_at(now));
            assert_eq!(x, y, "{}", at(8));
        }
        let bad = Lpa(sides[0].drive.info().pages);
        let [x, y] = sides.each_mut().map(|s| {
            let known = [Page::ZERO, Page::ZERO];
            (s.load)(&s.drive, now, &[(bad, 1), (bad, 1)], Nanos(u64::MAX), &known, &mut [Page::ZERO], WHAT)
        });
        assert!(
            x.failed.is_some()
                && y.failed.is_some()
                && (x.runs, x.done) == (0, now)
                && (y.runs, y.done) == (0, now)
        );
        missed += sides[0].drive.counters().cache.misses;
        let [x, y] = sides.each_ref().map(|s| s.drive.settle(now).expect("settles"));
        assert_eq!(x, y, "seed {seed}: the order in which pages are written back");
        let [x, y] = sides.each_ref().map(|s| s.drive.counters());
        assert_eq!(x, y, "seed {seed}");
        sides
            .iter()
            .for_each(|s| s.drive.check().unwrap_or_else(|bad| panic!("seed {seed}: {}", bad.join("; "))));
    }
    assert!(whole > 3_000 && stopped > 3_000 && missed > 3_000, "{whole} {stopped} {missed}");
}

/// The same for a directory that is searched again and again while something is in the way: lines that the
/// firmware has not taken yet, a busy link, pages that are on their way from flash.
#[test]
fn a_chain_that_something_is_in_the_way_of_is_its_loads_one_by_one() {
    let mut longest = 0;
    for seed in 0..200 {
        let mut rng = Stream::new(seed, "chains in the way");
        let mut config = DriveConfig::tiny(Mode::Cache);
        config.firmware.cache = Bytes::kib(4 * (10 + rng.below(12)));
        config.firmware.write_buffer = Bytes::kib(16);
        config.firmware.cores = 1 + rng.below(2) as usize;
        let [a, b] = [(); 2].map(|()| Mssd::new(&config).expect("a drive"));
        let mut sides = [Side::new(a, 60, Mssd::load_known), Side::new(b, 60, load_one_by_one)];
        let directory: Vec<(Lpa, usize)> = (0..10).map(|i| (Lpa(2 * i), 1)).collect();
        let mut now = Nanos::ZERO;
        for step in 0..200 {
            // None of it is waited for.
            for _ in 0..rng.below(4) {
                let (kind, lpa) = (rng.below(4), Lpa(rng.below(60)));
                let n = 1 + rng.below(PAGE_SIZE as u64 - 1) as usize;
                let [x, y] = sides.each_ref().map(|s| match kind {
                    0 => {
                        let pages = &mut [Page::ZERO];
                        let read = Command::Read { lpa, out: pages, what: WHAT };
                        s.drive.submit(now, read).map(|_| now)
                    }
                    1 => {
                        let write = Command::Write { lpa, pages: &[Page::word(step)], what: WHAT };
                        s.drive.submit(now, write).map(|_| now)
                    }
                    _ => {
                        let data = vec![step as u8; n];
                        let stored = s.drive.store(now, lpa.byte(), &data, TxId::NONE, WHAT);
                        stored.and_then(|t| s.drive.flush_lines(t, lpa.byte(), n))
                    }
                });
                assert_eq!(x, y, "seed {seed} step {step}");
                now = x.expect("a sound drive");
            }
            let mut at = 0;
            while at < directory.len() {
                let [x, y] = sides.each_mut().map(|s| s.chain(now, &directory[at..], Nanos(u64::MAX), false));
                assert_eq!(x, y, "seed {seed} step {step}");
                (now, at) = (x.0.done, at + x.0.runs);
                longest = longest.max(x.0.runs);
            }
            let [x, y] = sides.each_ref().map(|s| (s.drive.counters(), s.drive.counters_at(now)));
            assert_eq!(x, y, "seed {seed} step {step}");
        }
    }
    assert_eq!(longest, 10);
}
