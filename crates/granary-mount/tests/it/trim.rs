//! `fstrim`: the space of removed files goes back to the drive, and nothing else does.

use super::rig::{each_with_all as each, eventually};
use granary_fs::{Call, Caller};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Bytes that were told of by FITRIM of everything from `start` on, in runs of `least` bytes.
#[allow(unsafe_code, reason = "FITRIM has no safe wrapper")]
fn trim(dir: &Path, start: u64, least: u64) -> io::Result<u64> {
    let mut range = [start, u64::MAX, least];
    let dir = File::open(dir)?;
    // SAFETY: FITRIM reads and writes a structure of three words of 8 bytes, which lives through the call.
    let done = unsafe { libc::ioctl(dir.as_raw_fd(), 0xc018_5879, range.as_mut_ptr()) };
    if done == 0 { Ok(range[1]) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn what_removed_files_had_is_told_to_the_drive_and_other_files_stay() {
    each(|rig| {
        let content: Vec<u8> = (0..1u32 << 20).flat_map(|n| n.to_le_bytes()).collect();
        for name in ["kept", "gone"] {
            fs::write(rig.path(name), &content).expect("written");
            File::open(rig.path(name)).expect("opened").sync_all().expect("synced");
        }
        let before = rig.trimmed();
        let free = || rig.vfs.statfs(&Caller::KERNEL).expect("told").free_blocks * 4096;
        let with_both = free();
        fs::remove_file(rig.path("gone")).expect("removed");
        // The kernel forgets a removed file when it likes; only then has the file system its space back.
        eventually(|| {
            rig.vfs.sync(&Caller::KERNEL).expect("synced");
            free() >= with_both + content.len() as u64
        });
        rig.vfs.sync(&Caller::KERNEL).expect("synced");
        let told = trim(rig.root(), 0, 0).expect("trimmed");
        // F2FS tells of whole dead segments with its checkpoints.
        assert!(told >= content.len() as u64 || rig.fs == "f2fs", "{}: {told}", rig.fs);
        let heard = (rig.trimmed() - before) * 4096;
        assert!(heard >= content.len() as u64, "{}: the drive heard of {heard}", rig.fs);
        assert_eq!(trim(rig.root(), 1 << 50, 0).expect_err("beyond").raw_os_error(), Some(libc::EINVAL));
        if rig.fs != "f2fs" {
            let most = fs::metadata(rig.root())
                .map(|_| rig.vfs.statfs(&Caller::KERNEL).expect("told").blocks * 4096)
                .expect("there");
            assert!(trim(rig.root(), most / 2, 0).expect("a part") <= most / 2, "{}", rig.fs);
            assert!(trim(rig.root(), 0, 64 << 20).expect("long runs") <= told, "{}", rig.fs);
        }
        rig.vfs.fs().drop_caches(&Call::offline());
        assert!(fs::read(rig.path("kept")).expect("read") == content, "{}", rig.fs);
        fs::write(rig.path("again"), &content).expect("there is space");
        if rustix::process::geteuid().is_root() {
            let mut other = Command::new("fstrim");
            let said = other.arg(rig.root()).uid(65_534).output();
            assert!(said.is_ok_and(|out| !out.status.success()), "others may not");
            let own = Command::new("fstrim").arg(rig.root()).output();
            assert!(own.is_ok_and(|out| out.status.success()), "{}", rig.fs);
        }
    });
}
