//! P9: full persistent memory never shows while the lower file system has space.

use crate::common::{Rig, Stack};
use granary_spfs::exthash::Form;
use granary_spfs::{MkfsOptions, MountOptions};
use granary_suite::suite::run;
use granary_units::{Bytes, Payload};
use granary_vfs::{OpenFlags, Posix};

#[test]
fn full_persistent_memory_is_nobodys_error() {
    run(|| {
        for (form, demotion) in [(Form::Carved, false), (Form::Pointers, true)] {
            let mount = MountOptions { promote_after: 1, demotion, ..MountOptions::default() };
            let stack = Stack::new(MkfsOptions { form, segment: 1 }, mount);
            let mut rig = Rig::new(&stack, Bytes::mib(2));
            let mut files = Vec::new();
            for n in 0..4u64 {
                let fd =
                    rig.p.open(format!("/{n}"), OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("created");
                for at in 0..120 {
                    rig.put(fd, at * 20_000, n + 1, 20_000);
                    rig.p.fsync(fd).expect("fsync");
                }
                files.push(fd);
            }
            let stats = rig.fs.stats();
            assert!(stats.spilled > 0 && stats.promoted > 1, "{stats:?}");
            for (n, fd) in (1..).zip(&files) {
                let mut expected = vec![0; 2_400_000];
                Payload::Fill { word: n, len: 2_400_000 }.copy_to(0, &mut expected);
                assert!(rig.content(*fd) == expected, "file {n}");
            }
            rig.check();
            files.into_iter().for_each(|fd| rig.p.close(fd).expect("close"));
            rig.remounted().check();
        }
    });
}
