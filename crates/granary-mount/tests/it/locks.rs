//! Locks between processes. The kernel keeps them by itself: it is never told that the server could.

use super::rig::{any, each, eventually};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The second process: this test, started again. The environment says what it is to lock.
const CHILD: &str = "GRANARY_LOCK_TEST";

type Lock = fn(&File, FlockOperation) -> rustix::io::Result<()>;
/// `flock` belongs to the open file, `fcntl` to the process.
const KINDS: [(&str, Lock); 2] = [("flock", |f, op| flock(f, op)), ("fcntl", |f, op| fcntl_lock(f, op))];

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("opens")
}

/// Another process that holds the lock when this returns, until a line is written to it.
fn holder(kind: &str, path: &Path) -> Child {
    let me = std::env::current_exe().expect("this program");
    let mut child = Command::new(me)
        .args(["locks::held_by_another_process", "--exact", "--nocapture"])
        .env(CHILD, format!("{kind} {}", path.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines();
    let told = lines.map_while(Result::ok).any(|line| line.contains("locked"));
    assert!(told, "the other process has the lock");
    child
}

#[test]
fn held_by_another_process() {
    let Ok(what) = std::env::var(CHILD) else { return };
    let (kind, path) = what.split_once(' ').expect("kind and path");
    let file = open(Path::new(path));
    let (_, lock) = KINDS.iter().find(|k| k.0 == kind).expect("a kind");
    lock(&file, FlockOperation::LockExclusive).expect("locked");
    println!("\nlocked");
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_lock_keeps_other_processes_out_until_it_is_let_go_or_its_holder_dies() {
    each(|rig| {
        if rig.fs != any().name {
            return;
        }
        for (kind, lock) in KINDS {
            let path = rig.path(kind);
            let file = open(&path);
            lock(&file, FlockOperation::NonBlockingLockExclusive).expect("nobody has it");
            lock(&file, FlockOperation::Unlock).expect("unlocked");
            for kill in [false, true] {
                let mut other = holder(kind, &path);
                for op in [FlockOperation::NonBlockingLockExclusive, FlockOperation::NonBlockingLockShared] {
                    let refused = lock(&file, op).expect_err(kind);
                    assert!([Errno::WOULDBLOCK, Errno::ACCESS].contains(&refused), "{kind}: {refused}");
                }
                match kill {
                    true => other.kill().expect("killed"),
                    false => other.stdin.take().expect("piped").write_all(b"\n").expect("told"),
                }
                other.wait().expect("ended");
                let free = || lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
                assert!(eventually(free), "{kind}");
                lock(&file, FlockOperation::Unlock).expect("unlocked");
            }
            let other = open(&path);
            lock(&file, FlockOperation::NonBlockingLockShared).expect("shared");
            lock(&other, FlockOperation::NonBlockingLockShared).expect("shared with another");
        }
    });
}
