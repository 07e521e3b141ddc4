//! Names: every directory, and what its entries lead to.

use super::{Check, Seen};
use crate::dir::walk;
use crate::layout::{SLOT_SIZE, dentry};
use crate::map::FileMap;
use crate::mkfs::ROOT;
use granary_device::Structure;
use granary_fs::{FileKind, Result, is_name};
use granary_units::Lpa;

pub(super) fn dentry_slots() -> u64 {
    crate::layout::SLOTS_PER_BLOCK as u64
}

impl Check<'_> {
    pub(super) fn directory(&mut self, ino: u32, size: u64, map: &FileMap) -> Result<()> {
        let end = size / SLOT_SIZE as u64;
        if !size.is_multiple_of(SLOT_SIZE as u64) || end > u32::MAX as u64 {
            self.say(format!("directory {ino} has {size} bytes"));
            return Ok(());
        }
        let mut entries = Vec::new();
        for n in 0..end.div_ceil(dentry_slots()) {
            let crate::map::Piece::At { lba, .. } = map.piece(n) else {
                self.say(format!("directory {ino} has {size} bytes but no block {n}"));
                return Ok(());
            };
            let Some(bytes) = self.read(lba as u64, Structure::Dentry)? else { continue };
            let mut parts = Vec::new();
            let walked = walk(&bytes, (n, Lpa(lba as u64)), end as u32, ino, |slot, head, rest| {
                // Of a free area only the head counts.
                let slots = if head.is_free() { 1 } else { dentry::slots_for(head.len.get() as usize) };
                let at = (slot as u64 % dentry_slots()) as usize * SLOT_SIZE;
                parts.push(at..at + slots as usize * SLOT_SIZE);
                if !head.is_free() {
                    let kind = FileKind::from_code(head.kind.get() as u8);
                    entries.push((dentry::name(rest, head).to_vec(), head.ino.get(), kind));
                }
                true
            });
            if let Err(e) = walked {
                self.say(e.to_string());
            }
            for part in parts {
                self.against_cache(lba as u64, part.start, &bytes[part]);
            }
        }
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        if let Some(w) = entries.windows(2).find(|w| w[0].0 == w[1].0) {
            self.say(format!("directory {ino} has two entries {:?}", String::from_utf8_lossy(&w[0].0)));
        }
        for (name, child, kind) in entries {
            if !is_name(&name) {
                let shown = name.escape_ascii();
                self.say(format!("directory {ino}: the name \"{shown}\" of inode {child} cannot be"));
            }
            self.reach(child as u64);
            let Some(seen) = self.inodes.get_mut(child as usize) else {
                self.say(format!(
                    "directory {ino}: {:?} names inode {child}",
                    String::from_utf8_lossy(&name)
                ));
                continue;
            };
            seen.names += 1;
            seen.named_in = ino;
            // The child's own type may not be read yet.
            if seen.kind.is_none() || seen.kind != kind {
                self.called.push((ino, child, kind));
            }
            if kind == Some(FileKind::Dir) {
                self.inodes[ino as usize].subdirs += 1;
            }
        }
        Ok(())
    }

    /// Link counts, parents, reachability.
    pub(super) fn tree(&mut self) {
        let seen = std::mem::take(&mut self.inodes);
        for (dir, child, called) in std::mem::take(&mut self.called) {
            let known = seen[child as usize].kind;
            if known.is_some() && known != called {
                self.say(format!("directory {dir} calls inode {child} {called:?}, it is {known:?}"));
            }
        }
        for (ino, s) in seen.iter().enumerate().skip(1) {
            let is_root = ino == ROOT as usize;
            let Some(kind) = s.kind else {
                if s.names > 0 {
                    let state = if self.partial { "free or cannot be read" } else { "free" };
                    self.say(format!("{} entries name inode {ino}, which is {state}", s.names));
                }
                continue;
            };
            let is_dir = kind == FileKind::Dir;
            let expect = match (is_dir, s.names) {
                (true, n) if n > 0 || is_root => 2 + s.subdirs,
                (_, n) => n,
            };
            if self.partial && s.nlink > expect {
                continue;
            }
            if s.nlink != expect || (s.names == 0 && !is_root && !s.orphan) {
                self.say(format!("inode {ino} has {} links, {expect} are found, {} names", s.nlink, s.names));
            }
            if is_dir && s.names > 1 {
                self.say(format!("directory {ino} has {} names", s.names));
            }
            let parent = if is_root { ROOT } else { s.named_in };
            if is_dir && s.names + is_root as u32 > 0 && s.parent != parent {
                self.say(format!("directory {ino} is in {parent}, its parent is {}", s.parent));
            }
        }
        self.loops(&seen);
        self.inodes = seen;
    }

    /// Every directory leads to the root through its parents.
    pub(super) fn loops(&mut self, seen: &[Seen]) {
        // 0 = unknown, 1 = on the present path, 2 = leads to the root or was reported.
        let mut state = vec![0u8; seen.len()];
        state[ROOT as usize] = 2;
        for start in 1..seen.len() {
            if seen[start].kind != Some(FileKind::Dir) || seen[start].names == 0 {
                continue;
            }
            let (mut path, mut at) = (Vec::new(), start);
            while state.get(at) == Some(&0) {
                state[at] = 1;
                path.push(at);
                at = seen[at].named_in as usize;
            }
            if state.get(at) != Some(&2) {
                self.say(format!("directory {start} does not lead to the root"));
            }
            path.into_iter().for_each(|n| state[n] = 2);
        }
    }
}
