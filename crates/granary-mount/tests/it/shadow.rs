//! The same random calls on the mount and on the host's own file system: the kernel is the reference.

use super::rig::{Rig, each};
use granary_sim::rng::Stream;
use rustix::fs::{AtFlags, CWD, OFlags, RenameFlags, renameat_with, statat};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const CALLS: usize = 3000;

#[test]
fn the_mount_behaves_as_the_hosts_file_system() {
    each(|rig| {
        let host = tempfile::tempdir().expect("a directory");
        let mut rng = Stream::new(11, rig.fs);
        for call in 0..CALLS {
            let seed = rng.next_u64();
            let ours = step(rig.root(), &mut Stream::new(seed, "call"));
            let theirs = step(host.path(), &mut Stream::new(seed, "call"));
            assert_eq!(ours, theirs, "{}: call {call}", rig.fs);
        }
        assert_eq!(tree(rig.root(), rig), tree(host.path(), rig), "{}", rig.fs);
    });
}

/// A path of up to three components out of few, so that calls meet.
fn path(root: &Path, rng: &mut Stream) -> PathBuf {
    let mut p = root.to_owned();
    for _ in 0..=rng.below(3) {
        p.push(["a", "b", "c", "d", "long name with blanks"][rng.below(5) as usize]);
    }
    p
}

/// One call; returns its result, as text without paths.
fn step(root: &Path, rng: &mut Stream) -> String {
    let p = path(root, rng);
    let told = |r: io::Result<String>| match r {
        Ok(s) => s,
        Err(e) => format!("error {:?}", e.raw_os_error()),
    };
    let unit = |r: io::Result<()>| told(r.map(|()| "ok".to_owned()));
    match rng.below(14) {
        0 | 1 => unit(fs::create_dir(&p)),
        2 => unit(fs::remove_file(&p)),
        3 => unit(fs::remove_dir(&p)),
        4 => unit(fs::hard_link(&p, path(root, rng))),
        5 => unit(symlink("../a/b", &p)),
        6 | 7 => {
            let flags =
                [RenameFlags::empty(), RenameFlags::empty(), RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
            let flags = flags[rng.below(4) as usize];
            unit(renameat_with(CWD, &p, CWD, path(root, rng), flags).map_err(io::Error::from))
        }
        8 => unit(fs::set_permissions(&p, fs::Permissions::from_mode(0o700 | rng.below(0o100) as u32))),
        9 => {
            let open = OpenOptions::new().write(true).open(&p);
            unit(open.and_then(|f| f.set_len(rng.below(30_000))))
        }
        10 | 11 => {
            let flags = [OFlags::empty(), OFlags::TRUNC, OFlags::APPEND, OFlags::EXCL][rng.below(4) as usize];
            let open = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .custom_flags(flags.bits() as i32)
                .open(&p);
            let data = vec![rng.below(256) as u8; rng.below(10_000) as usize];
            unit(open.and_then(|f| f.write_all_at(&data, rng.below(20_000))))
        }
        12 => told(fs::read(&p).map(|data| format!("{} bytes {:x}", data.len(), sum(&data)))),
        _ => told(describe(&p)),
    }
}

fn sum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn describe(p: &Path) -> io::Result<String> {
    let st = statat(CWD, p, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_dir = st.st_mode & 0o170_000 == 0o040_000;
    // Directories have sizes of their file system's own.
    let size = if is_dir { 0 } else { st.st_size };
    let nlink = if is_dir { 0 } else { st.st_nlink };
    Ok(format!("mode {:o} size {size} links {nlink} owner {}:{}", st.st_mode, st.st_uid, st.st_gid))
}

/// Everything below, with attributes and content.
fn tree(root: &Path, rig: &Rig) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for e in fs::read_dir(&dir).expect("readdir") {
            let p = e.expect("entry").path();
            if p == rig.path("lost+found") {
                continue;
            }
            let mut text = describe(&p).expect("stat");
            let kind = fs::symlink_metadata(&p).expect("lstat");
            if kind.is_dir() {
                todo.push(p.clone());
            } else if kind.is_file() {
                text += &format!(" content {:x}", sum(&fs::read(&p).expect("read")));
            }
            all.insert(p.strip_prefix(root).expect("below").to_owned(), text);
        }
    }
    all
}
