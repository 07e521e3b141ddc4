//! Registry entry of NOVA.

use crate::{MkfsOptions, MountOptions};
use granary_device::Need;
use granary_fs::FsEntry;
use granary_fs::entry::{CrashCase, OptionsEntry, complete, nothing_periodic, nothing_refused};

/// NOVA.
pub const NOVA: FsEntry = FsEntry {
    name: "nova",
    about: "NOVA (FAST'16): one log per inode, copy on write, byte interface only",
    needs: &[Need::Bytes],
    write_log: false,
    below: None,
    options: Some(OptionsEntry { section: "nova", read: complete::<MountOptions>, refusal: nothing_refused }),
    periodic: nothing_periodic,
    mkfs: |devices, given| crate::mkfs(devices.serving(Need::Bytes)?, &given.read::<MkfsOptions>()?),
    mount: |devices, how| {
        let options: MountOptions = how.options()?;
        Ok(crate::mount(devices.serving(Need::Bytes)?.clone(), &options)?)
    },
    repair: None,
    checkpoints: None,
    crash: &[
        CrashCase { pages_are_whole: true, ..case("nova", &["data = 'cow'"]) },
        case("nova-in-place", &["data = 'in_place'"]),
    ],
};

const fn case(name: &'static str, mount: &'static [&'static str]) -> CrashCase {
    CrashCase {
        mkfs: "cpus = 4",
        mount,
        every_call_is_durable: true,
        cuts_are_finished: true,
        ..CrashCase::plain(name)
    }
}
