//! NOVA as a subject of `granary_vfs::suite`.

granary_vfs::subject!(granary_nova, Nova, granary_nova::MAX_FILE_SIZE, 65000);
