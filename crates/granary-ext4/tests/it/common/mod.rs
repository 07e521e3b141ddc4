//! ext4 as a subject of `granary_suite::suite`.

granary_suite::subject!(granary_ext4, Ext4, u32::MAX as u64 * 4096, 65000);
