//! Tests of the structures on persistent memory, without a lower file system.

mod table;
