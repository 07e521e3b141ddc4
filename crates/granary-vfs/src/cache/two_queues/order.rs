//! [`Order`]: which page 2Q evicts next.

use super::Key;
use std::collections::BTreeMap;

/// Which queue a page is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queue {
    /// Pages that came lately (A1in of the paper), first in, first out.
    Recent,
    /// Pages that came back after they had left (Am), least recently used first.
    Frequent,
}

/// See the module.
#[derive(Default)]
pub(super) struct Order {
    of: BTreeMap<Key, (Queue, u64)>,
    recent: BTreeMap<u64, Key>,
    frequent: BTreeMap<u64, Key>,
    /// Pages that left `recent` (A1out): by number, and when.
    gone: BTreeMap<Key, u64>,
    gone_by_age: BTreeMap<u64, Key>,
    clock: u64,
}

impl Order {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A page comes, into a cache for so many.
    pub fn enter(&mut self, key: Key, capacity: usize) {
        let now = self.tick();
        let queue = match self.gone.remove(&key) {
            Some(when) => {
                self.gone_by_age.remove(&when);
                Queue::Frequent
            }
            None => Queue::Recent,
        };
        self.queue(queue).insert(now, key);
        self.of.insert(key, (queue, now));
        // The paper remembers half as many as there is room for (section 3.2).
        while self.gone.len() > capacity / 2 {
            let (_, oldest) = self.gone_by_age.pop_first().expect("as many as by number");
            self.gone.remove(&oldest);
        }
    }

    fn queue(&mut self, queue: Queue) -> &mut BTreeMap<u64, Key> {
        match queue {
            Queue::Recent => &mut self.recent,
            Queue::Frequent => &mut self.frequent,
        }
    }

    /// A page is used: only among the frequent ones that changes anything.
    pub fn used(&mut self, key: Key) {
        if let Some((Queue::Frequent, when)) = self.of.get(&key).copied() {
            let now = self.tick();
            self.frequent.remove(&when);
            self.frequent.insert(now, key);
            self.of.insert(key, (Queue::Frequent, now));
        }
    }

    /// A page goes for another reason.
    pub fn leave(&mut self, key: Key) {
        if let Some((queue, when)) = self.of.remove(&key) {
            self.queue(queue).remove(&when);
        }
    }

    /// Takes out the page that leaves a full cache, of those that can.
    pub fn victim(&mut self, capacity: usize, can: impl Fn(Key) -> bool) -> Option<Key> {
        // A quarter for those that came lately (section 3.2).
        let crowded = self.recent.len() > capacity / 4;
        let first = |queue: &BTreeMap<u64, Key>| queue.values().copied().find(|key| can(*key));
        let recent = || first(&self.recent);
        let frequent = || first(&self.frequent);
        let key = if crowded { recent().or_else(frequent) } else { frequent().or_else(recent) }?;
        let (queue, _) = self.of[&key];
        self.leave(key);
        if queue == Queue::Recent {
            let now = self.tick();
            self.gone.insert(key, now);
            self.gone_by_age.insert(now, key);
        }
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scan over many pages does not push out those that came back.
    #[test]
    fn pages_that_came_back_survive_a_scan() {
        const ROOM: usize = 8;
        let mut order = Order::default();
        let mut here = Vec::new();
        let enter = |order: &mut Order, here: &mut Vec<Key>, page: u64| {
            if here.len() == ROOM {
                let gone = order.victim(ROOM, |_| true).expect("all can go");
                here.retain(|key| *key != gone);
            }
            order.enter((1, page), ROOM);
            here.push((1, page));
        };
        // Page 0 comes, leaves, and comes back.
        (0..=8).for_each(|page| enter(&mut order, &mut here, page));
        assert!(!here.contains(&(1, 0)), "first in, first out");
        enter(&mut order, &mut here, 0);
        (100..200).for_each(|page| enter(&mut order, &mut here, page));
        assert!(here.contains(&(1, 0)), "frequent: {here:?}");
        assert!(!here.contains(&(1, 100)), "recent");
    }
}
