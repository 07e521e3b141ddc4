//! The superblock and its copy: one line each, in two blocks. One of them is whole at any time: a line can be
//! lost by the medium, and a DIMM that loses power leaves any words of a line that was being written.

use crate::{BLOCK, Pm};
use granary_device::Structure;
use granary_fs::{FsError, Result};

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

/// The first of both that can be parsed; where none can, the first one's error. A drive that is not larger
/// than `copy` has none. Where only the copy can be, it replaces the first at once: the next [`write()`]
/// begins with the copy.
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
        Ok((parse(&bytes)?, bytes))
    };
    match (read(0), copy) {
        (Ok((found, _)), _) => Ok(found),
        (Err(first), None) => Err(first),
        (Err(first), Some(copy)) => {
            let (found, bytes) = read(copy).map_err(|_: FsError| first)?;
            let mut b = pm.batch();
            b.put(0, &bytes, Structure::Superblock)?;
            b.fence()?;
            Ok(found)
        }
    }
}
