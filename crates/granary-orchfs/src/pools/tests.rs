//! Tests of this module.

use super::*;
use granary_sim::rng::Stream;
use std::collections::BTreeSet;

/// Three processes take and give back at random: nobody gets a number that is taken, what is taken is in the
/// taker's grant, and all that is free is found.
#[test]
fn numbers_are_a_set_and_each_process_takes_its_own() {
    let mut random = Stream::new(1, "ids");
    for count in [1, 2, 63, 64, 65, 200, 3000] {
        let (mut ids, mut free) = (Ids::new(count, false), (1..count).collect::<BTreeSet<u64>>());
        for _ in 0..4_000 {
            let process = random.below(3) as u32;
            if random.chance(0.6) {
                let own = |ids: &Ids, n: &u64| ids.grants.around(*n).is_some_and(|(_, p)| p == process);
                let lowest = free.iter().copied().find(|n| own(&ids, n));
                let number = ids.take(process);
                assert_eq!(number, lowest);
                if let Some(number) = number {
                    free.remove(&number);
                    continue;
                }
                let nobodys = free.iter().copied().find(|n| ids.grants.around(*n).is_none());
                assert_eq!(ids.grant(process, 16), nobodys.is_some());
                if nobodys.is_none() && random.chance(0.2) {
                    ids.grants.take_back((process + 1) % 3);
                    ids.from = 0;
                }
            } else {
                let number = random.below(count + 2);
                let was_taken = number > 0 && number < count && !free.contains(&number);
                if number > 0 {
                    assert_eq!(ids.give(number), was_taken);
                }
                if was_taken {
                    free.insert(number);
                }
            }
            assert_eq!(ids.free, free.len() as u64);
            let own = |n: &&u64| ids.grants.around(**n).is_some_and(|(_, p)| p == process);
            assert_eq!(ids.unused(process), free.iter().filter(own).count() as u64);
        }
    }
}
