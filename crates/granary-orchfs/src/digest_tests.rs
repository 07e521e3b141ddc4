//! Journals of hostile libraries: the kernel's part refuses them, nothing panics, and files are what was
//! digested before.

use super::*;
use crate::record::Group;
use crate::{MkfsOptions, MountOptions};
use granary_fs::{Call, Cred, FsError, Life};
use granary_sim::rng::Stream;
use granary_suite::suite::{drive, halves, look_around, on_pair, port, run};
use granary_units::{Bytes, Dest, Payload};
use granary_vfs::{OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const AREAS: [Area; 5] = [Area::Inode, Area::Index, Area::Append, Area::Over, Area::Page];

/// A record of somebody who knows the format and means harm, or of nobody who knows anything.
fn hostile(random: &mut Stream, layout: &crate::layout::Layout) -> Record {
    let area = AREAS[random.below(5) as usize];
    let number = match random.below(3) {
        0 => random.below(20),
        1 => random.below(2 * layout.count(area)),
        _ => random.below(1 << 41),
    };
    let starts = [0, inode::ROOT, inode::STAMPS.0, 64, 72, 128, 192, 8 * random.below(512) as usize];
    let at = starts[random.below(8) as usize];
    let len = [8, 40, 64, 128, 8 + 8 * random.below(60) as usize][random.below(5) as usize];
    let mut bytes: Vec<u8> =
        match random.below(3) {
            0 => vec![0; len],
            1 => (0..len).map(|_| random.below(256) as u8).collect(),
            _ => (0..len)
                .map(|i| {
                    if i % 8 == 7 {
                        random.below(7) as u8
                    } else {
                        (random.below(3) * random.below(40)) as u8
                    }
                })
                .collect(),
        };
    if area == Area::Inode && at == 0 {
        bytes[..8].copy_from_slice(&number.to_le_bytes());
    }
    Record { area, number, at, bytes }
}

fn mounted(port: &granary_device::Port, migrate: bool) -> Arc<OrchFs> {
    let (nvm, ssd) = halves(port);
    let options = MountOptions { migrate, ..MountOptions::default() };
    crate::mount(nvm, ssd, &options).expect("mount")
}

/// A new one of 12 MiB, which does not migrate.
fn fresh(options: &MkfsOptions) -> (Arc<OrchFs>, Arc<Vfs>) {
    let drive = drive(Bytes::mib(12));
    let (nvm, ssd) = halves(&port(&drive));
    crate::mkfs(&nvm, &ssd, options).expect("mkfs");
    let fs = mounted(&port(&drive), false);
    let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("vfs");
    (fs, vfs)
}

/// Records that are tried: two thousand, or `GRANARY_HOSTILE`.
fn hostile_records() -> u64 {
    std::env::var("GRANARY_HOSTILE").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

/// Four files of three units each, digested.
fn files(fs: &OrchFs, p: &mut Process) {
    for i in 0..4u64 {
        let fd = p.open(format!("/f{i}"), OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
        p.pwrite(fd, Payload::Fill { word: i, len: 50_000 }, 7).expect("write");
        p.pwrite(fd, Payload::Fill { word: i, len: 99 }, 4_000).expect("write");
        p.close(fd).expect("close");
    }
    fs.digest_all().expect("digests");
}

/// A library that has leases on everything writes whatever it likes into its journal. Nothing panics. As long
/// as all of it was refused, files and names are what they were digested as, after a mount too. Some records
/// change what their library may change: then whatever comes of it is errors at most.
#[test]
fn hostile_records_never_panic_and_what_is_refused_changes_nothing() {
    let (mut tried, mut refused, mut seed) = (0, 0, 0u64);
    while tried < hostile_records() {
        seed += 1;
        let (t, r) = on_pair(|| run(move || hostile_library(seed)));
        (tried, refused) = (tried + t, refused + r);
    }
    println!("{refused} of {tried} hostile records were in groups that were refused");
    assert!(refused * 10 > tried * 5 && refused < tried, "{refused} of {tried}");
}

/// One life of a file system with such a library: records tried, and those refused.
fn hostile_library(seed: u64) -> (u64, u64) {
    let drive = drive(Bytes::mib(12));
    let (nvm, ssd) = halves(&port(&drive));
    crate::mkfs(&nvm, &ssd, &MkfsOptions::default()).expect("mkfs");
    let fs = mounted(&port(&drive), false);
    let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("vfs");
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    files(&fs, &mut p);
    let process = p.caller().process;
    let own = fs.journal_of(process);
    let mut random = Stream::new(seed, "hostile");
    let (mut tried, mut refused, mut sound) = (0, 0, true);
    while sound && tried < 400 {
        let records: Vec<Record> =
            (0..1 + random.below(3)).map(|_| hostile(&mut random, &fs.layout)).collect();
        let n = records.len() as u64;
        let group = Group { process, epoch: fs.leases.lock().epoch(), records };
        fs.journals[own].append(&fs.pm, &group, &[], &[], fs.pools.clock()).expect("the NVM takes it");
        tried += n;
        if random.chance(0.1) {
            // The power fails before it is digested.
            let again = crate::mount(nvm.clone(), ssd.clone(), &MountOptions::default());
            match again {
                Ok(again) if again.recovery().records == 0 => {
                    refused += n;
                    assert_eq!(again.check(&Call::offline()).expect("check"), [""; 0], "seed {seed}");
                    are_as_digested(&Vfs::mount(again, VfsConfig::default()).expect("vfs"), seed);
                }
                Ok(again) => look_around(&Vfs::mount(again, VfsConfig::default()).expect("vfs")),
                Err(e) => assert!(matches!(e, FsError::Corrupt(_)), "seed {seed}: {e}"),
            }
            return (tried, refused);
        }
        let before = fs.refused_groups();
        fs.digest(own).expect("no drive failed");
        assert_eq!(fs.journals[own].head(), fs.journals[own].tail());
        sound = fs.refused_groups() > before;
        refused += if sound { n } else { 0 };
    }
    look_around(&vfs);
    drop((p, vfs, fs));
    match crate::mount(nvm, ssd, &MountOptions::default()) {
        Ok(again) if sound => {
            assert_eq!(again.check(&Call::offline()).expect("check"), [""; 0], "seed {seed}");
            are_as_digested(&Vfs::mount(again, VfsConfig::default()).expect("vfs"), seed);
        }
        Ok(again) => {
            let _ = again.check(&Call::offline());
            look_around(&Vfs::mount(again, VfsConfig::default()).expect("vfs"));
        }
        Err(e) => assert!(!sound && matches!(e, FsError::Corrupt(_)), "seed {seed}: {e}"),
    }
    (tried, refused)
}

fn are_as_digested(vfs: &Arc<Vfs>, seed: u64) {
    let mut p = Process::new(vfs.clone(), Cred::ROOT);
    for i in 0..4u64 {
        let fd = p.open(format!("/f{i}"), OpenFlags::RDONLY, 0).expect("open");
        let mut buffer = [0; 8];
        p.pread(fd, Dest::Bytes(&mut buffer), 40_000).expect("read");
        assert_eq!(
            (u64::from_le_bytes(buffer), p.fstat(fd).expect("stat").attr.size),
            (i, 50_007),
            "seed {seed}"
        );
    }
}

/// A process whose journal is refused gets errors for the files that were in it; when they have left memory
/// they are what was digested before.
#[test]
fn the_holder_of_a_refused_journal_gets_errors_and_the_file_goes_back() {
    on_pair(|| {
        run(|| {
            let drive = drive(Bytes::mib(12));
            let (nvm, ssd) = halves(&port(&drive));
            crate::mkfs(&nvm, &ssd, &MkfsOptions::default()).expect("mkfs");
            let fs = mounted(&port(&drive), false);
            let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("vfs");
            let mut p = Process::new(vfs.clone(), Cred::ROOT);
            let fd = p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
            p.pwrite(fd, Payload::Fill { word: 1, len: 100 }, 0).expect("write");
            fs.digest_all().expect("digests");
            let ino = p.fstat(fd).expect("stat").ino.0;
            // In the inode's journal, whichever that is, the next group is hostile, and a sound one follows.
            p.pwrite(fd, Payload::Fill { word: 2, len: 5_000 }, 100).expect("write");
            let own =
                fs.journals.iter().position(|journal| journal.pending_end(ino).is_some()).expect("in one");
            fs.digest(own).expect("digests");
            let bytes = u64::MAX.to_le_bytes().to_vec();
            let record = Record { area: Area::Inode, number: ino, at: inode::ROOT, bytes };
            // In the holder's own name.
            let group =
                Group { process: p.caller().process, epoch: fs.leases.lock().epoch(), records: vec![record] };
            fs.journals[own].append(&fs.pm, &group, &[ino], &[], fs.pools.clock()).expect("the NVM takes it");
            p.pwrite(fd, Payload::Fill { word: 3, len: 5_000 }, 9_000).expect("it is not known yet");
            fs.digest(own).expect("no drive failed");
            let refused = p.pwrite(fd, Payload::Fill { word: 4, len: 10 }, 0).expect_err("it is revoked");
            let said = refused.to_string();
            assert_eq!(refused.errno(), 5, "{said}");
            assert!(said.contains(&format!("inode {ino} (f): the journal of process")), "{said}");
            p.close(fd).expect("close");
            vfs.drop_caches();
            drop(p);
            drop(vfs);
            drop(fs);
            let fs = mounted(&port(&drive), false);
            assert_eq!(fs.check(&Call::offline()).expect("check"), [""; 0]);
            let mut p = Process::new(Vfs::mount(fs, VfsConfig::default()).expect("vfs"), Cred::ROOT);
            assert_eq!(p.stat("/f").expect("stat").attr.size, 5_100);
        });
    });
}

/// Two processes in turns: each change takes the lease from the other, whose journal is digested first, and a
/// file is in one journal.
#[test]
fn a_lease_moves_with_what_its_holder_wrote() {
    on_pair(|| {
        run(|| {
            let (fs, vfs) = fresh(&MkfsOptions::default());
            let mut all = [Process::new(vfs.clone(), Cred::ROOT), Process::new(vfs.clone(), Cred::ROOT)];
            let fds = all
                .each_mut()
                .map(|p| p.open("/f", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("open"));
            let ino = all[0].fstat(fds[0]).expect("stat").ino.0;
            let mut epoch = 0;
            for turn in 0..6usize {
                let (p, fd) = (&mut all[turn % 2], fds[turn % 2]);
                let before = granary_sim::now();
                p.pwrite(fd, Payload::Fill { word: 1, len: 100 }, turn as u64 * 100).expect("write");
                assert!(turn == 0 || granary_sim::now().saturating_sub(before) >= fs.options.ipc);
                let holder = p.caller().process;
                let leases = fs.leases.lock();
                assert!(leases.has(holder, ino) == Has::Lease && leases.epoch() > epoch);
                epoch = leases.epoch();
                drop(leases);
                let own = fs.journal_of(holder);
                let pending: Vec<usize> =
                    (0..fs.journals.len()).filter(|i| fs.journals[*i].pending_end(ino).is_some()).collect();
                assert_eq!(pending, [own]);
            }
            // The holder dies: what it wrote is there, and nobody has its leases.
            let holder = all[1].caller().process;
            fs.process_ended(holder).expect("digests");
            assert_eq!(fs.leases.lock().has(holder, ino), Has::Nothing);
            assert!(!fs.journals.iter().any(|journal| journal.pending_end(ino).is_some()));
            assert_eq!(fs.refused_groups(), 0);
        });
    });
}

/// Every rule of the verifier: a library that breaks only that rule is refused, and the message says why.
#[test]
fn rights_links_leases_and_numbers_are_judged() {
    on_pair(|| {
        run(|| {
            let (fs, vfs) = fresh(&MkfsOptions { root_mode: Some(0o777), ..MkfsOptions::default() });
            let mut root = Process::new(vfs.clone(), Cred::ROOT);
            files(&fs, &mut root);
            let mut p = Process::new(vfs.clone(), Cred { uid: 1000, gid: 1000, groups: Vec::new() });
            let fd = p.open("/own", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
            let ino = p.fstat(fd).expect("stat").ino.0;
            let others = root.stat("/f0").expect("stat").ino.0;
            fs.digest_all().expect("digests");
            let process = p.caller().process;
            let head = |ino: u64| {
                let mut b = vec![0; inode::HEAD];
                fs.pm.load(fs.layout.at(Area::Inode, ino), &mut b, Structure::Inode).expect("loads");
                b
            };
            let changed = |ino: u64, at: usize, bytes: &[u8]| {
                let mut b = head(ino);
                b[at..at + bytes.len()].copy_from_slice(bytes);
                Record { area: Area::Inode, number: ino, at: 0, bytes: b }
            };
            let judge_one = |record: Record, process: u32, epoch: Option<u64>| {
                let leases = fs.leases.lock();
                let known = Known { leases: &leases, pools: &fs.pools };
                let end = fs.checkpoint.lock().inodes_end;
                let mut images = Images::new(&fs.pm, &fs.layout, end);
                let group = Group { process, epoch: epoch.unwrap_or(leases.epoch()), records: vec![record] };
                judge(&mut images, &group, Some(&known)).map_err(|e| e.to_string())
            };
            let mode = changed(ino, 18, &0o600u16.to_le_bytes());
            assert_eq!(judge_one(mode.clone(), process, None), Ok(()), "an owner may");
            let free = fs.layout.count(Area::Page) - 1;
            let word = crate::unit::Word::Append(fs.layout.count(Area::Append) - 1).encode();
            // A page that somebody else has taken, whose journal still has its file.
            let mut q = Process::new(vfs.clone(), Cred { uid: 1001, gid: 1001, groups: Vec::new() });
            let fd = q.open("/new", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
            q.pwrite(fd, Payload::Fill { word: 1, len: 100 }, 0).expect("write");
            let new = q.fstat(fd).expect("stat").ino.0;
            let node = fs.nodes.lock().get(&new).and_then(std::sync::Weak::upgrade).expect("in memory");
            let fresh = node.state.read().tree.get(0).nvm_pages().next().expect("a page");
            let why_fresh = format!("which was granted to process {}", q.caller().process);
            let theirs =
                u64::from_le_bytes(head(others)[inode::ROOT..inode::ROOT + 8].try_into().expect("8"));
            for (record, process, epoch, why) in [
                (changed(ino, 24, &0u32.to_le_bytes()), process, None, "its owner may not be changed"),
                (changed(ino, 20, &2u32.to_le_bytes()), process, None, "0 names more and 1 links"),
                (changed(ino, inode::KIND, &[2]), process, None, "another kind"),
                (changed(ino, inode::ROOT, &word.to_le_bytes()), process, None, "given to nobody"),
                (changed(ino, inode::ROOT, &theirs.to_le_bytes()), process, None, "of another"),
                (changed(ino, inode::ATTRIBUTES, &free.to_le_bytes()), process, None, "given to nobody"),
                (changed(ino, inode::ATTRIBUTES, &fresh.to_le_bytes()), process, None, &why_fresh),
                (changed(others, 18, &0o777u16.to_le_bytes()), process, None, "has the lease"),
                (mode.clone(), process + 90, None, "has the lease"),
                (mode, process, Some(0), "later than 0"),
            ] {
                let said = judge_one(record, process, epoch).expect_err(why);
                assert!(said.contains(why), "{said}");
            }
            // At home, it is a number as any other.
            fs.digest_all().expect("digests");
            assert_eq!(fs.pools.fresh_of_other(Area::Page, process, fresh), None);
        });
    });
}

/// Processes take from grants of their own. Others find the numbers that an ended process has not used. A
/// full NVM is used to the last page.
#[test]
fn grants_are_apart_and_come_back() {
    on_pair(|| {
        run(|| {
            let (fs, vfs) = fresh(&MkfsOptions::default());
            let mut all: Vec<Process> = (0..3).map(|_| Process::new(vfs.clone(), Cred::ROOT)).collect();
            for (i, p) in all.iter_mut().enumerate() {
                let fd = p.open(format!("/{i}"), OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
                p.pwrite(fd, Payload::Fill { word: 1, len: 100 }, 0).expect("write");
            }
            let whose = |ino: u64| {
                let node = fs.nodes.lock().get(&ino).and_then(std::sync::Weak::upgrade).expect("in memory");
                let page = node.state.read().tree.get(0).nvm_pages().next().expect("a page");
                fs.pools.grant_of(Area::Page, page)
            };
            for (i, p) in all.iter_mut().enumerate() {
                let ino = p.stat(format!("/{i}")).expect("stat").ino.0;
                assert_eq!(whose(ino), Some(p.caller().process));
            }
            fs.process_ended(all[0].caller().process).expect("digests");
            let ended = all[0].caller().process;
            assert!(Area::ALL.iter().all(|area| !fs.pools.holders(*area).contains(&ended)));
            // One process fills everything: what others were granted is taken back.
            let p = &mut all[1];
            let fd = p.open("/full", OpenFlags::CREAT | OpenFlags::RDWR, 0o644).expect("create");
            let mut pos = 0;
            while p.pwrite(fd, Payload::Fill { word: 2, len: 4096 }, pos).is_ok() {
                pos += 4096;
            }
            let free = fs.pools.free(Area::Page);
            assert!(free == 0 || fs.pools.free(Area::Block) == 0, "{free} pages are left");
            assert_eq!(fs.refused_groups(), 0);
        });
    });
}
