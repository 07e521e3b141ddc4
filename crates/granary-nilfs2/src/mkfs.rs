//! mkfs: the first log, with the root directory, and the superblocks that name it.

use crate::buffers::Buffers;
use crate::construct::{submit, write_one};
use crate::dat::{Dat, Physical, Virtual};
use crate::geometry::Geometry;
use crate::layout::inode::DiskInode;
use crate::layout::superblock::{CLEAN, Superblock};
use crate::layout::usage::Usage;
use crate::layout::{BLOCK_SIZE, CPFILE_INO, DAT_INO, FIRST_INO, IFILE_INO, ROOT_INO, SUFILE_INO, dirent};
use crate::log::Kind;
use crate::media::Media;
use crate::options::MkfsOptions;
use crate::segments::{Cursor, Segments};
use crate::state::{INODES, Node, State};
use crate::tree::Tree;
use granary_device::{Port, Structure};
use granary_fs::{Attr, FileKind, FsError, Result, Time};
use granary_units::{Lpa, Page};

/// Makes an empty file system on the drive, and destroys its previous content.
///
/// # Errors
/// `Invalid` where the drive is too small (under 3 MiB) or the sizes do not fit it; the drive's.
pub fn mkfs(port: &Port, options: &MkfsOptions) -> Result<()> {
    let pages = port.info().pages;
    let blocks = options.size.map_or(pages, |s| s.0 / BLOCK_SIZE as u64);
    if blocks > pages {
        return Err(FsError::Invalid);
    }
    let geo = Geometry::plan(blocks, options.segment_blocks.map(u64::from)).ok_or(FsError::Invalid)?;
    port.wait(port.trim(Lpa(0), pages)?);
    let media = Media::new(port.clone(), geo);
    let mut state = State::empty(geo)?;
    let mut from = Physical(&media);
    // Number 0 is no pointer.
    state.dat.groups.mark(&mut state.dat.file, 0, true, &mut from)?;
    for ino in 0..FIRST_INO {
        INODES.mark(&mut state.ifile, ino, true, &mut Virtual { media: &media, dat: &mut state.dat })?;
    }
    let attr = Attr { size: BLOCK_SIZE as u64, ..Attr::new(FileKind::Dir, 0o755, Time(0)) };
    let inode = DiskInode { attr, generation: 0, blocks: 0, map: Tree::default().encode() };
    let mut root = Node::new(ROOT_INO, &inode, Tree::default());
    root.file.put(0, Page::from_bytes(&dirent::first_block(ROOT_INO, ROOT_INO)));
    state.nodes.insert(ROOT_INO, root);
    state.dirty.insert(ROOT_INO);
    state.inodes = 1;
    let log = state.make_log(&media, Kind::Full, Vec::new())?;
    port.wait(submit(port, &log)?);
    port.flush()?;
    let (last_log, last_seq, last_serial) = (log.at, log.seq, log.serial);
    let mut sb = Superblock { geo, mounts: 0, flags: CLEAN, last_log, last_seq, last_serial, writes: 0 };
    write_one(port, &mut sb)?;
    write_one(port, &mut sb)?;
    Ok(port.flush()?)
}

impl State {
    /// That of a drive without anything.
    fn empty(geo: Geometry) -> Result<State> {
        let cursor = Cursor { seg: 0, at: geo.start(0), next: 1, seq: 1, serial: 0 };
        let usages = vec![Usage::default(); geo.segments as usize];
        let file = |ino, what| Buffers::new(ino, Tree::default(), what);
        let segs = Segments::new(geo, usages, cursor, 1, 1)?;
        Ok(State::with(
            Dat::new(file(DAT_INO, Structure::DataPointer), geo.blocks),
            file(IFILE_INO, Structure::Inode),
            file(CPFILE_INO, Structure::Superblock),
            file(SUFILE_INO, Structure::Bitmap),
            segs,
        ))
    }
}
