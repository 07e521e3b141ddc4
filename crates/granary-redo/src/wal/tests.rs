//! Tests of this module.

use super::*;
use crate::host::{Host, memory::MemoryHost};

const UUID: [u8; 16] = [5; 16];

fn wal(host: &MemoryHost) -> Wal {
    Wal::start(host.open(WAL, false).expect("file"), UUID, 1024, Way::Shared).expect("started")
}

fn append(wal: &mut Wal, group: &[u8]) {
    let mut frame = vec![0; FRAME];
    frame.extend_from_slice(group);
    if !wal.fits(frame.len().next_multiple_of(8)) {
        wal.begin(1 - wal.active()).expect("begun");
    }
    wal.append(&mut frame, &[]).expect("appended");
}

fn read(host: &MemoryHost) -> Result<Vec<u8>, ImageError> {
    let mut seen = Vec::new();
    replay(&*host.open(WAL, true).expect("file"), &UUID, |g| {
        seen.push(g[0]);
        Ok(())
    })?;
    Ok(seen)
}

#[test]
fn groups_are_read_back_over_both_halves() {
    for n in 0..60u8 {
        let host = MemoryHost::new();
        let mut w = wal(&host);
        (0..n).for_each(|i| append(&mut w, &[i; 64]));
        let seen = read(&host).expect("read");
        // The two newest halves at least.
        assert!(seen.len() >= (n as usize).min(12), "{n}: {seen:?}");
        assert_eq!(seen, (n - seen.len() as u8..n).collect::<Vec<_>>());
    }
}

#[test]
fn a_torn_last_group_ends_the_log_and_a_hole_is_damage() {
    let host = MemoryHost::new();
    let mut w = wal(&host);
    (0..5).for_each(|i| append(&mut w, &[i; 64]));
    let frame = 80;
    host.tamper(WAL, |b| b[64 + 4 * frame + 20] ^= 1);
    assert_eq!(read(&host).expect("read"), [0, 1, 2, 3]);
    host.tamper(WAL, |b| b[64 + 2 * frame + 20] ^= 1);
    assert!(matches!(read(&host), Err(ImageError::Damaged { file: WAL, .. })));
}

#[test]
fn a_file_cut_short_is_damage() {
    let host = MemoryHost::new();
    let _ = wal(&host);
    host.tamper(WAL, |b| b.truncate(100));
    assert!(matches!(read(&host), Err(ImageError::Damaged { .. })));
}
