//! Block writes fail: fsync tells each open file, and nothing else is lost or shown.

use crate::liar::{Liar, Lie};
use granary_crash::{Effort, Explorer};
use granary_fs::{Cred, FsError};
use granary_sim::World;
use granary_suite::memfs::{MemFs, MemFsConfig};
use granary_units::Payload;
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

fn explored(fs: &str, load: &str, seeds: std::ops::Range<u64>) -> granary_crash::Report {
    let target = crate::targets::by_name(fs).expect("a target");
    let explorer = Explorer::new(target, crate::targets::load(load).expect("a load")).expect("sound");
    let explorer = explorer.write_errors(true);
    let effort = Effort { anywhere: 6, in_steps: 4, draws: 1, ..Effort::default() };
    let mut report = granary_crash::Report::default();
    seeds.for_each(|seed| report.add(explorer.run(seed, &effort)));
    report
}

#[test]
fn what_fsync_promised_is_there_although_writes_fail() {
    // Of ext4 the load that shows what else a block held; of F2FS and SPFS those that clean and promote.
    for (fs, load, seed) in [
        ("ext4", "unnamed", 101),
        ("f2fs", "resize", 105),
        ("nilfs2", "resize", 100),
        ("bytefs", "resize", 101),
        ("orchfs", "resize", 100),
        ("spfs+ext4", "oltp", 101),
    ] {
        let report = explored(fs, load, seed..seed + 1);
        assert!(report.failures.is_empty(), "{fs} under {load}: {report}");
        assert!(report.points > 0, "{fs} under {load}");
    }
}

#[test]
fn each_open_file_is_told_once_of_a_write_back_that_failed() {
    let done = World::default().run(|| {
        let inner = Arc::new(MemFs::new(MemFsConfig::default()));
        let vfs = Vfs::mount(Arc::new(Liar { inner, lie: Lie::WriteBack }), VfsConfig::default());
        let mut posix = Process::new(vfs.expect("vfs"), Cred::ROOT);
        let flags = OpenFlags::RDWR | OpenFlags::CREAT;
        let [a, b] = [(); 2].map(|()| posix.open("/file", flags, 0o644).expect("open"));
        posix.pwrite(a, Payload::Fill { word: 1, len: 4096 }, 0).expect("write");
        posix.sync().expect("sync tells nobody");
        let untold = posix.open("/file", flags, 0o644).expect("open");
        let error = Err(FsError::NoSpace);
        assert_eq!((posix.fsync(a), posix.fsync(a)), (error.clone(), Ok(())));
        let late = posix.open("/file", flags, 0o644).expect("open");
        assert_eq!((posix.fdatasync(b), posix.fsync(b)), (error.clone(), Ok(())), "another open file");
        assert_eq!(posix.fsync(untold), error, "opened before anybody was told");
        assert_eq!(posix.fsync(late), Ok(()), "opened after somebody was told");
    });
    done.expect("ends");
}
