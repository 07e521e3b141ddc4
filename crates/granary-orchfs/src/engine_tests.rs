//! The threads keep the order of each address, wait for all, and read ahead without ever giving back an older
//! block.

use super::*;
use crate::geometry::Pages;
use granary_sim::rng::Stream;
use granary_sim::spawn;
use granary_suite::suite::{drive, on_ssd, port, run_jittered};
use granary_units::{Bytes, Page};

fn write(block: u64, word: u64) -> Work {
    Work::block_write(block, std::array::from_fn(|_| Page::word(word)))
}

fn engine(threads: u64) -> Engine {
    Engine::new(port(&drive(Bytes::mib(8))), SsdCache::new(Bytes::mib(1)), threads, 4)
}

fn read(engine: &Engine, number: u64) -> u64 {
    let (mut group, mut pages) = (Group::default(), Pages::default());
    let read = Arc::new(Read::new(number, vec![0, 3]));
    engine.submit(Work::Read(read.clone()), Some(&mut group));
    engine.wait(&group).expect("reads");
    read.put_into(&mut pages);
    assert_eq!(pages[0], pages[3]);
    pages[0].as_word().expect("a word").0
}

/// Tasks count up the words of blocks of their own while others read ahead everywhere: who reads after his
/// write finds it.
#[test]
fn a_read_after_a_write_finds_it_whatever_is_read_ahead() {
    on_ssd(|| {
        for seed in 0..4 {
            run_jittered(seed, move || {
                let engine = Arc::new(engine(1 + seed));
                let tasks: Vec<_> = (0..4u64)
                    .map(|task| {
                        let engine = engine.clone();
                        spawn("task", move || {
                            let mut random = Stream::new(seed * 10 + task, "engine");
                            for word in 1..60 {
                                let number = 4 * random.below(4) + task;
                                let mut group = Group::default();
                                engine.submit(write(number, word), Some(&mut group));
                                if random.chance(0.5) {
                                    engine.wait(&group).expect("writes");
                                }
                                engine.read_ahead(random.below(100), 28);
                                assert_eq!(read(&engine, number), word, "block {number}");
                                engine.wait(&group).expect("writes");
                            }
                        })
                    })
                    .collect();
                tasks.into_iter().for_each(|task| task.join());
                engine.stop();
            });
        }
    });
}

/// Sixteen blocks take less time with two threads than with one, and then as long as the link takes; one
/// block takes as long with any.
#[test]
fn threads_share_the_blocks_of_a_request() {
    let time = |threads: u64, blocks: u64| {
        on_ssd(|| {
            run_jittered(0, move || {
                let engine = engine(threads);
                let (mut group, begin) = (Group::default(), now());
                (0..blocks).for_each(|b| engine.submit(write(b, b + 1), Some(&mut group)));
                engine.wait(&group).expect("writes");
                engine.stop();
                now().saturating_sub(begin)
            })
        })
    };
    let all: Vec<Nanos> = [1, 2, 4, 8].map(|threads| time(threads, 16)).into();
    assert!(all[1].0 * 10 < all[0].0 * 9 && all[3].0 * 10 < all[0].0 * 9, "{all:?}");
    assert_eq!(time(1, 1), time(8, 1));
}
