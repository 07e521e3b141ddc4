//! PMFS as a subject of `granary_vfs::suite`.

granary_vfs::subject!(granary_pmfs, Pmfs, granary_pmfs::MAX_FILE_SIZE, 65000);
