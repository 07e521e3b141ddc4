//! NILFS2 as a subject of `granary_suite::suite`.

granary_suite::subject!(granary_nilfs2, Nilfs2, granary_nilfs2::MAX_FILE_SIZE, granary_nilfs2::LINK_MAX);

use granary_nilfs2::{Fsync, MountOptions};
use granary_units::Nanos;

/// Defaults, but that an fsync is a promise and that what is dead can be cleaned away at once.
pub fn promising() -> Subject {
    let mount = MountOptions { fsync: Fsync::All, protection_period: Nanos::ZERO, ..MountOptions::default() };
    Subject { mount, ..Subject::default() }
}
