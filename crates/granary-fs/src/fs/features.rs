//! Constant properties of a file system, asked for once, at the mount.

use granary_sim::Cores;

/// How a file system wants to be called. The vfs asks once, when it mounts it: nothing of it may change
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Accesses that go through the vfs page cache.
    pub cache: CachePolicy,
    /// How programs come to it.
    pub entrance: Entrance,
    /// Largest file in bytes.
    pub max_file_size: u64,
    /// Most hard links of one inode.
    pub max_links: u32,
    /// A directory of so many links takes more directories: it says 1 link from then on (ext4's `dir_nlink`).
    pub many_subdirs: bool,
    /// O_DIRECT goes past the page cache; otherwise it is accepted and has no effect, as in Linux where a
    /// file system falls back to buffered I/O.
    pub direct_io: bool,
    /// Ways in which its kernel original differs from most.
    pub quirks: Quirks,
}

impl Features {
    /// A part of the kernel, all of it in the page cache, with the limits of ext2 and nothing special: to
    /// begin with.
    pub const PLAIN: Features = Features {
        cache: CachePolicy::ALL,
        entrance: Entrance::Kernel,
        max_file_size: 1 << 41,
        max_links: 32_000,
        many_subdirs: false,
        direct_io: false,
        quirks: Quirks::NONE,
    };
}

/// Accesses that the vfs page cache serves. The others go to [`Data::read_direct`](crate::Data::read_direct)
/// and [`Data::write_direct`](crate::Data::write_direct).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    /// Reads are served from the cache, and fill it.
    pub reads: bool,
    /// Writes make pages of the cache dirty, which are written back later.
    pub writes: bool,
}

impl CachePolicy {
    /// All goes through the cache.
    pub const ALL: CachePolicy = CachePolicy { reads: true, writes: true };
    /// Nothing does (DAX).
    pub const NONE: CachePolicy = CachePolicy { reads: false, writes: false };

    /// Whether the cache has pages of its files at all.
    pub const fn any(self) -> bool {
        self.reads || self.writes
    }
}

/// How programs come to a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// By a system call: the file system is a part of the kernel.
    Kernel,
    /// By a call of a function: the file system is a library in the program, which has the device mapped.
    Direct,
    /// By a command to the device, on whose processors the file system works; the kernel is out of the way.
    Device(Cores),
    /// By a system call that hands the device such a command.
    Ioctl(Cores),
}

/// Ways of single file systems that the vfs has to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// The dirty pages of a file are to be written before it replaces another by rename (ext4's
    /// auto_da_alloc).
    pub flush_before_replace: bool,
    /// [`Data::flush_on_close`](crate::Data::flush_on_close) may say yes: a mount then has to be told of
    /// every close.
    pub watches_close: bool,
    /// The file system itself makes sure that a file grows over zeros. Then the vfs writes no zeros when a
    /// file grows (rule 2 of [`FileSystem`](crate::FileSystem)'s module is for the others).
    pub zero_beyond_end: bool,
    /// Each write and each zeroed edge goes to [`Data::write_pages`](crate::Data::write_pages) before the
    /// call returns, while the inode is still locked. As far as possible it goes in one piece. This is for
    /// data journaling: the call's order and atomicity are the file system's affair then.
    pub writes_through: bool,
    /// [`Data::reserve`](crate::Data::reserve) claims more than the pages may need (room for an extent each,
    /// say), so that writing them back frees space. Then a call that finds none is made again when dirty
    /// pages are on media.
    pub reserves_worst_case: bool,
    /// A hole that reaches beyond the end of the file takes its last page whole, and no blocks behind that
    /// (`ext4_punch_hole`).
    pub punches_last_page: bool,
    /// [`Space::fallocate`](crate::Space::fallocate) itself zeroes the bytes of the range in pages that are
    /// partly in it, as far as they lie within the file. This is for file systems where the whole call is one
    /// transaction, or where overwriting bytes may need space. Without it the vfs zeroes the edges after the
    /// call, which can no longer fail then.
    pub zeroes_edges: bool,
    /// Writes within a file's size may run at the same time. The vfs holds `rwsem` shared for them. The file
    /// system itself serializes those that overlap, so that readers and writers see each as one step. A load
    /// through a mapping, which goes page by page, holds `rwsem` exclusively then. For file systems whose
    /// writes never use the cache.
    pub parallel_writes: bool,
}

impl Quirks {
    /// None of them.
    pub const NONE: Quirks = Quirks {
        flush_before_replace: false,
        watches_close: false,
        zero_beyond_end: false,
        writes_through: false,
        reserves_worst_case: false,
        punches_last_page: false,
        zeroes_edges: false,
        parallel_writes: false,
    };
}
