//! Whether the files of a workload fit onto a drive, and what to do where they do not.
//!
//! `--scale` makes fewer files and leaves their sizes as they are. So it is advised only where fewer files
//! would fit; else a larger drive, or smaller files.

use crate::error::LabError;
use granary_device::Role;
use granary_fs::FsEntry;
use granary_testbed::{Testbed, builtins};
use granary_units::{Bytes, PAGE_SIZE};
use granary_workload::Workload;

/// Part of a drive that files may be expected to fill: file systems have structures of their own.
const USABLE: f64 = 0.95;
const GIB: f64 = (1u64 << 30) as f64;

fn capacity(fs: &FsEntry, testbed: &Testbed) -> f64 {
    testbed.pages_for(fs) as f64 * PAGE_SIZE as f64
}

fn shown(bytes: f64) -> Bytes {
    Bytes(bytes as u64)
}

/// Bytes of the files at the smallest scale, and the fileset that has most of them.
fn least(workload: &Workload) -> (f64, String) {
    let one = |set: &granary_workload::spec::FilesetSpec| {
        let one = granary_workload::spec::FilesetSpec { entries: set.entries.min(1), ..set.clone() };
        one.expected_bytes(&workload.randoms)
    };
    let all = workload.filesets.iter().map(one).sum();
    let largest = workload.filesets.iter().max_by(|a, b| one(a).total_cmp(&one(b)));
    (all, largest.map_or_else(String::new, |set| set.name.clone()))
}

/// Whether the files that a workload makes before it runs fit.
///
/// # Errors
/// They do not.
pub(super) fn must_fit(workload: &Workload, fs: &FsEntry, testbed: &Testbed) -> Result<(), LabError> {
    let (needs, has) = (workload.expected_bytes(), capacity(fs, testbed));
    if needs <= has * USABLE {
        return Ok(());
    }
    Err(LabError::DoesNotFit(format!(
        "the workload's files need {}, the drive of {} has {}: {}",
        shown(needs),
        testbed.name,
        shown(has),
        more(workload, fs, testbed)
    )))
}

/// Advice for files that do not fit.
pub(super) fn more(workload: &Workload, fs: &FsEntry, testbed: &Testbed) -> String {
    let (needs, has) = (workload.expected_bytes(), capacity(fs, testbed));
    let (least, largest) = least(workload);
    let first = match least <= has * USABLE && least < needs {
        true => "use a smaller --scale".to_owned(),
        false => format!(
            "--scale does not help, as it leaves sizes as they are; make the size of `{largest}` smaller"
        ),
    };
    format!("{first}, or take a larger drive ({})", larger(needs, fs, testbed))
}

/// Options for a drive with room for `needs` bytes, at least for twice as much as this one has.
fn larger(needs: f64, fs: &FsEntry, testbed: &Testbed) -> String {
    let wanted = (needs / USABLE).max(capacity(fs, testbed) * 2.0);
    let built_in =
        builtins().filter_map(|(name, _)| Some((name, capacity(fs, &Testbed::load(name, &[]).ok()?))));
    let mut fits = built_in.filter(|(_, has)| *has >= wanted);
    let more = wanted / capacity(fs, testbed);
    let on_nvm = testbed.roles_for(fs).is_ok_and(|roles| !roles.contains(&Role::Ssd));
    let set = match (&testbed.drive, &testbed.device.nvm) {
        (_, Some(nvm)) if on_nvm => {
            format!("--set nvm.capacity={}GiB", (nvm.capacity.0 as f64 * more / GIB).ceil() as u64)
        }
        (Some(ssd), _) => {
            let blocks = f64::from(ssd.flash.geometry.blocks_per_plane) * more;
            format!("--set blocks_per_plane={}", blocks.ceil() as u64 + 1)
        }
        _ => "--testbed".to_owned(),
    };
    fits.next().map_or(set.clone(), |(name, _)| format!("--testbed {name}, or {set}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ext4() -> &'static FsEntry {
        granary_testbed::registry::find("ext4").expect("registered")
    }

    fn said(text: &str, scale: f64) -> String {
        let mut workload = Workload::parse("t", text, &[]).expect("a workload");
        workload.scale(scale).expect("a scale");
        let testbed = Testbed::load("bytefs-emulator", &[]).expect("built in");
        must_fit(&workload, ext4(), &testbed).expect_err("too large").to_string()
    }

    const ONE: &str = "define file name=big,path=/tmp,size=40g,prealloc\n\
                       define process name=p { thread name=t { flowop read name=r,filename=big,iosize=4k,random } }\nrun 1\n";

    #[test]
    fn a_file_that_no_scale_makes_smaller_needs_a_larger_drive() {
        for scale in [1.0, 0.001] {
            let said = said(ONE, scale);
            assert!(said.contains("--scale does not help") && said.contains("size of `big`"), "{said}");
            assert!(said.contains("--testbed bytefs-fpga, or --set blocks_per_plane="), "{said}");
        }
    }

    #[test]
    fn many_files_need_a_smaller_scale() {
        let text = ONE.replace(
            "define file name=big,path=/tmp,size=40g,",
            "define fileset name=big,path=/tmp,size=40m,entries=1000,dirwidth=20,",
        );
        let said = said(&text.replace("filename=big", "filesetname=big"), 1.0);
        assert!(said.contains("use a smaller --scale, or take a larger drive"), "{said}");
    }

    /// A drive made as advised has enough room.
    #[test]
    fn the_advised_drive_has_the_room() {
        let workload = Workload::parse("t", ONE, &[]).expect("a workload");
        let said = said(ONE, 1.0);
        let (_, set) = said.rsplit_once("--set ").expect("advised");
        let sets = [set.trim_end_matches(')').to_owned()];
        let larger = Testbed::load("bytefs-emulator", &sets).expect("a testbed");
        must_fit(&workload, ext4(), &larger).expect("fits");
        must_fit(&workload, ext4(), &Testbed::load("bytefs-fpga", &[]).expect("built in")).expect("fits");
    }
}
