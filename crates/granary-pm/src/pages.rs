//! Pages of files of a file system without a page cache, for who wants pages all the same (mappings through
//! the mount).

use crate::BLOCK;
use granary_fs::{Call, Cred, DirtyPage, FileSystem, Inode, Result};
use granary_units::{Dest, PAGE_SIZE, Page, Payload};

/// See [`granary_fs::Data::read_pages`]: through [`granary_fs::Data::read_direct`], with zeros behind the
/// file's end.
///
/// # Errors
/// The file system's.
pub fn read(fs: &dyn FileSystem, call: &Call<'_>, inode: &Inode, first: u64, out: &mut [Page]) -> Result<()> {
    let size = inode.size();
    let mut bytes = [0; PAGE_SIZE];
    for (page, at) in out.iter_mut().zip((first * BLOCK..).step_by(PAGE_SIZE)) {
        let n = size.saturating_sub(at).min(BLOCK) as usize;
        bytes[n..].fill(0);
        fs.read_direct(call, inode, at, Dest::Bytes(&mut bytes[..n]))?;
        *page = Page::from_bytes(&bytes);
    }
    Ok(())
}

/// See [`granary_fs::Data::write_pages`]: through [`granary_fs::Data::write_direct`], up to the file's end;
/// its time of change stays.
///
/// # Errors
/// The file system's.
pub fn write(fs: &dyn FileSystem, call: &Call<'_>, inode: &Inode, pages: &[DirtyPage]) -> Result<()> {
    let call = Call { cred: &Cred::ROOT, time: inode.view(|a| a.mtime), ..*call };
    for p in pages {
        let at = p.index * BLOCK;
        let n = inode.size().saturating_sub(at).min(BLOCK) as usize;
        if n > 0 {
            fs.write_direct(&call, inode, at, Payload::Bytes(&p.page.to_bytes()[..n]))?;
        }
    }
    Ok(())
}
