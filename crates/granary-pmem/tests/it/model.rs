//! The DIMM against a plain array of bytes with, for each word of 8 bytes, the values that a power failure
//! may leave.

use crate::rig::*;
use granary_device::{Drive, Streamed};
use granary_pmem::{Dimm, DimmConfig, Domain, Kind};
use granary_sim::rng::Stream;
use granary_units::{ByteAddr, Bytes, Lpa, Nanos, Page, Payload, TxId};

const PAGES: u64 = 3;
const SIZE: usize = PAGES as usize * 4096;

/// Values of a word since it was last known to be safe, oldest first: (value, number of the write-back that
/// brought it).
type History = Vec<([u8; 8], Option<u64>)>;

struct Model {
    visible: Vec<u8>,
    /// Words that have more than one value to choose from; of the others what is visible is safe.
    open: std::collections::BTreeMap<usize, History>,
    posts: u64,
    /// (answered at, write-backs before it).
    fences: Vec<(Nanos, u64)>,
}

impl Model {
    fn word(&self, w: usize) -> [u8; 8] {
        self.visible[w * 8..w * 8 + 8].try_into().expect("8 bytes")
    }

    fn store(&mut self, at: usize, data: &[u8], post: Option<u64>) {
        if data.is_empty() {
            return;
        }
        let touched = at / 8..=(at + data.len() - 1) / 8;
        for w in touched.clone() {
            let safe = self.word(w);
            self.open.entry(w).or_insert_with(|| vec![(safe, Some(0))]);
        }
        self.visible[at..at + data.len()].copy_from_slice(data);
        for w in touched {
            let value = self.word(w);
            self.open.get_mut(&w).expect("just opened").push((value, post));
        }
    }

    /// Lines of a range are written back.
    fn write_back(&mut self, at: usize, len: usize) {
        if len == 0 {
            return;
        }
        self.posts += 1;
        let (first, end) = (at / 64 * 8, (at + len).div_ceil(64) * 8);
        for (_, history) in self.open.range_mut(first..end) {
            history
                .iter_mut()
                .filter(|(_, post)| post.is_none())
                .for_each(|(_, post)| *post = Some(self.posts));
        }
    }

    fn answer(&mut self, now: Nanos) {
        let Some(safe) = self.fences.iter().filter(|(done, _)| *done <= now).map(|(_, posts)| *posts).max()
        else {
            return;
        };
        self.fences.retain(|(done, _)| *done > now);
        self.open.retain(|_, history| {
            let last = history.iter().rposition(|(_, post)| post.is_some_and(|post| post <= safe));
            history.drain(..last.expect("the first is safe"));
            history.len() > 1
        });
    }

    /// Power has failed; each word has one of its allowed values, which is safe from now on.
    fn settle_for(&mut self, now: Nanos, after: Vec<u8>, domain: Domain) {
        self.answer(now);
        if domain == Domain::Eadr {
            assert!(after == self.visible, "eADR lost something");
        }
        for (w, word) in after.chunks_exact(8).enumerate() {
            match self.open.get(&w) {
                None => assert_eq!(word, self.word(w), "word {w} was safe"),
                Some(history) => {
                    assert!(
                        history.iter().any(|(value, _)| value == word),
                        "word {w}: {word:?} of {history:?}"
                    );
                }
            }
        }
        (self.visible, self.fences) = (after, Vec::new());
        self.open.clear();
    }
}

fn config(random: &mut Stream) -> DimmConfig {
    let kind = [Kind::OptaneDcpmm, Kind::NvdimmN, Kind::DramSpeed][random.below(3) as usize];
    let config = DimmConfig::of(kind).interleaved([1, 3][random.below(2) as usize]);
    DimmConfig {
        capacity: Bytes::kib(4 * PAGES / config.dimms as u64),
        domain: if random.below(4) == 0 { Domain::Eadr } else { Domain::Adr },
        // Few lines, so that some are evicted.
        caches: Bytes(64 * [4, 100_000][random.below(2) as usize]),
        ..config
    }
}

