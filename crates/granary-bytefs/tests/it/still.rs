//! Files that nobody changes read as they were written, also where a reader is set aside between an address and the drive.

use granary_bytefs::{ByteFs, MkfsOptions, MountOptions, RecoveryReport, Variant, mkfs, mount};
use granary_device::Port;
use granary_fs::Result;
use granary_suite::reference::Limits;
use granary_suite::suite;
use granary_units::Bytes;
use std::sync::Arc;

#[derive(Clone)]
struct Subject;

impl suite::Subject for Subject {
    type Fs = ByteFs;
    type Recovery = RecoveryReport;

    fn limits(&self) -> Limits {
        Limits { max_file_size: u64::MAX, max_links: u32::MAX }
    }

    fn mkfs(&self, port: &Port) -> Result<()> {
        mkfs(port, &MkfsOptions::default())
    }

    fn mount(&self, port: Port) -> Result<Arc<ByteFs>> {
        mount(
            port,
            &MountOptions {
                variant: Variant::Dual,
                metadata_cache: Bytes::kib(64),
                ..MountOptions::default()
            },
        )
    }

    fn recovery(fs: &ByteFs) -> RecoveryReport {
        fs.recovery()
    }

    fn was_clean(recovery: &RecoveryReport) -> bool {
        recovery.clean
    }
}

#[test]
fn still_files_stay_while_readers_are_set_aside() {
    suite::still_files_stay_while_readers_are_set_aside(&Subject, Bytes::mib(64), 0..3, |_| ());
}
