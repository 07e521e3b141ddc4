//! NOVA as a subject of `granary_suite::suite`.

granary_suite::subject!(granary_nova, Nova, granary_nova::MAX_FILE_SIZE, 65000);
