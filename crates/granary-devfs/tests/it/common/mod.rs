//! DevFS as a subject of `granary_suite::suite`.

granary_suite::subject!(granary_devfs, DevFs, granary_devfs::MAX_FILE_SIZE, 65000);
