//! Using a file system finds nothing where it is whole, and a count of free space that is wrong.

use crate::liar::{Liar, Lie};
use granary_crash::exercise;
use granary_fs::FileSystem;
use granary_sim::World;
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_vfs::{Vfs, VfsConfig};
use std::sync::Arc;

fn exercised(fs: &'static str) -> Vec<String> {
    let target = crate::targets::by_name(fs).expect("a target");
    let devices = target.devices(1);
    let done = World::default().run(move || {
        target.mkfs(&devices).expect("mkfs");
        let fs: Arc<dyn FileSystem> = target.mount(&devices).expect("mount");
        exercise(&Vfs::mount(fs, target.vfs()).expect("vfs"), true)
    });
    done.expect("ends")
}

#[test]
fn a_whole_file_system_can_be_filled_and_emptied() {
    for fs in ["bytefs", "ext4", "f2fs", "nilfs2", "nova", "pmfs", "orchfs", "devfs", "spfs+ext4"] {
        assert_eq!(exercised(fs), Vec::<String>::new(), "{fs}");
    }
}

/// Findings in a small file system in memory that tells this lie, if any.
fn of_memory(lie: Option<Lie>) -> Vec<String> {
    let done = World::default().run(move || {
        let mut fs: Arc<dyn FileSystem> =
            Arc::new(MemFs::new(MemFsConfig { blocks: 4_000, ..MemFsConfig::default() }));
        if let Some(lie) = lie {
            fs = Arc::new(Liar { inner: fs, lie });
        }
        exercise(&Vfs::mount(fs, VfsConfig::default()).expect("vfs"), true)
    });
    done.expect("ends")
}

#[test]
fn a_wrong_count_of_free_space_and_pages_that_are_lost_are_told() {
    assert_eq!(of_memory(None), Vec::<String>::new());
    let wrong = of_memory(Some(Lie::Free));
    assert!(wrong.iter().any(|w| w.contains("there is no space, and statfs tells")), "{wrong:?}");
    let wrong = of_memory(Some(Lie::Taken));
    assert!(wrong.iter().any(|w| w.contains("were written into")), "{wrong:?}");
    let wrong = of_memory(Some(Lie::LostPage));
    assert!(wrong.iter().any(|w| w.contains("reads as something else")), "{wrong:?}");
}
