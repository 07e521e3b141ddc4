//! The superblock and its copy: one line each, in two blocks; the copy is for media that lose the first.

use crate::{BLOCK, Pm};
use granary_device::Structure;
use granary_vfs::Result;

/// Writes both, the copy (in block `copy`) first, each with a fence.
///
/// # Errors
/// The drive's.
pub fn write(pm: &Pm, copy: u64, bytes: &[u8]) -> Result<()> {
    let mut b = pm.batch();
    for block in [copy, 0] {
        b.put(block * BLOCK, bytes, Structure::Superblock)?;
        b.fence()?;
    }
    Ok(())
}

/// The first of both that can be parsed; where none can, the first one's error. A drive that is not larger than `copy` has none.
///
/// # Errors
/// Those of `parse`; the drive's.
pub fn read<const N: usize, T>(
    pm: &Pm,
    copy: Option<u64>,
    parse: impl Fn(&[u8; N]) -> Result<T>,
) -> Result<T> {
    let read = |block: u64| {
        let mut bytes = [0; N];
        pm.load(block * BLOCK, &mut bytes, Structure::Superblock)?;
        parse(&bytes)
    };
    read(0).or_else(|first| match copy {
        Some(copy) => read(copy).map_err(|_| first),
        None => Err(first),
    })
}
