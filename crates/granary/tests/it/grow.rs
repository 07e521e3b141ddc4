//! A mounted image grows while programs use it, and whenever its process dies in the midst of that, nothing
//! is lost.

use crate::common::{Place, signal};
use granary_sim::rng::Stream;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Stream::new(seed, "grow");
    (0..len.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(len).collect()
}

#[track_caller]
fn same(found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len());
    let differ = |(a, b): (&[u8], &[u8])| a != b;
    let pages = || found.chunks(4096).zip(expected.chunks(4096));
    let bad: Vec<usize> = pages().enumerate().filter(|(_, p)| differ(*p)).map(|(n, _)| n).collect();
    assert!(bad.is_empty(), "{} pages differ: {:?}", bad.len(), &bad[..bad.len().min(10)]);
}

/// Bytes of the file system, and those that are free.
fn space(mnt: &Path) -> (u64, u64) {
    let s = rustix::fs::statvfs(mnt).expect("statvfs");
    (s.f_blocks * s.f_frsize, s.f_bavail * s.f_frsize)
}

#[allow(clippy::disallowed_methods, reason = "a process is killed at some moment")]
fn wait(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Writes files, synced, reads them back and removes some, until told to stop; returns what is there.
fn work(dir: &Path, seed: u64, stop: &AtomicBool) -> Vec<(String, u64)> {
    let mut there: Vec<(String, u64)> = Vec::new();
    for n in 0.. {
        if stop.load(SeqCst) {
            break;
        }
        let (name, seed) = (format!("w{seed} {n}"), seed * 1_000_000 + n);
        fs::write(dir.join(&name), content(seed, 50_000)).expect("there is space");
        fs::File::open(dir.join(&name)).expect("open").sync_all().expect("fsync");
        there.push((name, seed));
        if there.len() > 40 {
            let (name, seed) = there.remove(n as usize % 40);
            assert!(fs::read(dir.join(&name)).expect("read") == content(seed, 50_000), "{name}");
            fs::remove_file(dir.join(name)).expect("removed");
        }
    }
    there
}

/// Tells the writers to stop, also where a check fails: otherwise the test would wait for them for ever.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_mounted_image_grows_under_programs_that_write() {
    let Some(place) = Place::new() else { return };
    for durability in ["process", "machine"] {
        let mnt = place.path("mnt");
        place.runs(&["mkfs", durability, "--size", "32MiB"], 0);
        place.runs(&["mount", "--daemon", "--durability", durability, durability, "mnt"], 0);
        let (mut had, _) = space(&mnt);
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            let stops = Stops(&stop);
            let writers: Vec<_> = (0..3)
                .map(|n| {
                    s.spawn({
                        let (mnt, stop) = (&mnt, &stop);
                        move || work(mnt, n, stop)
                    })
                })
                .collect();
            // By its image, by its directory.
            for (path, mib) in [(durability, 48), ("mnt", 64), (durability, 96)] {
                let (_, told) = place.runs(&["grow", path, "--size", &format!("{mib}MiB")], 0);
                assert!(told.contains("now, was"), "{told}");
                let (now, _) = space(&mnt);
                assert!(now > had && now > mib * MIB * 9 / 10, "{now} bytes");
                had = now;
            }
            assert!(place.runs(&["grow", "mnt", "--size", "96MiB"], 0).1.contains("already"));
            assert!(place.runs(&["grow", "mnt", "--size", "32MiB"], 2).1.contains("do not shrink"));
            // More than it held before.
            fs::write(mnt.join("large"), content(7, 40 << 20)).expect("it has grown");
            drop(stops);
            for (name, seed) in writers.into_iter().flat_map(|w| w.join().expect("worked")) {
                assert!(fs::read(mnt.join(&name)).expect("read") == content(seed, 50_000), "{name}");
            }
        });
        place.runs(&["umount", "mnt"], 0);
        assert!(!place.path(durability).join("control").exists());
        place.runs(&["fsck", durability], 0);
        place.runs(&["mount", "--daemon", durability, "mnt"], 0);
        assert_eq!(space(&mnt).0, had);
        same(&fs::read(mnt.join("large")).expect("read"), &content(7, 40 << 20));
        place.runs(&["umount", "mnt"], 0);
        // Nobody answers at a socket that is left behind, and the image is grown as one that nobody uses.
        place.runs(&["grow", durability, "--size", "112MiB"], 0);
        place.runs(&["fsck", durability], 0);
    }
}

