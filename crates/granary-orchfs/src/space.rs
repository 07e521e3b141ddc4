//! Space of file data on each device: the storage space usage of the slides' Table 2.
//!
//! Two numbers for Upages, since the published table and the text count differently: those that writes have
//! made since mount, whatever became of them, and those that files in memory have now.

use crate::fs::OrchFs;
use crate::geometry::{BLOCK, PAGE};
use crate::layout::Area;
use crate::unit::{Slot, Unit};
use std::sync::atomic::Ordering::Relaxed;

impl OrchFs {
    /// Bytes by unit, as records have them.
    pub(crate) fn space(&self) -> [(&'static str, u64); 4] {
        let taken = |area: Area| {
            let waiting: u64 = self.journals.iter().map(|journal| journal.waiting(area)).sum();
            (self.pools.all(area) - self.pools.free(area)).saturating_sub(waiting)
        };
        let nodes: Vec<_> = self.nodes.lock().values().filter_map(std::sync::Weak::upgrade).collect();
        let in_part = |slot: &&Slot| slot.page != 0 && !slot.header.is_whole() && !slot.header.is_empty();
        let upages: usize = nodes
            .iter()
            .map(|node| {
                let state = node.state.read();
                let units = state.tree.range(0, u64::MAX);
                let slots = units.filter_map(|(_, unit)| match unit {
                    Unit::Over { slots, .. } => Some(slots.iter().filter(in_part).count()),
                    _ => None,
                });
                slots.sum::<usize>()
            })
            .sum();
        [
            ("space.nvm_page", taken(Area::Page) * PAGE),
            ("space.nvm_upage", upages as u64 * PAGE),
            ("space.nvm_upage_made", self.upages_made.load(Relaxed) * PAGE),
            ("space.ssd_block", taken(Area::Block) * BLOCK),
        ]
    }
}
