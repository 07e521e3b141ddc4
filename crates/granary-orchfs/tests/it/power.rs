//! Power failures at random instants on both devices: what fsync promised is there, everything is sound, work
//! goes on. The large counts are the crash explorer's.

use crate::common::migrating;
use granary_suite::suite::{self, on_pair};

#[test]
fn what_was_fsynced_survives_power_failures_while_blocks_migrate() {
    let all = on_pair(|| suite::what_was_fsynced_survives_power_failures(&migrating(), 1));
    assert!(all.iter().any(|r| !r.clean && r.records > 0), "nothing was recovered: {all:?}");
}
