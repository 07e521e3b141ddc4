//! [`FileSystem`]: what a file system implements; everything else is shared.
//!
//! The vfs calls it with arguments checked (names exist or do not, kinds fit, permissions granted) and with locks
//! held, so that an implementation is its persistence protocol and little else:
//!
//! | call | locks held by the vfs | the file system |
//! |---|---|---|
//! | create link unlink rename | `rwsem` of the directories (and of the victims) exclusively | changes media and attributes atomically |
//! | setattr, write path | `rwsem` of the inode exclusively | idem |
//! | lookup readdir read_pages | `rwsem` of the inode shared | reads |
//! | write_pages | the inode's write-back lock: one at a time per inode; `rwsem` maybe | allocates, writes, changes pointers |
//! | fallocate | `rwsem` exclusively and the write-back lock | allocates, frees, zeroes whole pages |
//! | setxattr | `rwsem` exclusively | changes media and `ctime` atomically |
//! | fsync | nothing | makes the inode durable |
//!
//! Rules: (1) attributes of every inode involved (sizes, links, times; `cx.time` is now) are changed by the file
//! system through [`Inode::update`], together with what it persists. (2) Bytes on media beyond a file's size are
//! garbage: the vfs zeroes them when it reads a page and dirties the gap when a file grows. (3) After an error the
//! file system is as before the call. (4) What a call promises about power loss is the file system's own guarantee;
//! after a successful `fsync` everything about that inode, and the directory entries under which it was created or
//! renamed, survives.

use crate::attr::{Attr, FileKind, Ino, SetAttr, Time};
use crate::error::{FsError, Result};
use crate::inode::Inode;
use granary_units::{Dest, PAGE_SIZE, Page, Payload};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::Weak;

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Cred {
    /// The superuser.
    pub const ROOT: Cred = Cred { uid: 0, gid: 0, groups: Vec::new() };
}

/// The context of a call.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'a> {
    /// Who calls.
    pub cred: &'a Cred,
    /// The time to stamp; moves once per kernel tick.
    pub time: Time,
}

/// How a file system wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The vfs page cache serves reads and writes; otherwise every read and write goes to `read_direct` and
    /// `write_direct` (DAX file systems).
    pub page_cache: bool,
    /// Largest file in bytes.
    pub max_file_size: u64,
    /// Most hard links of one inode.
    pub max_links: u32,
    /// A directory of so many links takes more directories: it says 1 link from then on (ext4's `dir_nlink`).
    pub many_subdirs: bool,
}

/// An inode fresh from media or just created: attributes and the file system's private part.
pub struct Loaded {
    /// Attributes.
    pub attr: Attr,
    /// Whatever the file system wants to keep with the inode; reached by [`Inode::private`].
    pub private: Arc<dyn Any + Send + Sync>,
}

/// A node to create.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'a> {
    /// What to make.
    pub kind: FileKind,
    /// Permission bits, umask and set-group-ID rules already applied.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file.
    pub rdev: u32,
    /// Target of a symbolic link, else empty. At most 4095 bytes.
    pub target: &'a [u8],
}

impl NewNode<'_> {
    /// Its attributes when it is made at `time`: without content, a symbolic link's target included.
    pub fn attr(&self, time: Time) -> Attr {
        Attr { uid: self.uid, gid: self.gid, rdev: self.rdev, ..Attr::new(self.kind, self.mode, time) }
    }
}

/// What [`FileSystem::create`] made.
pub struct Created {
    /// Its number.
    pub ino: Ino,
    /// Its attributes and private part.
    pub loaded: Loaded,
}

/// One entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The inode.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Where to go on after this entry: pass it to `readdir`. Stays valid while entries are added and removed.
    pub next: u64,
}

/// How to rename.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags {
    /// Fail if the target exists (checked by the vfs).
    pub no_replace: bool,
    /// Exchange the two names.
    pub exchange: bool,
}

/// A rename; all inodes involved are locked.
#[derive(Clone, Copy)]
pub struct Rename<'a> {
    /// Directory of the old name.
    pub from_dir: &'a Inode,
    /// Old name.
    pub from: &'a [u8],
    /// What is renamed.
    pub inode: &'a Inode,
    /// Directory of the new name; may be `from_dir`.
    pub to_dir: &'a Inode,
    /// New name.
    pub to: &'a [u8],
    /// What the new name stood for: replaced (an empty directory, or a non-directory), or exchanged.
    pub target: Option<&'a Inode>,
    /// Exchange instead of replace.
    pub exchange: bool,
}

