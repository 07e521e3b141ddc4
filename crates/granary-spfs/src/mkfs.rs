//! mkfs: empty tables, then the superblock. The lower file system has been made already.

use crate::layout::{CLEAN, LOWER, ROOT, RUN, SPLIT, Superblock};
use crate::options::MkfsOptions;
use crate::table::{Kind, Table};
use granary_device::{Port, Structure};
use granary_fs::{FsError, Result};
use granary_pm::{BLOCK, Pm};
use granary_units::Page;

/// Makes SPFS on persistent memory: everything on it is lost.
///
/// # Errors
/// `NoSpace` where it is too small, `Invalid` for impossible options; the device's.
pub fn mkfs(port: &Port, options: &MkfsOptions) -> Result<()> {
    let pm = Pm::new(port.clone());
    let segment = u64::from(options.segment);
    if !segment.is_power_of_two() || segment > 2048 {
        return Err(FsError::Invalid);
    }
    let sb = Superblock { clusters: pm.info().pages, segment, form: options.form };
    let tables = Kind::ALL.len() as u64 * (segment + 1);
    // With room for a split of each table, and some data.
    if sb.clusters > u64::from(u32::MAX) || sb.clusters < sb.first() + 2 * tables + 64 {
        return Err(FsError::NoSpace);
    }
    let mut b = pm.batch();
    b.stream_page(0, &Page::ZERO, Structure::Superblock)?;
    b.stream_page(sb.end(), &Page::ZERO, Structure::Superblock)?;
    b.fence()?;
    let mut used = sb.first();
    for kind in Kind::ALL {
        Table::create(&pm, kind, (used, segment), used + segment)?;
        used += segment + 1;
    }
    // The bitmap of an unmount.
    let clusters = crate::alloc::Clusters::new(&sb);
    clusters.give(used, sb.end() - used)?;
    clusters.write_bitmap(&pm, &sb)?;
    b.put_u64(SPLIT, 0, Structure::Superblock)?;
    b.put_u64(LOWER, 0, Structure::Superblock)?;
    b.put_u64(RUN, 0, Structure::Superblock)?;
    b.put_u64(ROOT, 0, Structure::Superblock)?;
    b.put_u64(CLEAN, 1, Structure::Superblock)?;
    b.fence()?;
    debug_assert!(used * BLOCK < sb.clusters * BLOCK);
    sb.write(&pm)
}