/// One schedule; returns all instants that the DIMM gave, and what it holds in the end.
fn run(seed: u64, steps: usize) -> (Vec<Nanos>, Vec<u8>) {
    let mut random = Stream::new(seed, "model");
    let config = config(&mut random);
    let d = dimm(&config);
    d.track_in_flight(true);
    let mut model = Model { visible: vec![0; SIZE], open: Default::default(), posts: 0, fences: Vec::new() };
    let (mut now, mut instants) = (Nanos::ZERO, Vec::new());
    // A few places are used again and again, so that versions of a line pile up.
    let hot: Vec<usize> = (0..3).map(|_| random.below(SIZE as u64 - 300) as usize).collect();
    for step in 0..steps {
        let core = random.below(6) as u16;
        let at = match random.below(3) {
            0 => random.below(SIZE as u64) as usize,
            _ => hot[random.below(3) as usize] + random.below(40) as usize,
        };
        let most = [9, 65, 300][random.below(3) as usize];
        let len = (random.below(most) as usize).min(SIZE - at);
        let data: Vec<u8> = (0..len).map(|i| (seed as usize + step * 7 + i * 3) as u8 | 1).collect();
        model.answer(now);
        let done = match random.below(100) {
            0..30 => {
                model.store(at, &data, None);
                d.store_from(core, now, ByteAddr(at as u64), &data, TxId::NONE, WHAT).expect("stores")
            }
            30..45 => stream(&d, core, now, at, &data, &mut model),
            45..48 => {
                let (page, word) = (random.below(PAGES), random.below(3) * 0x0101_0203);
                model.write_back(page as usize * 4096, 4096);
                model.posts += 1;
                model.store(page as usize * 4096, &Page::word(word).to_bytes(), Some(model.posts));
                let content = Page::word(word);
                d.stream_from(core, now, Lpa(page), 0, Streamed::Page(&content), WHAT).expect("streams")
            }
            48..65 => {
                model.write_back(at, len);
                d.flush_lines(now, ByteAddr(at as u64), len).expect("flushes")
            }
            65..77 => {
                let done = d.verify(now).expect("fences");
                model.fences.push((done, model.posts));
                // A caller that does not wait for the fence has no promise from it yet.
                if random.below(3) == 0 { now } else { done }
            }
            77..93 => {
                let mut out = vec![0; len];
                let done = d.load_from(core, now, ByteAddr(at as u64), &mut out, WHAT).expect("loads");
                assert_eq!(out, model.visible[at..at + len], "seed {seed}, step {step}");
                done
            }
            93..96 => {
                let page = random.below(PAGES);
                let mut out = [Page::ZERO];
                let done = d.load_pages(now, ByteAddr(page * 4096), 4096, &mut out, WHAT).expect("loads");
                assert_eq!(out[0].to_bytes()[..], model.visible[page as usize * 4096..][..4096]);
                done
            }
            96 => d.settle(now).expect("settles"),
            _ => {
                d.power_fail(now, &mut random);
                let on = d.power_on(now).expect("powers on");
                model.settle_for(now, bytes(&d, PAGES), config.domain);
                on
            }
        };
        assert!(done >= now, "seed {seed}, step {step}: back in time");
        instants.push(done);
        now = if random.below(4) == 0 { now } else { done };
    }
    d.check().unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
    let mut out = vec![0; SIZE];
    d.load_from(0, now, ByteAddr(0), &mut out, WHAT).expect("loads");
    assert_eq!(out, model.visible, "seed {seed}");
    (instants, out)
}

/// A stream goes to one page.
fn stream(d: &Dimm, core: u16, now: Nanos, at: usize, data: &[u8], model: &mut Model) -> Nanos {
    let data = &data[..data.len().min(4096 - at % 4096)];
    // The caches' content of these lines leaves before.
    model.write_back(at, data.len());
    model.posts += 1;
    model.store(at, data, Some(model.posts));
    let part = Streamed::Part(Payload::Bytes(data));
    d.stream_from(core, now, Lpa(at as u64 / 4096), at % 4096, part, WHAT).expect("streams")
}

#[test]
fn whatever_happens_loads_see_the_newest_and_power_failures_leave_what_was_fenced_and_words_that_were_there()
{
    for seed in 0..10_000 {
        run(seed, 60);
    }
}

#[test]
fn the_same_calls_take_the_same_time_and_leave_the_same_bytes() {
    for seed in 0..200 {
        assert_eq!(run(seed, 150), run(seed, 150));
    }
}