impl Rename<'_> {
    /// How the links of the old and of the new directory change (both, where they are one): directories go and come.
    pub fn links_moved(&self) -> (i32, i32) {
        let is_dir = |inode: &Inode| i32::from(inode.view(|a| a.kind) == FileKind::Dir);
        let (moved, target) = (is_dir(self.inode), self.target.map_or(0, is_dir));
        (if self.exchange { target - moved } else { -moved }, moved - target)
    }
}

/// What [`FileSystem::fallocate`] does with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allocate {
    /// Gives every hole of the range blocks that read as zeros, so that writing there cannot run out of space.
    Reserve {
        /// Leave the file's size as it is, even where the range ends beyond it.
        keep_size: bool,
    },
    /// Makes the range a hole (Linux demands FALLOC_FL_KEEP_SIZE with it: the size never changes).
    PunchHole,
    /// Makes the range read as zeros, with blocks under it.
    ZeroRange {
        /// As with `Reserve`.
        keep_size: bool,
    },
}

impl Allocate {
    /// Whether the file grows where the range ends beyond it.
    pub fn grows(self) -> bool {
        matches!(self, Allocate::Reserve { keep_size: false } | Allocate::ZeroRange { keep_size: false })
    }

    /// Whether what the range held is gone.
    pub fn zeroes(self) -> bool {
        !matches!(self, Allocate::Reserve { .. })
    }
}

/// A dirty page to be written.
#[derive(Clone, Debug)]
pub struct DirtyPage {
    /// Page number in the file.
    pub index: u64,
    /// Content; zero from `valid` on.
    pub page: Page,
    /// Bytes of it that belonged to the file when it was gathered, or [`PAGE_SIZE`] where the caller has put zeros behind.
    pub valid: usize,
    /// Bit n: 64 B line n differs from what was last written. None may: a page that was written over with what it held
    /// (known where pages are compared with duplicates); its file may still have to grow on media.
    pub lines: u64,
}

impl DirtyPage {
    /// Where its bytes end in the file: with this page as the last one written, the size on media may grow up to here, but
    /// not beyond the file's. (The file may have grown since the page was gathered, over bytes that are not in it.)
    pub fn end(&self) -> u64 {
        self.index * PAGE_SIZE as u64 + self.valid as u64
    }
}

/// Why pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBackCause {
    /// `fsync`, `fdatasync`, O_SYNC, `sync`: a caller waits.
    Sync,
    /// Old dirty pages, or memory pressure.
    Background,
}

/// Space and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Blocks of 4 KiB in all.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Those of the free blocks that the file system keeps for its own metadata, or needs to name the others.
    pub reserved_blocks: u64,
    /// Inodes in all.
    pub inodes: u64,
    /// Free inodes.
    pub free_inodes: u64,
}

impl StatFs {
    /// Free blocks that programs can fill: `f_bavail`.
    pub fn available_blocks(&self) -> u64 {
        self.free_blocks.saturating_sub(self.reserved_blocks)
    }

    /// Of so many free blocks those that the index of one file would take that filled the others, where a block of an index
    /// names `fanout` blocks: what can be filled is the rest.
    pub fn index_of_all(free: u64, fanout: u64) -> u64 {
        let index = |data: u64| {
            let (mut all, mut level) = (0, data);
            while level > 1 {
                level = level.div_ceil(fanout);
                all += level;
            }
            all
        };
        // What `free` blocks of data would need is enough; a few less may be.
        let mut share = index(free).min(free);
        while share > 0 && index(free - (share - 1)) < share {
            share -= 1;
        }
        share
    }
}

/// The page cache, as a file system sees it whose commits write pages of files themselves.
pub trait DirtyPages: Send + Sync {
    /// Writes page `index` of inode `ino` where it is in the cache and dirty, and `may` agrees, which is told where the page's
    /// bytes end in the file. A page of an inode that is being written back is left to who does that. `write` starts the
    /// write; an error is the inode's to remember. Waits for no lock that is held where a transaction is begun.
    fn write_dirty_page(
        &self,
        ino: Ino,
        index: u64,
        may: &dyn Fn(&Inode, u64) -> Result<bool>,
        write: &mut dyn FnMut(&Inode, &DirtyPage) -> Result<()>,
    );
}

/// Blocks that [`FileSystem::trim`] tells of at once: 128 MiB.
pub const TRIM_RUN: u64 = 32_768;

/// A file system on a drive. See the module's rules.
pub trait FileSystem: Send + Sync {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// How it wants to be called.
    fn features(&self) -> Features;