#[test]
fn a_mount_that_is_killed_while_it_grows_has_the_old_size_or_the_new_one_and_all_that_was_synced() {
    let Some(place) = Place::new() else { return };
    let mnt = place.path("mnt");
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    let mut synced: Vec<(String, u64)> = Vec::new();
    let (mut mib, mut grown) = (64, 0);
    for n in (0..10u64).step_by(2) {
        place.runs(&["mount", "--daemon", "img", "mnt"], 0);
        let pid = place.server();
        for (name, seed) in &synced {
            assert!(fs::read(mnt.join(name)).expect("read") == content(*seed, 90_000), "{name}");
        }
        let name = format!("f{n}");
        fs::write(mnt.join(&name), content(n, 90_000)).expect("written");
        fs::File::open(mnt.join(&name)).expect("open").sync_all().expect("fsync");
        synced.push((name, n));
        let size = format!("{}MiB", mib + 32);
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("granary"))
            .args(["grow", "img", "--size", &size])
            .current_dir(place.dir())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("started");
        wait(n * n / 2);
        signal(&pid, "-9");
        let told = child.wait().expect("ended").success();
        while fs::read_dir(&mnt).is_ok() {
            std::thread::yield_now();
        }
        place.runs(&["umount", "mnt"], 1);
        place.runs(&["fsck", "img"], 0);
        let pages = serde_json::from_str::<serde_json::Value>(&place.runs(&["stat", "--json", "img"], 0).0);
        let has = pages.expect("JSON")["pages"].as_u64().expect("a number") * 4096 / MIB;
        assert!(!told || has >= mib + 32, "what was answered is kept");
        if has > mib {
            (mib, grown) = (has, grown + 1);
        }
    }
    eprintln!("{grown} of 5 kills came after the growth");
    place.runs(&["grow", "img", "--size", "512MiB"], 0);
    place.runs(&["fsck", "img"], 0);
}

#[test]
fn what_cannot_grow_while_it_is_mounted_says_why() {
    let Some(place) = Place::new() else { return };
    let refused = |path: &str| place.runs(&["grow", path, "--size", "1GiB"], 2).1;
    for fs in ["ext4", "f2fs"] {
        place.runs(&["mkfs", fs, "--fs", fs, "--size", "128MiB"], 0);
        place.runs(&["mount", "--daemon", fs, "mnt"], 0);
        let told = refused("mnt");
        assert!(told.contains(&format!("{fs} cannot grow")) && told.contains("cp-out"), "{told}");
        place.runs(&["umount", "mnt"], 0);
        place.runs(&["fsck", fs], 0);
    }
    place.runs(&["mkfs", "img", "--size", "64MiB"], 0);
    place.runs(&["mount", "--daemon", "--read-only", "img", "mnt"], 0);
    for path in ["img", "mnt"] {
        let told = refused(path);
        assert!(told.contains("only reads") && told.contains("granary umount"), "{told}");
    }
    place.runs(&["umount", "mnt"], 0);
    place.runs(&["mount", "--daemon", "--size", "128MiB", "ram:bytefs", "mnt"], 0);
    assert!(refused("mnt").contains("in memory"));
    place.runs(&["umount", "mnt"], 0);
    assert!(refused("absent").contains("granary mkfs"));
}

/// ByteFS has places for 31 growths. The next one is refused, and the drive has not grown either.
#[test]
fn a_growth_too_many_is_refused_before_anything_changes() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "32MiB"], 0);
    place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    for n in 1..=31 {
        place.runs(&["grow", "mnt", "--size", &format!("{}MiB", 32 + n * 8)], 0);
    }
    place.runs(&["umount", "mnt"], 0);
    let state = || {
        let len = |name: &str| fs::metadata(place.path("img").join(name)).expect("there").len();
        (fs::read(place.path("img").join("image.toml")).expect("there"), len("flash"), len("dram"))
    };
    let before = state();
    let (_, told) = place.runs(&["grow", "img", "--size", "4GiB"], 2);
    assert!(told.contains("31 times") && !told.contains("too little"), "{told}");
    assert!(state() == before, "unmounted");
    place.runs(&["mount", "--daemon", "img", "mnt"], 0);
    for path in ["img", "mnt"] {
        let (_, told) = place.runs(&["grow", path, "--size", "4GiB"], 2);
        assert!(told.contains("31 times"), "{told}");
        assert!(state() == before, "mounted");
    }
    place.runs(&["umount", "mnt"], 0);
    place.runs(&["fsck", "img"], 0);
}
