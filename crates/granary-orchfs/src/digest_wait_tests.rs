//! A call waits for a part of a journal, however long the journal is.

use super::*;
use crate::record::LARGEST_GROUP;
use crate::{MkfsOptions, MountOptions};
use granary_fs::Cred;
use granary_suite::suite::{drive, halves, on_pair, port, run};
use granary_units::Bytes;
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// With rings of 16 MiB, of which nobody ever waits for more than two.
fn mounted() -> (Arc<OrchFs>, Arc<Vfs>) {
    let drive = drive(Bytes::mib(192));
    let (nvm, ssd) = halves(&port(&drive));
    let options = MkfsOptions { journals: 2, journal: Some(Bytes::mib(16)), ..MkfsOptions::default() };
    crate::mkfs(&nvm, &ssd, &options).expect("mkfs");
    let options = MountOptions { migrate: false, ..MountOptions::default() };
    let fs = crate::mount(nvm, ssd, &options).expect("mount");
    let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("vfs");
    (fs, vfs)
}

/// Appends about so many bytes of records, of one file.
fn records(fs: &OrchFs, p: &mut Process, name: &str, bytes: u64) {
    let fd = p.open(name, OpenFlags::CREAT | OpenFlags::WRONLY, 0o644).expect("create");
    p.close(fd).expect("close");
    let journal = &fs.journals[fs.journal_of(p.caller().process)];
    let end = journal.tail() + bytes;
    let mut mode = 0;
    while journal.tail() < end {
        mode = (mode + 1) % 0o777;
        p.chmod(name, mode).expect("chmod");
    }
}

/// No daemon digests any more.
fn without_daemon(fs: &OrchFs) {
    let daemons = std::mem::take(&mut *fs.daemons.lock());
    daemons.into_iter().for_each(granary_sim::Daemon::stop);
}

/// A program has written for long. Another one removes its last file, and changes its last directory: for
/// both the first one's records have to be home.
#[test]
fn a_lease_that_moves_waits_for_two_segments_at_most() {
    on_pair(|| {
        run(|| {
            let (fs, vfs) = mounted();
            let mut first = Process::new(vfs.clone(), Cred::ROOT);
            let mut second = Process::new(vfs, Cred::ROOT);
            for (i, bytes) in [3 * MIB, 5 * MIB + MIB / 2, 7 * MIB].into_iter().enumerate() {
                records(&fs, &mut first, &format!("/f{i}"), bytes);
                first.mkdir(format!("/d{i}"), 0o755).expect("mkdir");
                second.unlink(format!("/f{i}")).expect("unlink");
                second.rename(format!("/d{i}"), format!("/e{i}")).expect("rename");
            }
            let most = fs.longest_digest_wait();
            assert!(most > 0 && most <= 2 * MIB + LARGEST_GROUP as u64, "a call waited for {most} bytes");
            assert_eq!(fs.refused_groups(), 0);
        });
    });
}

/// Nobody else digests: the program that fills its journal does, and goes on.
#[test]
fn a_full_journal_is_digested_piece_by_piece_by_who_appends() {
    on_pair(|| {
        run(|| {
            let (fs, vfs) = mounted();
            let mut p = Process::new(vfs, Cred::ROOT);
            let journal = &fs.journals[fs.journal_of(p.caller().process)];
            without_daemon(&fs);
            let mut waiting = 0;
            for i in 0..10 {
                records(&fs, &mut p, &format!("/f{i}"), MIB / 2);
                waiting = journal.used().max(waiting);
            }
            assert!(waiting > MIB && waiting <= 2 * MIB, "{waiting} bytes wait");
            let most = fs.longest_digest_wait();
            assert!(most > 0 && most <= MIB / 4, "a call waited for {most} bytes");
        });
    });
}
