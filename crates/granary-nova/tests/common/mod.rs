//! NOVA as a subject of `granary_vfs::suite`.
#![allow(dead_code)] // each test uses a part

use granary_mssd::{Drive, Port};
use granary_nova::{MkfsOptions, MountOptions, Nova, Recovery, mkfs, mount};
use granary_vfs::Result;
use granary_vfs::reference::Limits;
use std::sync::Arc;

/// NOVA with these options.
#[derive(Clone, Default)]
pub struct Subject {
    pub mkfs: MkfsOptions,
    pub mount: MountOptions,
}

/// A mounted NOVA.
pub type Mounted = granary_vfs::suite::Mounted<Subject>;

impl granary_vfs::suite::Subject for Subject {
    type Fs = Nova;
    type Recovery = Recovery;

    fn limits(&self) -> Limits {
        Limits { max_file_size: granary_nova::MAX_FILE_SIZE, max_links: 65000 }
    }

    fn mkfs(&self, port: &Port) -> Result<()> {
        mkfs(port, &self.mkfs)
    }

    fn mount(&self, port: Port) -> Result<Arc<Nova>> {
        mount(port, &self.mount)
    }

    fn recovery(fs: &Nova) -> Recovery {
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
