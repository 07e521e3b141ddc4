//! An inode beside what the model allows: attributes, targets, bytes.

use super::{Differs, PIECE, Walk, show};
use crate::oracle::attributes::{ACCESS_LIST, DEFAULT_LIST, digest};
use crate::oracle::content::Content;
use crate::oracle::model::{Node, NodeId};
use crate::oracle::register::Register;
use crate::oracle::segments::Segments;
use granary_fs::{FileKind, FsError};
use granary_units::Dest;
use granary_vfs::{OpenFlags, Posix, Stat};
use std::collections::{BTreeMap, BTreeSet};

impl<P: Posix> Walk<'_, P> {
    pub(super) fn attributes(&mut self, path: &[u8], versions: &[NodeId], stat: &Stat) {
        const COMPARED: u16 = 0o7777;
        let model = self.model;
        let nodes = || versions.iter().map(|&v| model.node(v));
        let modes: Vec<_> = nodes().flat_map(|n| n.mode.possible(&model.stamps, 0)).map(|(_, m)| m).collect();
        let is = stat.attr.mode & COMPARED;
        if !modes.iter().any(|m| m.is_none_or(|m| m & COMPARED == is)) {
            let may: Vec<String> =
                modes.into_iter().flatten().map(|m| format!("{:o}", m & COMPARED)).collect();
            self.blame(path, format!("has mode {is:o}, may have {}", may.join(" or ")));
        }
        let owners: Vec<_> =
            nodes().flat_map(|n| n.owner.possible(&model.stamps, 0)).map(|(_, o)| o).collect();
        let is = (stat.attr.uid, stat.attr.gid);
        if !owners.iter().any(|o| o.is_none_or(|o| o == is)) {
            self.blame(path, format!("belongs to {is:?}, may belong to {owners:?}"));
        }
        if model.clock.is_some() {
            let wrong = versions.iter().map(|&v| model.node(v).times.compare(&model.stamps, &stat.attr));
            let least = wrong.min_by_key(Vec::len);
            least.into_iter().flatten().for_each(|what| self.blame(path, what));
        }
    }

    /// Compares the extended attributes with those of any of the versions; returns them, certain.
    pub(super) fn xattrs(
        &mut self,
        path: &[u8],
        versions: &[NodeId],
        stat: &Stat,
    ) -> BTreeMap<Vec<u8>, Register<Option<u64>>> {
        let model = self.model;
        let mut certain = BTreeMap::new();
        // Through a symbolic link another file would answer.
        let known: BTreeSet<&Vec<u8>> = versions.iter().flat_map(|&v| model.node(v).xattrs.keys()).collect();
        if stat.attr.kind == FileKind::Symlink {
            return certain;
        }
        let names = match self.process.listxattr(path) {
            Ok(names) => names,
            Err(FsError::NotSupported) => Vec::new(),
            Err(e) => {
                self.failed(path, "its attributes cannot be listed", &e);
                return certain;
            }
        };
        for name in names.iter().chain(known.into_iter().filter(|n| !names.contains(n))) {
            let value = match self.process.getxattr(path, name) {
                Ok(value) => digest(name, &value),
                Err(FsError::NoAttribute | FsError::NotSupported) => None,
                Err(e) => {
                    self.failed(path, &format!("attribute {} cannot be read", show(name)), &e);
                    continue;
                }
            };
            let is_list = name == ACCESS_LIST || name == DEFAULT_LIST;
            let may = versions.iter().any(|&v| match model.node(v).xattrs.get(name) {
                _ if is_list && model.node(v).lists_unknown => true,
                Some(register) => register.may_be(&model.stamps, value),
                None => value.is_none(),
            });
            if !may {
                let is = if value.is_some() { "has a value that it" } else { "is absent, which it" };
                self.blame(path, format!("attribute {} {is} may not have", show(name)));
            }
            if value.is_some() {
                certain.insert(name.clone(), Register::new(value));
            }
        }
        certain
    }

    pub(super) fn target(&mut self, path: &[u8], node: &Node) -> Vec<u8> {
        match self.process.readlink(path) {
            Ok(target) => {
                if target != node.target {
                    self.wrong_files += 1;
                    self.blame(path, format!("leads to {}, made to {}", show(&target), show(&node.target)));
                }
                target
            }
            Err(e) => {
                self.failed(path, "cannot be read", &e);
                Vec::new()
            }
        }
    }

    pub(super) fn content(&mut self, path: &[u8], node: &Node, stat: &Stat) -> Content {
        let size = stat.attr.size;
        let (low, high) = node.content.size_range(&self.model.stamps, 0);
        if size < low || size > high {
            let history = node.content.history(&self.model.stamps);
            self.blame(path, format!("has {size} bytes, may have {low} to {high}; {history}"));
        }
        self.files += 1;
        // Differences are forgiven where the model went astray: then the bytes that were found are the truth.
        let known = node.content.known(size).filter(|_| !self.model.astray);
        let mut base = known.is_none().then(Segments::default);
        // A size out of range may be absurd; its own violation is enough evidence.
        if let Err(how) = self.compare(path, node, size.min(high), base.as_mut()) {
            let (count, what) = match how {
                Differs::Bytes(what) => (&mut self.wrong_files, what),
                Differs::Error(what) => (&mut self.errors, what),
            };
            *count += 1;
            let history = node.content.history(&self.model.stamps);
            self.blame(path, format!("{what}; size {size}; {history}"));
        }
        known.unwrap_or_else(|| Content::certain(base.unwrap_or_default(), size))
    }

    /// Reads a file and compares it; `base` takes over what is read.
    pub(super) fn compare(
        &mut self,
        path: &[u8],
        node: &Node,
        size: u64,
        mut base: Option<&mut Segments>,
    ) -> Result<(), Differs> {
        let flags = OpenFlags::RDONLY | OpenFlags::NOATIME;
        let opened = self.process.open(path, flags, 0);
        let fd = opened.map_err(|e| Differs::Error(format!("cannot be opened: {e}")))?;
        let mut piece = std::mem::take(&mut self.piece);
        piece.resize(piece.len().max(PIECE.min(size as usize)), 0);
        let mut at = 0;
        let mut result = Ok(());
        while at < size && result.is_ok() {
            let want = PIECE.min((size - at) as usize);
            let part = &mut piece[..want];
            result = match self.process.pread(fd, Dest::Bytes(part), at) {
                Ok(got) if got == want => {
                    let whole = || match self.model.whole_pages {
                        true => node.content.no_page_is_torn(&self.model.stamps, at, part),
                        false => Ok(()),
                    };
                    let explained = node.content.explain(&self.model.stamps, 0, at, part);
                    explained.and_then(|()| whole()).map_err(Differs::Bytes)
                }
                Ok(got) => Err(Differs::Bytes(format!("reads {got} of {want} bytes at {at:#x}"))),
                Err(e) => Err(Differs::Error(format!("cannot be read at {at:#x}: {e}"))),
            };
            base.iter_mut().for_each(|base| base.adopt(at, part));
            at += want as u64;
            self.bytes += want as u64;
        }
        self.piece = piece;
        let closed = self.process.close(fd);
        let closed = closed.map_err(|e| Differs::Error(format!("cannot be closed: {e}")));
        result.and(closed)
    }
}
