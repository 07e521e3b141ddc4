//! The hook that makes an image durable runs before fsync returns, and its failure is the caller's.

use super::rig::{Rig, any, eventually, possible};
use granary_mount::Options;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;

#[test]
fn fsync_fdatasync_fsyncdir_and_synchronous_writes_call_the_hook() {
    if !possible() {
        return;
    }
    let calls = Arc::new(AtomicU64::new(0));
    let fails = Arc::new(AtomicBool::new(false));
    let hook = {
        let (calls, fails) = (calls.clone(), fails.clone());
        move |told: granary_mount::Told| {
            calls.fetch_add(1, SeqCst);
            told(if fails.load(SeqCst) { Err(std::io::Error::from_raw_os_error(28)) } else { Ok(()) });
        }
    };
    let rig = Rig::new(any(), &Options { durable: Some(Arc::new(hook)), ..Options::default() });
    let since = |n: u64| calls.load(SeqCst) - n;
    let mut f = File::create(rig.path("f")).expect("create");
    f.write_all(b"x").expect("write");
    assert_eq!(calls.load(SeqCst), 0, "nothing was promised yet");
    f.sync_all().expect("fsync");
    assert_eq!(calls.load(SeqCst), 1);
    f.sync_data().expect("fdatasync");
    File::open(rig.root()).expect("open").sync_all().expect("fsync of a directory");
    assert_eq!(calls.load(SeqCst), 3);
    let flags = rustix::fs::OFlags::DSYNC.bits() as i32;
    let mut sync = fs::OpenOptions::new().write(true).custom_flags(flags).open(rig.path("f")).expect("open");
    let before = calls.load(SeqCst);
    sync.write_all(b"y").expect("synchronous write");
    assert!(since(before) >= 1);
    fails.store(true, SeqCst);
    assert_eq!(f.sync_all().expect_err("the image could not be synced").raw_os_error(), Some(28));
    fails.store(false, SeqCst);
    drop((f, sync));
    rig.finish();
}

#[test]
fn an_fsync_that_waits_holds_nobody_up() {
    if !possible() {
        return;
    }
    let (entered_tx, entered) = mpsc::channel();
    let (go, go_rx) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new((entered_tx, go_rx));
    let once = AtomicBool::new(true);
    let hook = move |told: granary_mount::Told| {
        if once.swap(false, SeqCst) {
            let gate = gate.lock().expect("not poisoned");
            gate.0.send(()).expect("the test waits");
            gate.1.recv().expect("the test lets us go");
        }
        told(Ok(()));
    };
    let options = Options { threads: 2, durable: Some(Arc::new(hook)), ..Options::default() };
    let rig = Rig::new(any(), &options);
    let f = File::create(rig.path("slow")).expect("create");
    std::thread::scope(|s| {
        let fsync = s.spawn(|| f.sync_all());
        entered.recv().expect("fsync is under way");
        for i in 0..100 {
            fs::write(rig.path(&format!("f{i}")), "meanwhile").expect("write");
        }
        assert!(!fsync.is_finished());
        go.send(()).expect("it waits");
        fsync.join().expect("no panic").expect("fsync");
    });
    drop(f);
    rig.finish();
}

#[test]
fn fsyncs_answered_later_keep_no_serving_thread() {
    if !possible() {
        return;
    }
    let held = Arc::new(std::sync::Mutex::new(Vec::<granary_mount::Told>::new()));
    let hold = held.clone();
    let hook = move |told: granary_mount::Told| hold.lock().expect("not poisoned").push(told);
    let options = Options { threads: 2, durable: Some(Arc::new(hook)), ..Options::default() };
    let rig = Rig::new(any(), &options);
    let files: Vec<File> =
        (0..8).map(|i| File::create(rig.path(&format!("f{i}"))).expect("create")).collect();
    std::thread::scope(|s| {
        let fsyncs: Vec<_> = files.iter().map(|f| s.spawn(|| f.sync_all())).collect();
        assert!(eventually(|| held.lock().expect("not poisoned").len() == files.len()));
        fs::write(rig.path("meanwhile"), "served").expect("write");
        assert!(fsyncs.iter().all(|f| !f.is_finished()));
        held.lock().expect("not poisoned").drain(..).for_each(|told| told(Ok(())));
        fsyncs.into_iter().for_each(|f| f.join().expect("no panic").expect("fsync"));
    });
    held.lock().expect("not poisoned").clear();
    drop(files);
    // Unmounting asks once more.
    std::thread::scope(|s| {
        let closing = s.spawn(|| rig.finish());
        assert!(eventually(|| !held.lock().expect("not poisoned").is_empty()));
        held.lock().expect("not poisoned").drain(..).for_each(|told| told(Ok(())));
        closing.join().expect("no panic");
    });
}
