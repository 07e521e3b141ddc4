//! PMFS as a subject of `granary_suite::suite`.

granary_suite::subject!(granary_pmfs, Pmfs, granary_pmfs::MAX_FILE_SIZE, 65000);
