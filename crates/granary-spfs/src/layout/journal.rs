//! The rename journal: the new name of a file that is in persistent memory alone, which is more than one
//! store can change.
//!
//! ```text
//!   body: directory, generation, name, fence ── inode number, fence      from here on the file has the new
//!                                                                        name
//!   the inode's fields, fence ── 0, fence
//! ```
//!
//! Recovery puts the fields again where the number is not 0. One rename at a time. Source: SPFS's rename
//! journal, 256 B at the beginning of the released code's superblock, which it never replays.

use super::alone::{self, LONGEST, NamePlace};
use super::inode::{Identity, Inode};
use super::word;
use granary_device::Structure;
use granary_fs::Result;
use granary_pm::bytes::{put_u32, put_u64, u32_at, u64_at};
use granary_pm::{Pm, corrupt};

/// The inode number; 0: no rename is under way.
const AT: u64 = 512;
/// Directory 8, generation 4, bytes of the name 4, name.
const BODY: u64 = AT + 8;
const HEAD: usize = 16;

/// Gives an inode another name: when it returns it has that, and after a power failure before the old one or
/// the new one. The caller sees to it that there is one at a time.
///
/// # Errors
/// The device's.
pub fn rename(pm: &Pm, number: u64, to: &NamePlace) -> Result<()> {
    let _step = granary_sim::step("spfs: a file in persistent memory alone is renamed");
    let mut body = vec![0; HEAD + to.name.len()];
    put_u64(&mut body, 0, to.dir.ino);
    put_u32(&mut body, 8, to.dir.generation);
    put_u32(&mut body, 12, to.name.len() as u32);
    body[HEAD..].copy_from_slice(&to.name);
    let mut b = pm.batch();
    b.put(BODY, &body, Structure::Journal)?;
    b.fence()?;
    b.put_u64(AT, number, Structure::Journal)?;
    b.fence()?;
    finish(pm, number, to)
}

fn finish(pm: &Pm, number: u64, to: &NamePlace) -> Result<()> {
    let mut b = pm.batch();
    to.put(&mut b, number)?;
    b.fence()?;
    b.put_u64(AT, 0, Structure::Journal)?;
    b.fence()
}

/// Finishes the rename that a power failure cut short; says whether there was one.
///
/// # Errors
/// `Corrupt`; the device's.
pub fn recover(pm: &Pm) -> Result<bool> {
    let number = word(pm, AT, Structure::Journal)?;
    if number == 0 {
        return Ok(false);
    }
    let _step = granary_sim::step("spfs: a mount finishes a rename");
    let mut b = [0; HEAD + LONGEST];
    pm.load(BODY, &mut b, Structure::Journal)?;
    let len = u32_at(&b, 12) as usize;
    let dir = Identity { ino: u64_at(&b, 0), generation: u32_at(&b, 8) };
    let name = b[HEAD..].get(..len).map(<[u8]>::to_vec).unwrap_or_default();
    let to = NamePlace { dir, name };
    let known = Inode::load(pm, number)?.is_some_and(|i| alone::is(i.identity.ino));
    if !known || !to.is_sound() {
        return Err(corrupt("the rename journal is of no inode, or has no name"));
    }
    finish(pm, number, &to).map(|()| true)
}
