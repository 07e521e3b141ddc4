//! Moving pages in the logical address space: content follows the map, through gc and power loss.

use super::*;
use granary_sim::rng::Stream;

/// A drive with a P2L table, and what each of its pages holds.
struct Moved {
    ftl: Ftl,
    holds: Vec<Option<u64>>,
}

impl Moved {
    fn new() -> Moved {
        let mut ftl = Ftl::new(&tiny()).expect("drive");
        ftl.keep_p2l();
        let holds = vec![None; ftl.capacity_pages() as usize];
        Moved { ftl, holds }
    }

    fn write(&mut self, now: Nanos, l: u64, word: u64) {
        write(&mut self.ftl, now, Lpa(l), word);
        self.holds[l as usize] = Some(word);
    }

    fn remap(&mut self, src: u64, dst: u64) {
        self.ftl.remap(Lpa(src), Lpa(dst)).expect("remaps");
        if src != dst {
            self.holds[dst as usize] = self.holds[src as usize].take();
        }
    }

    fn examine(&self) {
        check(&self.ftl);
        for (l, word) in lpas(&self.ftl).zip(&self.holds) {
            assert_eq!(self.ftl.is_mapped(l), word.is_some(), "{l}");
            assert_eq!(self.ftl.peek(l).expect("peek"), word.map_or(Page::ZERO, Page::word), "{l}");
        }
    }
}

#[test]
fn a_remap_moves_a_page_without_touching_the_flash() {
    let mut m = Moved::new();
    m.write(Nanos::ZERO, 3, 33);
    m.write(Nanos::ZERO, 5, 55);
    let before = m.ftl.nand_stats();
    m.remap(3, 5);
    m.remap(7, 3);
    m.remap(5, 5);
    assert_eq!(m.ftl.nand_stats(), before);
    assert_eq!((m.holds[3], m.holds[5]), (None, Some(33)));
    m.examine();
}

#[test]
fn a_table_kept_later_knows_what_was_written_before() {
    let mut ftl = Ftl::new(&tiny()).expect("drive");
    fill(&mut ftl);
    ftl.keep_p2l();
    ftl.remap(Lpa(1), Lpa(0)).expect("remaps");
    check(&ftl);
    assert_eq!(ftl.peek(Lpa(0)).expect("peek"), Page::word(1));
}

/// Gc runs all the time, and power is lost with and without the L2P table.
#[test]
fn gc_and_power_loss_keep_what_was_moved() {
    for seed in 0..12 {
        let mut rng = Stream::new(seed, "remap");
        let mut m = Moved::new();
        let pages = m.ftl.capacity_pages();
        let mut now = Nanos::ZERO;
        for i in 0..6000 {
            now += Nanos(1000);
            match rng.below(100) {
                0..60 => m.write(now, rng.below(pages), i),
                60..98 => m.remap(rng.below(pages), rng.below(pages)),
                98 => {
                    let l = rng.below(pages);
                    m.ftl.trim(Lpa(l), 1).expect("trims");
                    m.holds[l as usize] = None;
                }
                _ => now = m.ftl.power_cycle(now, rng.chance(0.5)).expect("powers up"),
            }
            if i % 500 == 0 {
                m.examine();
            }
        }
        m.examine();
        let gc = m.ftl.counters().program_pages[Cause::Gc as usize];
        assert!(gc > 100, "gc moved {gc} pages only");
    }
}