    /// The pages of its files, from the mount on.
    fn attach(&self, pages: Weak<dyn DirtyPages>) {
        drop(pages);
    }

    /// The root directory.
    fn root(&self) -> Ino;

    /// Reads an inode from media: of any number, since handles may come from anywhere.
    ///
    /// # Errors
    /// `Stale` where the inode is free; `Corrupt`; drive errors (as for every call below).
    fn load_inode(&self, ino: Ino) -> Result<Loaded>;

    /// Tells lives of one inode number apart, also after a mount: with the number a handle of the file for as long as it lives.
    fn generation(&self, inode: &Inode) -> u32;

    /// The inode that `name` stands for in `dir`.
    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Option<Ino>>;

    /// Calls `emit` for each entry after position `from` (0 = first), until it returns false. "." and ".." come from
    /// the vfs.
    fn readdir(&self, dir: &Inode, from: u64, emit: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()>;

    /// No entry of `dir` has a [`DirEntry::next`] beyond this now. Where new names come last, a reading ends here;
    /// `u64::MAX` where positions are an order of the names themselves (hashes), which has an end of its own. Charges
    /// nothing.
    fn dir_end(&self, dir: &Inode) -> u64;

    /// The parent of a directory.
    fn parent(&self, dir: &Inode) -> Result<Ino>;

    /// Whether a directory has no entries.
    fn is_empty_dir(&self, dir: &Inode) -> Result<bool>;

    /// The target of a symbolic link.
    fn readlink(&self, inode: &Inode) -> Result<Vec<u8>>;

    /// Makes a new inode and enters it as `name`.
    fn create(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], new: &NewNode<'_>) -> Result<Created>;

    /// Makes a new inode without a name (`nlink` 0), in a directory only as far as it inherits from it. It lives as one whose last
    /// name was removed; but [`FileSystem::link`] may give it a name. After a power loss before that recovery frees it.
    ///
    /// # Errors
    /// `NotSupported` unless a file system does it.
    fn create_unnamed(&self, cx: &Cx<'_>, dir: &Inode, new: &NewNode<'_>) -> Result<Created> {
        let _ = (cx, dir, new);
        Err(FsError::NotSupported)
    }

    /// Enters an existing inode as `name`. One without links was made by [`FileSystem::create_unnamed`] and had no name yet.
    fn link(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()>;

    /// Removes the entry `name` of `inode`: a non-directory, or an empty directory. With its last link gone the inode
    /// (`nlink` 0) lives on, on media too, until [`FileSystem::evict`]; after a power loss recovery frees it.
    fn unlink(&self, cx: &Cx<'_>, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()>;

    /// Renames, replaces or exchanges.
    fn rename(&self, cx: &Cx<'_>, rename: &Rename<'_>) -> Result<()>;

    /// Changes attributes. With `size`, frees what lies beyond; pages in the cache are the vfs's affair.
    fn setattr(&self, cx: &Cx<'_>, inode: &Inode, set: &SetAttr) -> Result<()>;

    /// Records an access time in memory and, when the file system's rules say so, on media later.
    fn touch_atime(&self, inode: &Inode, time: Time) -> Result<()>;

    /// Frees an inode without links that nobody uses any more. Its number may be reused afterwards.
    fn evict(&self, inode: &Inode) -> Result<()>;

    /// An inode leaves memory (it has links): last chance to persist what only the private part knows.
    fn release(&self, inode: &Inode) -> Result<()> {
        let _ = inode;
        Ok(())
    }

    /// Fills consecutive pages of a file from media; holes are zeros.
    fn read_pages(&self, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()>;

    /// Before pages of this range are dirtied: makes sure that they can be written later (delayed allocation
    /// reserves space here).
    ///
    /// # Errors
    /// `NoSpace`.
    fn reserve(&self, inode: &Inode, pos: u64, len: u64) -> Result<()>;

    /// After pages of this range were dirtied: grows the size where needed and stamps the times.
    fn wrote(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, len: u64) -> Result<()>;

    /// Writes dirty pages (ascending) to the drive; on return the drive has them. Blocks are allocated and pointers
    /// changed as the protocol wants, durable at the next `fsync` at the latest.
    fn write_pages(&self, inode: &Inode, pages: &[DirtyPage], why: WriteBackCause) -> Result<()>;

    /// Reads past the page cache (O_DIRECT, DAX): `pos..pos + dest.len()` lies within the file.
    fn read_direct(&self, inode: &Inode, pos: u64, dest: Dest<'_>) -> Result<()>;

    /// Writes past the page cache and stamps size and times; on return the drive has the data (O_DIRECT), and for
    /// DAX file systems it is as durable as their `write` promises. The vfs has flushed and dropped cached pages of
    /// the range and zeroed the gap before `pos`.
    fn write_direct(&self, cx: &Cx<'_>, inode: &Inode, pos: u64, data: Payload<'_>) -> Result<()>;

    /// Changes where a file has blocks, and stamps `ctime` (and `mtime`, except for `Reserve` within the size). `pos`
    /// and `len` are bytes; the end lies within [`Features::max_file_size`]. With [`Allocate::grows`] the size becomes
    /// `pos + len` where it was less; the vfs has made sure that the old end's page is zero up to there.
    ///
    /// `Reserve`: every page that the range touches and that is a hole gets a block that reads as zeros; pages promised
    /// by [`FileSystem::reserve`] may be left to their promise. `PunchHole`: pages wholly within the range become
    /// holes, and promises for them end; `ZeroRange`: they read as zeros and have blocks, as have pages at the edges.
    /// The bytes at the edges are the vfs's affair, unless [`FileSystem::zeroes_edges`]. Blocks beyond the end of the file must read as zeros when the file
    /// grows over them later, also after a power loss. After an error everything is as before.
    ///
    /// # Errors
    /// `NotSupported`; `NoSpace`.
    fn fallocate(&self, cx: &Cx<'_>, inode: &Inode, how: Allocate, pos: u64, len: u64) -> Result<()> {
        let _ = (cx, inode, how, pos, len);
        Err(FsError::NotSupported)
    }

    /// The first byte at or after `pos` (which is less than the size) that may be data: a file system that does not
    /// know its holes calls everything data. Pages promised by [`FileSystem::reserve`] are data; blocks that hold
    /// nothing yet are not, where [`FileSystem::empty_until`] tells of them. `None`: a hole up to the end.
    fn seek_data(&self, inode: &Inode, pos: u64) -> Result<Option<u64>> {
        let _ = inode;
        Ok(Some(pos))
    }

    /// The first byte at or after `pos` (which is less than the size) that is in a hole, or in blocks that hold nothing
    /// yet as above; at the latest the size.
    fn seek_hole(&self, inode: &Inode, pos: u64) -> Result<u64> {
        let _ = pos;
        Ok(inode.size())
    }

    /// How far the blocks at `pos` hold nothing yet: what seeking takes for a hole but for the pages that the cache has
    /// of it (Linux: `IOMAP_UNWRITTEN`). `pos` itself where there are none, or they are not told from data.
    fn empty_until(&self, inode: &Inode, pos: u64) -> Result<u64> {
        let _ = inode;
        Ok(pos)
    }

    /// The value of an extended attribute; `None`: there is none of this name. Names are whole ("user.x"), at most 255
    /// bytes, without a zero byte, of a namespace that the vfs knows; values have at most 64 KiB.
    ///
    /// # Errors
    /// `NotSupported`.
    fn getxattr(&self, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let _ = (inode, name);
        Err(FsError::NotSupported)
    }

    /// Gives an extended attribute a value, or (`None`) removes it, which the caller has seen to exist; stamps `ctime`.
    /// After a power loss it has the old value or the new one; `fsync` makes it durable.
    ///
    /// # Errors
    /// `NotSupported`; `NoSpace` where this file system has no room for it (as ext4's ENOSPC beyond its one block).
    fn setxattr(&self, cx: &Cx<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        let _ = (cx, inode, name, value);
        Err(FsError::NotSupported)
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// `NotSupported`.
    fn listxattr(&self, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        let _ = inode;
        Err(FsError::NotSupported)
    }

    /// Lets go of metadata in memory that media have too, as `echo 2 > /proc/sys/vm/drop_caches`. A hint.
    fn drop_caches(&self) {}

    /// Whether the dirty pages of a file are to be written before it replaces another by rename (ext4's auto_da_alloc).
    fn flush_before_replace(&self) -> bool {
        false
    }

    /// Whether the dirty pages of `inode` are to be written when a descriptor that could write it is closed (ext4's
    /// auto_da_alloc, after a truncation to nothing). Asked once for each close.
    fn flush_on_close(&self, inode: &Inode) -> bool {
        let _ = inode;
        false
    }

    /// Whether [`FileSystem::flush_on_close`] may ever say yes: a mount then has to be told of every close.
    fn watches_close(&self) -> bool {
        false
    }

    /// Whether the file system itself sees to it that what a file grows over reads as zeros. Then the vfs writes no
    /// zeros when a file grows (rule 2 above is for the others).
    fn zero_beyond_end(&self) -> bool {
        false
    }

    /// Whether each write and each zeroed edge is to be given to [`FileSystem::write_pages`] before the call returns, while
    /// the inode is still locked, as far as possible in one piece (data journaling: the call's order and atomicity are
    /// the file system's affair then).
    fn writes_through(&self) -> bool {
        false
    }

    /// Whether [`FileSystem::reserve`] claims more than the pages may need (room for an extent each, say), so that writing them
    /// back frees space. Then a call that finds none is made again when dirty pages are on media.
    fn reserves_worst_case(&self) -> bool {
        false
    }

    /// Whether a hole that reaches beyond the end of the file takes its last page whole, and no blocks behind that
    /// (`ext4_punch_hole`).
    fn punches_last_page(&self) -> bool {
        false
    }

    /// Whether [`FileSystem::fallocate`] itself zeroes the bytes of the range in pages that are partly in it, as far as
    /// they lie within the file: where the whole call is to be one transaction.
    fn zeroes_edges(&self) -> bool {
        false
    }

    /// Whether the page that a truncation to `size`, within a page, cuts is to be written again, with zeros behind the cut: some
    /// kernels' file systems do (`ext4_block_truncate_page`, F2FS's `truncate_partial_data_page`). Asked before the file is cut, and
    /// only traffic depends on the answer: what media have beyond the end stays garbage.
    ///
    /// # Errors
    /// Of reading metadata.
    fn rewrites_cut_page(&self, inode: &Inode, size: u64) -> Result<bool> {
        let _ = (inode, size);
        Ok(false)
    }

    /// Whether O_DIRECT goes past the page cache; otherwise it is accepted and has no effect, as in Linux where a file system
    /// falls back to buffered I/O.
    fn direct_io(&self) -> bool {
        true
    }

    /// Makes the inode durable; its dirty pages have been given to `write_pages`. `data_only`: `fdatasync`, time
    /// stamps may be left.
    fn fsync(&self, inode: &Inode, data_only: bool) -> Result<()>;

    /// Makes everything durable; all dirty pages have been given to `write_pages`.
    fn sync(&self) -> Result<()>;

    /// Uses the first `blocks` blocks of 4 KiB of the drive, which has become larger; while the file system is in use. A
    /// power failure leaves the old or the new size.
    ///
    /// # Errors
    /// `NotSupported` by file systems that cannot; `Invalid` for fewer blocks than there are or more than the drive has;
    /// `NoSpace` where what is added is too little for its own metadata, or the file system has grown too often.
    fn grow(&self, _blocks: u64) -> Result<()> {
        Err(FsError::NotSupported)
    }

    /// Space and inodes.
    fn statfs(&self) -> Result<StatFs>;

    /// Tells the drive which of `blocks` are free (fstrim), in runs of `least` blocks or more; says how many. A run is nobody's to
    /// take while the drive is told, [`TRIM_RUN`] blocks at most. What a power failure would give back to a file is not told.
    ///
    /// # Errors
    /// `NotSupported`.
    fn trim(&self, blocks: Range<u64>, least: u64) -> Result<u64> {
        let _ = (blocks, least);
        Err(FsError::NotSupported)
    }

    /// Ends cleanly: everything durable, daemons stopped, media marked clean. No calls follow.
    fn unmount(&self) -> Result<()>;

    /// Compares everything on media (and in memory) with everything else; one sentence per violation. The file
    /// system is quiet and synced.
    fn check(&self) -> Result<Vec<String>>;
}

#[cfg(test)]
mod tests {
    use super::StatFs;

    #[test]
    fn the_rest_and_its_index_fill_what_is_free() {
        for fanout in [2, 512, 1018] {
            for free in (0..3000).chain([1 << 20, 1 << 30]) {
                let share = StatFs::index_of_all(free, fanout);
                let index = |data: u64| {
                    let levels = std::iter::successors(Some(data), |n| (*n > 1).then(|| n.div_ceil(fanout)));
                    levels.skip(1).sum::<u64>()
                };
                let data = free - share;
                assert!(data + index(data) <= free, "{free} at {fanout}: {share}");
                assert!(
                    share == 0 || data + 1 + index(data + 1) > free,
                    "{free} at {fanout}: {share} is too much"
                );
            }
        }
    }
}
