//! overlayfs over a mount: the calls that containers make on their layers.

use super::rig::{Rig, each_with};
use granary_mount::Options;
use rustix::fs::{RenameFlags, renameat_with};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An overlay that is taken away whatever happens.
struct Overlay(PathBuf);

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

impl Overlay {
    fn new(rig: &Rig, at: &Path, more: &str) -> io::Result<Overlay> {
        let path = |name: &str| rig.path(name).display().to_string();
        let options = format!("lowerdir={},upperdir={},workdir={}{more}", path("lo"), path("up"), path("wk"));
        let options = std::ffi::CString::new(options).expect("text");
        mount("overlay", at, "overlay", MountFlags::empty(), Some(options.as_c_str()))?;
        Ok(Overlay(at.to_owned()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

fn is_whiteout(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_char_device() && m.rdev() == 0)
}

#[test]
fn an_overlay_works_with_all_its_layers_on_a_mount_and_keeps_what_it_did() {
    if !rustix::process::geteuid().is_root() {
        return granary_suite::skip::skipped("overlays are for root");
    }
    each_with(&Options { xattrs: true, allow_other: true, ..Options::default() }, |rig| {
        if !rig.vfs.keeps_attributes() {
            return;
        }
        ["lo/dir/sub", "up", "wk"].iter().for_each(|d| fs::create_dir_all(rig.path(d)).expect("made"));
        for name in ["moved", "removed", "changed", "dir/inner", "dir/sub/deep"] {
            fs::write(rig.path("lo").join(name), name).expect("written");
        }
        let at = tempfile::tempdir().expect("a directory");
        for (round, more) in ["", ",userxattr", ",redirect_dir=on"].into_iter().enumerate() {
            let overlay = match Overlay::new(rig, at.path(), more) {
                Ok(overlay) => overlay,
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {
                    return granary_suite::skip::skipped("no overlayfs here");
                }
                Err(e) => panic!("{}, {more}: {e}", rig.fs),
            };
            let read = |name: &str| fs::read_to_string(overlay.path(name)).ok();
            if round == 0 {
                fs::rename(overlay.path("moved"), overlay.path("here")).expect("renamed");
                fs::remove_file(overlay.path("removed")).expect("removed");
                fs::write(overlay.path("changed"), "other").expect("written");
                fs::remove_dir_all(overlay.path("dir/sub")).expect("removed");
                fs::create_dir(overlay.path("dir/sub")).expect("made anew, without what is below");
            }
            assert_eq!((read("moved"), read("here").as_deref()), (None, Some("moved")), "{}", rig.fs);
            assert_eq!((read("removed"), read("changed").as_deref()), (None, Some("other")));
            if round != 1 {
                // With other names of its attributes a layer means less.
                assert_eq!(read("dir/sub/deep"), None, "{}", rig.fs);
            }
            assert_eq!(read("dir/inner").as_deref(), Some("dir/inner"));
            drop(overlay);
            assert!(is_whiteout(&rig.path("up/moved")) && is_whiteout(&rig.path("up/removed")), "{}", rig.fs);
            assert_eq!(fs::read_to_string(rig.path("lo/moved")).expect("untouched"), "moved");
        }
    });
}

#[test]
fn a_rename_leaves_a_whiteout_under_the_old_name() {
    each_with(&Options { allow_other: true, ..Options::default() }, |rig| {
        // NILFS2 has none, as in Linux.
        if rig.fs == "nilfs2" {
            return;
        }
        ["a", "b"].iter().for_each(|d| fs::create_dir(rig.path(d)).expect("made"));
        let rename = |from: &str, to: &str, more: RenameFlags| {
            let dir = fs::File::open(rig.root()).expect("opened");
            renameat_with(&dir, from, &dir, to, RenameFlags::WHITEOUT | more)
        };
        for name in ["a/f", "a/g", "a/h"] {
            fs::write(rig.path(name), name).expect("written");
        }
        rename("a/f", "b/f", RenameFlags::empty()).expect("renamed");
        rename("a/g", "b/f", RenameFlags::empty()).expect("replaced");
        assert!(rename("a/h", "b/f", RenameFlags::NOREPLACE).is_err());
        assert!(rename("a/h", "b/f", RenameFlags::EXCHANGE).is_err());
        assert_eq!(fs::read_to_string(rig.path("a/h")).expect("still there"), "a/h");
        rename("a", "c", RenameFlags::empty()).expect("a directory, too");
        assert_eq!(fs::read_to_string(rig.path("b/f")).expect("read"), "a/g");
        assert!(["c/f", "c/g", "a"].iter().all(|name| is_whiteout(&rig.path(name))), "{}", rig.fs);
        let names = fs::read_dir(rig.path("c")).expect("listed").count();
        assert_eq!(names, 3, "{}", rig.fs);
        // It is a file like any.
        fs::remove_file(rig.path("c/f")).expect("removed");
        fs::rename(rig.path("c/h"), rig.path("c/g")).expect("over it");
        assert_eq!(fs::read_to_string(rig.path("c/g")).expect("read"), "a/h");
    });
}
