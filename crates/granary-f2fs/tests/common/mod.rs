//! F2FS as a subject of `granary_vfs::suite`.
#![allow(dead_code)] // each test uses a part

use granary_f2fs::{F2fs, MkfsOptions, MountOptions, Recovery, mkfs, mount};
use granary_mssd::{Drive, Port};
use granary_vfs::Result;
use granary_vfs::reference::Limits;
use std::sync::Arc;

/// F2FS with these options.
#[derive(Clone, Default)]
pub struct Subject {
    pub mkfs: MkfsOptions,
    pub mount: MountOptions,
}

/// A mounted F2FS.
pub type Mounted = granary_vfs::suite::Mounted<Subject>;

impl granary_vfs::suite::Subject for Subject {
    type Fs = F2fs;
    type Recovery = Recovery;

    fn limits(&self) -> Limits {
        Limits { max_file_size: granary_f2fs::MAX_FILE_SIZE, max_links: u32::MAX - 1 }
    }

    fn mkfs(&self, port: &Port) -> Result<()> {
        mkfs(port, &self.mkfs)
    }

    fn mount(&self, port: Port) -> Result<Arc<F2fs>> {
        mount(port, &self.mount)
    }

    fn recovery(fs: &F2fs) -> Recovery {
        fs.recovery()
    }

    fn was_clean(recovery: &Recovery) -> bool {
        recovery.clean
    }
}

/// Made and mounted with defaults.
pub fn fresh(drive: &Arc<dyn Drive>) -> Mounted {
    Mounted::fresh(&Subject::default(), drive)
}

/// Mounted again with defaults.
pub fn again(drive: &Arc<dyn Drive>) -> Mounted {
    Mounted::again(&Subject::default(), drive)
}
