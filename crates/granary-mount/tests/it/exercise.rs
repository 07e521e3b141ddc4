//! Random calls on a few files of a mount, compared with a model ([`super::exerciser`]).
//!
//! They do *not* map files: a page fault holds the address space until the server has answered, and the
//! server is this process. Mappings are `cargo xtask soak --kind calls`'s and fsx's.

use super::exerciser::{Exercise, Mappings};
use super::rig::{self, Rig, each};
use granary_mount::Options;
use std::fs::File;
use std::os::unix::fs::FileExt;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// `GRANARY_OPS` calls for each of `GRANARY_SEEDS` seeds from 1 on.
#[test]
fn calls_of_every_kind_agree_with_bytes_in_memory() {
    each(|rig| {
        for seed in 1..=number("GRANARY_SEEDS", 1) {
            let mut exercise = Exercise::new(rig.root(), rig.fs, seed, None).expect("an empty directory");
            let done = exercise.run(number("GRANARY_OPS", 4000)).and_then(|()| exercise.compare_all());
            done.unwrap_or_else(|e| panic!("{}, seed {seed}: {e}", rig.fs));
            exercise.close();
            exercise.compare_all().unwrap_or_else(|e| panic!("{}, seed {seed}, closed: {e}", rig.fs));
        }
    });
}

/// In the place of mappings reads and writes, of which one in a hundred loses its last byte.
struct Forgetful;

impl Mappings for Forgetful {
    fn load(&self, file: &File, pos: u64, buffer: &mut [u8]) -> rustix::io::Result<()> {
        file.read_exact_at(buffer, pos).map_err(|_| rustix::io::Errno::IO)
    }

    fn store(&self, file: &File, pos: u64, data: &[u8], _: bool) -> rustix::io::Result<()> {
        let kept = data.len() - usize::from(pos.is_multiple_of(100));
        file.write_all_at(&data[..kept], pos).map_err(|_| rustix::io::Errno::IO)
    }
}

#[test]
fn one_byte_that_is_lost_is_found() {
    if !rig::possible() {
        return;
    }
    let rig = Rig::new(rig::any(), &Options { allow_other: true, ..Options::default() });
    let mut exercise = Exercise::new(rig.root(), rig.fs, 1, Some(&Forgetful)).expect("an empty directory");
    let found = exercise.run(20_000).expect_err("a byte was lost");
    assert!(found.contains(" 1 differ"), "{found}");
    exercise.close();
    drop(exercise);
    rig.finish();
}
