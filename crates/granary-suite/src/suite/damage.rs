//! Media that somebody scribbled over: refused, reported or read as errors, never a panic.

use super::{Mounted, Subject, create, drive, fill, port, run};
use crate::model::snapshot;
use granary_device::{Port, Structure};
use granary_fs::{Call, Cred, FileKind, Life};
use granary_sim::rng::Stream;
use granary_units::{Bytes, Dest, Lpa, PAGE_SIZE, Page, TxId};
use granary_vfs::Process;
use granary_vfs::{OpenFlags, Posix, Whence};
use granary_vfs::{Vfs, VfsConfig};
use std::sync::Arc;

const FILES: u64 = 200;

/// A page as the drive has it, by blocks where it knows them.
fn read(port: &Port, lpa: Lpa) -> Page {
    let mut page = [Page::ZERO];
    if port.info().blocks {
        port.read(lpa, &mut page, Structure::Data).expect("read");
    } else {
        port.load(lpa.byte(), page[0].bytes_mut(), Structure::Data).expect("loads");
    }
    let [page] = page;
    page
}

/// The drive has this page.
fn write(port: &Port, lpa: Lpa, page: Page) {
    if port.info().blocks {
        port.write(lpa, &[page], Structure::Data).expect("write");
    } else {
        port.store(lpa.byte(), &page.to_bytes(), TxId::NONE, Structure::Data).expect("stores");
        port.flush_lines([(lpa.byte(), PAGE_SIZE)].into_iter()).expect("flushes");
        port.verify().expect("fences");
    }
}

/// Changes some bytes among the first `reach` of a page.
fn scribble(port: &Port, random: &mut Stream, lpa: Lpa, reach: u64) {
    let mut page = read(port, lpa);
    for _ in 0..1 + random.below(8) {
        let byte = [0, 1, 0xff, random.below(256) as u8][random.below(4) as usize];
        page.bytes_mut()[random.below(reach) as usize] = byte;
    }
    write(port, lpa, page);
}

/// Everything that reads, and some calls that change; says whether anything was noticed.
fn look_at<S: Subject>(subject: &S, port: Port) -> bool {
    let Ok(fs) = subject.mount(port) else { return true };
    let mut failed = fs.check(&Call::offline()).map_or(true, |bad| !bad.is_empty());
    let Ok(vfs) = Vfs::mount(fs.clone(), VfsConfig::default()) else { return true };
    let mut p = Process::new(vfs, Cred::ROOT);
    failed |= snapshot(&mut p).is_err();
    for i in 0..FILES {
        failed |= p.unlink(format!("/d/some.name.of.some.length.{i}")).is_err();
        failed |= p.mkdir(format!("/d/n{i}"), 0o755).is_err();
    }
    failed |= p.sync().is_err();
    failed | fs.check(&Call::offline()).map_or(true, |bad| !bad.is_empty())
}

fn populated<S: Subject>(subject: &S, size: Bytes) -> (Mounted<S>, Port) {
    let drive = drive(size);
    let m = Mounted::fresh(subject, &drive);
    let mut p = m.process();
    p.mkdir("/d", 0o755).expect("mkdir");
    for i in 0..FILES {
        let fd = create(&mut p, &format!("/d/some.name.of.some.length.{i}"));
        p.pwrite(fd, fill(i, 30 * i as usize + 1), i * 20).expect("write");
        p.close(fd).expect("close");
        p.symlink(format!("/d/f{i}"), format!("/d/l{i}")).expect("symlink");
    }
    p.exit();
    (m, port(&drive))
}

/// Four of the first `blocks` blocks, where metadata lie, were scribbled over.
pub fn scribbled_images_are_refused_or_reported<S: Subject>(subject: &S, blocks: u64) {
    for seed in 0..40u64 {
        let subject = subject.clone();
        run(move || {
            let (m, port) = populated(&subject, Bytes::mib(64));
            m.unmount();
            let mut random = Stream::new(seed, "scribble");
            for _ in 0..4 {
                let lpa = Lpa(random.below(blocks));
                scribble(&port, &mut random, lpa, 4096);
            }
            look_at(&subject, port);
        });
    }
}

/// Blocks in use were scribbled over, among the first `reach` bytes of each; much of that is noticed.
pub fn damaged_media_give_errors<S: Subject>(subject: &S, reach: u64) {
    let mut errors = 0;
    for seed in 0..60 {
        let subject = subject.clone();
        errors += u32::from(run(move || {
            let (m, port) = populated(&subject, Bytes::mib(24));
            if seed % 2 == 0 {
                m.unmount();
            } else {
                drop(m);
            }
            let mut random = Stream::new(seed, "damage");
            let is_used = |lpa: &u64| !read(&port, Lpa(*lpa)).is_zero();
            let used: Vec<u64> = (0..port.info().pages).filter(is_used).collect();
            for _ in 0..1 + random.below(6) {
                let lpa = Lpa(used[random.below(used.len() as u64) as usize]);
                scribble(&port, &mut random, lpa, reach);
            }
            look_at(&subject, port)
        }));
    }
    assert!(errors > 10, "only {errors} of 60 were noticed");
}

/// Looks at everything; errors are welcome, panics are not.
pub fn look_around(vfs: &Arc<Vfs>) {
    walk(&mut Process::new(vfs.clone(), Cred::ROOT), 50);
}

/// Looks at `most` names at most, and at what they lead to.
pub fn walk(p: &mut Process, most: usize) {
    let mut todo = vec!["".to_owned()];
    for _ in 0..most {
        let Some(path) = todo.pop() else { break };
        let here = if path.is_empty() { "/" } else { &path };
        let Ok(stat) = p.lstat(here) else { continue };
        let _ = p.listxattr(here).map(|names| names.iter().for_each(|n| drop(p.getxattr(here, n))));
        match stat.attr.kind {
            FileKind::Dir => {
                for e in p.list(here).unwrap_or_default() {
                    if e.name != b"." && e.name != b".." {
                        todo.push(format!("{path}/{}", String::from_utf8_lossy(&e.name)));
                    }
                }
            }
            FileKind::Symlink => drop(p.readlink(here)),
            FileKind::File => {
                if let Ok(fd) = p.open(here, OpenFlags::RDONLY | OpenFlags::NOATIME, 0) {
                    let mut buffer = vec![0; 8192];
                    let size = stat.attr.size;
                    for pos in [0, 4096, 16_384, size / 2, size.saturating_sub(100)] {
                        let _ = p.pread(fd, Dest::Bytes(&mut buffer), pos);
                    }
                    let _ = (p.lseek(fd, 0, Whence::Hole), p.lseek(fd, 1, Whence::Data));
                    let _ = p.close(fd);
                }
            }
            _ => {}
        }
    }
}
