//! F2FS as a subject of `granary_vfs::suite`.
#![allow(dead_code)] // each test uses a part

granary_vfs::subject!(granary_f2fs, F2fs, granary_f2fs::MAX_FILE_SIZE, u32::MAX - 1);
