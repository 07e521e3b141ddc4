//! Clients whose calls are left out.

use super::*;
use crate::recorded::{Begun, Calls};
use granary_suite::reference::{Limits, RefFs, RefProcess};
use parking_lot::Mutex;
use std::sync::Arc;

const CREATE: OpenFlags = OpenFlags::RDWR.union(OpenFlags::CREAT);

fn client(tape: &Tape) -> Recorded<RefProcess> {
    let fs = Arc::new(Mutex::new(RefFs::new(Limits { max_file_size: 1 << 30, max_links: 100 })));
    Recorded::new(RefProcess::new(fs, Cred::ROOT), Promises::new()).on_tape(Some(tape))
}

fn write(client: &mut Recorded<RefProcess>, fd: Fd, text: &str) -> Result<usize> {
    client.write(fd, Payload::Bytes(text.as_bytes()))
}

/// Two files, and a link that there is already; returns what the load was told.
fn load(client: &mut Recorded<RefProcess>) -> Vec<String> {
    let one = client.open("/one", CREATE, 0o644);
    let two = client.open("/two", CREATE, 0o644);
    let mut told = vec![format!("{one:?} {two:?}")];
    let (one, two) = (one.expect("is told of one"), two.expect("is told of one"));
    told.push(format!("{:?}", write(client, one, "first")));
    told.push(format!("{:?}", write(client, two, "second file")));
    told.push(format!("{:?}", client.link("/one", "/two")));
    told.push(format!("{:?} {:?}", client.fsync(one), client.close(two)));
    told
}

/// The client after a run of the load with these calls alone, the answers to the load, and the calls begun.
fn played(calls: &str) -> (Recorded<RefProcess>, Vec<String>, Vec<Begun>) {
    let tape = Tape::default();
    let first = load(&mut client(&tape));
    assert_eq!(tape.begun().len(), 7);
    let calls: Calls = calls.parse().expect("calls");
    let again = Tape::playing(&Arc::new(tape.take()), calls);
    let mut client = client(&again);
    let told = load(&mut client);
    assert_eq!(told, first, "the load is told the same");
    (client, told, again.begun())
}

#[test]
fn a_call_that_is_left_out_is_not_made_and_has_the_first_answer() {
    let (mut client, _, begun) = played("1.2,1.4");
    assert_eq!(begun.iter().map(|begun| begun.call.nth).collect::<Vec<_>>(), [2, 4]);
    assert!(client.scribe.inner.stat("/one").is_err());
    // The descriptor is another one than the load has.
    assert_eq!(client.scribe.inner.stat("/two").expect("is there").attr.size, 11);
}

#[test]
fn a_call_on_a_file_that_was_not_opened_is_left_out() {
    let (_, _, begun) = played("1.2,1.3,1.6-7");
    assert_eq!(begun.iter().map(|begun| begun.call.nth).collect::<Vec<_>>(), [2, 7]);
}

#[test]
fn what_now_ends_otherwise_is_told_as_it_ended_at_first() {
    // The link finds its place free now.
    let (mut client, told, _) = played("1.1,1.3,1.5");
    assert!(told[3].contains("Exists"), "{told:?}");
    assert_eq!(client.scribe.inner.stat("/two").expect("is there").attr.nlink, 2);
}
