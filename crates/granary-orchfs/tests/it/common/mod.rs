//! OrchFS as a subject of `granary_suite::suite`: on a DIMM and an SSD, which the suite sees as one range of
//! pages.

use granary_device::Port;
use granary_fs::Result;
use granary_orchfs::{MAX_FILE_SIZE, MAX_LINKS, MkfsOptions, MountOptions, OrchFs, Recovery};
use granary_suite::reference::Limits;
use granary_suite::suite::{self, halves};
use std::sync::Arc;

/// The file system with these options.
#[derive(Clone, Default)]
pub struct Subject {
    pub mkfs: MkfsOptions,
    pub mount: MountOptions,
}

/// One that is mounted.
pub type Mounted = suite::Mounted<Subject>;

impl suite::Subject for Subject {
    type Fs = OrchFs;
    type Recovery = Recovery;

    fn limits(&self) -> Limits {
        Limits { max_file_size: MAX_FILE_SIZE, max_links: MAX_LINKS }
    }

    fn mkfs(&self, port: &Port) -> Result<()> {
        let (nvm, ssd) = halves(port);
        granary_orchfs::mkfs(&nvm, &ssd, &self.mkfs)
    }

    fn mount(&self, port: Port) -> Result<Arc<OrchFs>> {
        let (nvm, ssd) = halves(&port);
        granary_orchfs::mount(nvm, ssd, &self.mount)
    }

    fn recovery(fs: &OrchFs) -> Recovery {
        fs.recovery()
    }

    fn was_clean(recovery: &Recovery) -> bool {
        recovery.clean
    }
}

/// Journals so short that they are digested all the time.
pub fn busy() -> Subject {
    let journal = Some(granary_units::Bytes::kib(64));
    Subject { mkfs: MkfsOptions { journals: 2, journal, ..MkfsOptions::default() }, ..Subject::default() }
}

/// The same, with a daemon that migrates whatever it finds.
pub fn migrating() -> Subject {
    let pause = granary_units::Nanos::from_micros(20);
    let mount =
        MountOptions { migrate_high: 0, migrate_low: 0, migrate_pause: pause, ..MountOptions::default() };
    Subject { mount, ..busy() }
}
