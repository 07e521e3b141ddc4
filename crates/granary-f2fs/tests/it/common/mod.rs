//! F2FS as a subject of `granary_suite::suite`.

granary_suite::subject!(granary_f2fs, F2fs, granary_f2fs::MAX_FILE_SIZE, u32::MAX - 1);
