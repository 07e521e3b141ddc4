//! F2FS as a subject of `granary_vfs::suite`.

granary_vfs::subject!(granary_f2fs, F2fs, granary_f2fs::MAX_FILE_SIZE, u32::MAX - 1);
