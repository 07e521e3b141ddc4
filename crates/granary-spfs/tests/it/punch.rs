//! fallocate and large overwrites of tiered files: bytes are punched, reserved and replaced where they are,
//! and the file stays tiered.

use crate::common::{Rig, Stack};
use granary_fs::Allocate;
use granary_sim::rng::Stream;
use granary_spfs::exthash::Form;
use granary_spfs::{Consistency, MkfsOptions, MountOptions};
use granary_suite::suite::run;
use granary_units::{Bytes, Payload};
use granary_vfs::{Fd, OpenFlags, Posix, Whence};

/// No demotion unless a test makes one; segments so small that splits run into overflow pages.
fn calm(form: Form) -> Stack {
    let mount = MountOptions { promote_after: 2, demotion: false, piece: 2, ..MountOptions::default() };
    Stack::new(MkfsOptions { segment: 1, form }, mount)
}

/// Expected content of the file.
struct Model(Vec<u8>);

impl Model {
    fn put(&mut self, rig: &mut Rig, fd: Fd, pos: u64, word: u64, len: usize) {
        rig.put(fd, pos, word, len);
        let end = pos as usize + len;
        self.0.resize(self.0.len().max(end), 0);
        Payload::Fill { word, len }.copy_to(pos, &mut self.0[pos as usize..end]);
    }

    fn allocate(&mut self, rig: &mut Rig, fd: Fd, how: Allocate, pos: u64, len: u64) {
        rig.p.fallocate(fd, how, pos, len).unwrap_or_else(|e| panic!("{how:?} {pos}+{len}: {e}"));
        let (from, to) = ((pos as usize).min(self.0.len()), ((pos + len) as usize).min(self.0.len()));
        if how.zeroes() {
            self.0[from..to].fill(0);
        }
        if how.grows() {
            self.0.resize(self.0.len().max((pos + len) as usize), 0);
        }
    }

    fn check(&self, rig: &mut Rig, fd: Fd, when: &str) {
        let found = rig.content(fd);
        assert_eq!(found.len(), self.0.len(), "{when}");
        let wrong = found.iter().zip(&self.0).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{when}: {} bytes", self.0.len());
    }
}

/// Random writes, punches, zeroing and reserving on a file of which persistent memory has one part, the lower
/// file another and nobody a third; across remounts and a demotion. The file stays tiered all the time.
#[test]
fn a_tiered_file_is_punched_and_reserved_piece_by_piece() {
    run(|| {
        for (seed, form) in [(1, Form::Carved), (2, Form::Pointers), (3, Form::Carved)] {
            let mut rig = Rig::new(&calm(form), Bytes::mib(24));
            let mut fd = rig.tiered("/f", 600_000);
            let (mut model, mut rng) = (Model(rig.content(fd)), Stream::new(seed, "punches"));
            for step in 0..400u64 {
                let (pos, len) = (rng.below(900_000), 1 + rng.below(120_000));
                let (pos, len) = match rng.chance(0.3) {
                    // Whole clusters.
                    true => (pos / 4096 * 4096, len.next_multiple_of(4096)),
                    false => (pos, len),
                };
                let keep_size = rng.chance(0.5);
                match rng.below(8) {
                    0 | 1 => model.allocate(&mut rig, fd, Allocate::PunchHole, pos, len),
                    2 => model.allocate(&mut rig, fd, Allocate::ZeroRange { keep_size }, pos, len),
                    3 => model.allocate(&mut rig, fd, Allocate::Reserve { keep_size }, pos, len),
                    4 => {
                        rig.p.ftruncate(fd, pos).expect("cut");
                        model.0.resize(pos as usize, 0);
                    }
                    5 => model.put(&mut rig, fd, pos, step << 8 | 1, 1 + len as usize % 3000),
                    _ => model.put(&mut rig, fd, pos, step << 8 | 1, len as usize),
                }
                assert_eq!(rig.fs.stats().tiered, 1, "step {step} of seed {seed} has demoted");
                if step % 10 == 9 {
                    model.check(&mut rig, fd, &format!("step {step} of seed {seed}"));
                }
                if step % 100 == 99 {
                    rig.check();
                    rig.p.close(fd).expect("close");
                    rig = rig.remounted();
                    fd = rig.p.open("/f", OpenFlags::RDWR, 0).expect("there");
                    model.check(&mut rig, fd, "after a remount");
                }
            }
            assert_eq!(rig.fs.stats().spilled, 0);
            rig.fs.demote_all().expect("demoted");
            model.check(&mut rig, fd, "after the demotion");
            rig.check();
        }
    });
}

/// Seeking sees what was punched as a hole, wherever the bytes were; and gives space back.
#[test]
fn what_was_punched_is_a_hole_and_its_clusters_are_free() {
    run(|| {
        let mut rig = Rig::new(&calm(Form::Carved), Bytes::mib(24));
        let fd = rig.tiered("/f", 4096);
        rig.put(fd, 0, 7, 4 << 20);
        let before = rig.fs.stats().used_percent;
        rig.p.fallocate(fd, Allocate::PunchHole, 8192, (4 << 20) - 8192 - 4096).expect("punched");
        assert_eq!(rig.p.lseek(fd, 0, Whence::Hole), Ok(8192));
        assert_eq!(rig.p.lseek(fd, 8192, Whence::Data), Ok((4 << 20) - 4096));
        let after = rig.fs.stats().used_percent;
        assert!(before >= after + 10, "{before} % were used, {after} % are");
        rig.check();
    });
}

/// An overwrite of 64 clusters and more within a longer extent makes extents of its own, each replaced by one
/// store; the bytes around it stay where they are.
#[test]
fn a_large_overwrite_within_an_extent_is_copied_on_write() {
    run(|| {
        for form in [Form::Carved, Form::Pointers] {
            for consistency in [Consistency::Data, Consistency::Meta] {
                let mut stack = calm(form);
                stack.mkfs.segment = 16;
                stack.mount.consistency = consistency;
                let mut rig = Rig::new(&stack, Bytes::mib(48));
                let fd = rig.tiered("/f", 100);
                let mut model = Model(rig.content(fd));
                model.put(&mut rig, fd, 0, 3, 4 << 20);
                for (n, (pos, len)) in
                    [(1 << 20, 300_000), ((1 << 20) + 77, 290_001), (5, 1 << 20), (3_000_000, 1_000_000)]
                        .into_iter()
                        .enumerate()
                {
                    model.put(&mut rig, fd, pos, n as u64 + 9, len);
                    model.check(&mut rig, fd, "after an overwrite");
                    rig.check();
                }
                rig.p.close(fd).expect("close");
                let mut rig = rig.remounted();
                let fd = rig.p.open("/f", OpenFlags::RDWR, 0).expect("there");
                model.check(&mut rig, fd, "after a remount");
            }
        }
    });
}
