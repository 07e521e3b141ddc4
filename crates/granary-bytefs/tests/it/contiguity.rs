//! In how many pieces files lie.

use crate::common::{in_world, open, strict};
use granary_bytefs::{MkfsOptions, MountOptions, mkfs};
use granary_device::{Drive, Port};
use granary_fs::Cred;
use granary_units::{PAGE_SIZE, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

#[test]
fn a_file_written_at_once_is_one_piece_and_a_hole_parts_two() {
    in_world(|| {
        let drive: Arc<dyn Drive> = strict(64);
        mkfs(&Port::new(drive.clone()), &MkfsOptions::default()).expect("mkfs");
        let fs = open(&drive, &MountOptions::default());
        let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("vfs");
        let mut p = Process::new(vfs.clone(), Cred::ROOT);
        for (name, pieces) in [("/whole", &[(0, 40)][..]), ("/holes", &[(0, 1), (10, 12)])] {
            let fd = p.open(name, OpenFlags::RDWR | OpenFlags::CREAT, 0o644).expect("opens");
            for &(from, to) in pieces {
                let len = (to - from) * PAGE_SIZE;
                let wrote = p.pwrite(fd, Payload::Fill { word: 7, len }, (from * PAGE_SIZE) as u64);
                assert_eq!(wrote, Ok(len));
            }
            p.fsync(fd).expect("fsync");
            p.close(fd).expect("closes");
        }
        let found = fs.contiguity().expect("readable");
        let found: Vec<(u64, u64)> = found.iter().map(|f| (f.blocks, f.extents)).collect();
        assert_eq!(found, [(40, 1), (3, 2)]);
        p.exit();
        vfs.unmount().expect("unmounts");
    });
}
