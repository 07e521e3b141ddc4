//! Journals of hostile libraries: the kernel's part refuses them, nothing panics, and files are what was digested before.

use super::*;
use crate::record::Group;
use crate::{MkfsOptions, MountOptions};
use granary_sim::rng::Stream;
use granary_suite::suite::{drive, halves, look_around, on_pair, port, run};
use granary_units::{Bytes, Dest, Payload};
use granary_vfs::{Call, Cred, Life, OpenFlags, Posix, Process, Vfs, VfsConfig};
use std::sync::Arc;

const AREAS: [Area; 5] = [Area::Inode, Area::Index, Area::Append, Area::Over, Area::Page];

/// A record of somebody who knows the format and means harm, or of nobody who knows anything.
fn hostile(random: &mut Stream, layout: &Layout) -> Record {
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

#[test]
fn hostile_records_never_panic_and_what_is_refused_changes_nothing() {
    on_pair(|| {
        let mut refused = 0;
        for seed in 0..60u64 {
            refused += u32::from(run(move || {
                let drive = drive(Bytes::mib(12));
                let (nvm, ssd) = halves(&port(&drive));
                crate::mkfs(&nvm, &ssd, &MkfsOptions::default()).expect("mkfs");
                let fs = mounted(&port(&drive), false);
                let vfs = Vfs::mount(fs.clone(), VfsConfig::default()).expect("vfs");
                let mut p = Process::new(vfs.clone(), Cred::ROOT);
                for i in 0..4u64 {
                    let flags = OpenFlags::CREAT | OpenFlags::RDWR;
                    let fd = p.open(format!("/f{i}"), flags, 0o644).expect("create");
                    p.pwrite(fd, Payload::Fill { word: i, len: 50_000 }, 7).expect("write");
                    p.pwrite(fd, Payload::Fill { word: i, len: 99 }, 4_000).expect("write");
                    p.close(fd).expect("close");
                }
                fs.digest_all().expect("digests");
                let mut random = Stream::new(seed, "hostile");
                let records: Vec<Record> =
                    (0..1 + random.below(3)).map(|_| hostile(&mut random, &fs.layout)).collect();
                let group = Group { process: 7, records };
                let is_refused = group.verify(&fs.layout).is_err();
                let journal = &fs.journals[1];
                journal.append(&fs.pm, &group, &[], &[]).expect("the NVM takes it");
                // The power fails before it is digested, or the kernel's part meets it now.
                if seed % 2 == 0 {
                    fs.digest(1).expect("no drive failed");
                    assert_eq!(journal.head(), journal.tail());
                }
                if is_refused {
                    let again = mounted(&port(&drive), false);
                    assert_eq!(again.check(&Call::offline()).expect("check"), [""; 0]);
                    let vfs = Vfs::mount(again, VfsConfig::default()).expect("vfs");
                    let mut p = Process::new(vfs, Cred::ROOT);
                    for i in 0..4u64 {
                        let fd = p.open(format!("/f{i}"), OpenFlags::RDONLY, 0).expect("open");
                        let mut buffer = [0; 8];
                        p.pread(fd, Dest::Bytes(&mut buffer), 40_000).expect("read");
                        assert_eq!(u64::from_le_bytes(buffer), i);
                    }
                    return true;
                }
                look_around(&vfs);
                let (nvm, ssd) = halves(&port(&drive));
                if let Ok(fs) = crate::mount(nvm, ssd, &MountOptions::default()) {
                    let _ = fs.check(&Call::offline());
                    look_around(&Vfs::mount(fs, VfsConfig::default()).expect("vfs"));
                }
                false
            }));
        }
        assert!((20..60).contains(&refused), "{refused} of 60 were refused");
    });
}

/// A process whose journal is refused gets errors for the files that were in it; when they have left memory they are what was
/// digested before.
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
            // Whatever journal is its: the next group there is a hostile one, and a sound one follows.
            p.pwrite(fd, Payload::Fill { word: 2, len: 5_000 }, 100).expect("write");
            let own = fs.journals.iter().position(|journal| journal.has_pending(ino)).expect("in one");
            fs.digest(own).expect("digests");
            let bytes = u64::MAX.to_le_bytes().to_vec();
            let record = Record { area: Area::Inode, number: ino, at: inode::ROOT, bytes };
            let group = Group { process: 9, records: vec![record] };
            fs.journals[own].append(&fs.pm, &group, &[ino], &[]).expect("the NVM takes it");
            p.pwrite(fd, Payload::Fill { word: 3, len: 5_000 }, 9_000).expect("it is not known yet");
            fs.digest(own).expect("no drive failed");
            assert!(matches!(
                p.pwrite(fd, Payload::Fill { word: 4, len: 10 }, 0),
                Err(granary_vfs::FsError::Corrupt(_))
            ));
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
