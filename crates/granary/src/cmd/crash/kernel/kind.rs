//! [`Kind`]: the kernel's file systems: how each is made, mounted and checked.

use crate::failure::Failure;
use std::path::Path;
use std::process::Command;

/// A file system of the kernel.
pub struct Kind {
    /// Its name, as mount(2) takes it.
    pub name: &'static str,
    /// Bytes of the file system.
    pub size: u64,
    /// The program that makes it, and how: as small as it can be, so that journals wrap; no discards, nothing
    /// left to do later.
    mkfs: &'static [&'static str],
    /// The arguments behind the device.
    mkfs_end: &'static [&'static str],
    /// The data of mount(2).
    pub options: &'static str,
    /// Whether a rename shows at both of its names or at neither, whatever was made durable behind it.
    /// Btrfs's log of an fsync has the names of one file, or the entries of one directory.
    pub renames_are_whole: bool,
    /// The program that checks an image and changes nothing.
    check: &'static [&'static str],
    /// The package of both programs.
    package: &'static str,
}

/// All of them.
pub const KINDS: [Kind; 3] = [
    Kind {
        name: "ext4",
        size: 64 << 20,
        mkfs: &[
            "mkfs.ext4",
            "-q",
            "-F",
            "-b",
            "4096",
            "-N",
            "1024",
            "-J",
            "size=4",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
        ],
        mkfs_end: &["64m"],
        options: "",
        renames_are_whole: true,
        check: &["e2fsck", "-fn"],
        package: "e2fsprogs",
    },
    Kind {
        name: "xfs",
        size: 300 << 20,
        mkfs: &["mkfs.xfs", "-q", "-f", "-K", "-d", "size=300m"],
        mkfs_end: &[],
        options: "",
        renames_are_whole: true,
        check: &["xfs_repair", "-n", "-f"],
        package: "xfsprogs",
    },
    Kind {
        name: "btrfs",
        size: 128 << 20,
        mkfs: &["mkfs.btrfs", "-q", "-f", "-K", "-b", "128m"],
        mkfs_end: &[],
        options: "nodiscard",
        renames_are_whole: false,
        check: &["btrfs", "check", "--readonly"],
        package: "btrfs-progs",
    },
];

/// Runs a program that must succeed; what it said.
pub fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("{name}: {e}"))?;
    let said = [out.stdout, out.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    if out.status.success() { Ok(said) } else { Err(format!("{name}: {}: {said}", out.status)) }
}

fn there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(program).exists())
}

impl Kind {
    /// The one with this name.
    pub fn by_name(name: &str) -> Option<&'static Kind> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// Why this machine cannot do it.
    pub fn check_machine(&self) -> Result<(), Failure> {
        if !rustix::process::geteuid().is_root() {
            return Err(Failure::usage("mounting the kernel's file systems needs root: run as root"));
        }
        if !Path::new("/dev/fuse").exists() {
            let why = "/dev/fuse does not exist: load the module (modprobe fuse), or in a container pass it";
            return Err(Failure::usage(why));
        }
        crate::cmd::loopdev::check()?;
        for program in [self.mkfs[0], self.check[0]] {
            if !there(program) {
                return Err(Failure::usage(format!(
                    "{program} was not found: install it (package {})",
                    self.package
                )));
            }
        }
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let is_known = |text: &str| text.lines().any(|line| line.trim() == self.name);
        if !is_known(&known) {
            let _ = Command::new("modprobe").args(["-q", self.name]).status();
            if !is_known(&std::fs::read_to_string("/proc/filesystems").unwrap_or_default()) {
                let name = self.name;
                return Err(Failure::usage(format!(
                    "this kernel has no {name}: load its module (modprobe {name}), or take a kernel that has it"
                )));
            }
        }
        Ok(())
    }

    /// Makes one on a device.
    pub fn make(&self, device: &Path) -> Result<(), String> {
        let mut mkfs = Command::new(self.mkfs[0]);
        run(mkfs.args(&self.mkfs[1..]).arg(device).args(self.mkfs_end)).map(drop)
    }

    /// Asks the checker about an image that is not mounted; the error is its text.
    pub fn check(&self, image: &Path) -> Result<(), String> {
        run(Command::new(self.check[0]).args(&self.check[1..]).arg(image)).map(drop)
    }

    /// The kernel keeps nothing of a device that is gone (btrfs remembers where it saw which file system).
    pub fn forget(&self) {
        if self.name == "btrfs" {
            let _ = run(Command::new("btrfs").args(["device", "scan", "--forget"]));
        }
    }
}
