//! The kernel's part judges a group before any of it comes home (OrchFS section 4: asynchronous verification
//! of a library's metadata).
//!
//! ```text
//!   each record   its bytes are possible (record.rs) | its inode is leased to whoever wrote it
//!                 | the numbers that it newly names were given out, not to another process, and nodes among
//!                 them are this inode's | owner, group and mode change by who may
//!   each group    links: names that came and went beside the counts of their inodes, directories and their
//!                 parents
//! ```
//!
//! The verifier judges the future state at home: images of it with all sound groups before. A group that is
//! refused leaves them as they were.
//!
//! At a mount only the bytes of records are judged. Nobody has a lease then, and the numbers that were given
//! out are not known. A digest that the power ended has brought some of a group home, so that changes cannot
//! be told from the state before. The scan finds numbers that two inodes have.

use crate::layout::{Area, Layout, dentry, inode, nodes};
use crate::lease::Leases;
use crate::pools::Pools;
use crate::record::{Group, Record};
use crate::unit::Word;
use granary_device::Structure;
use granary_fs::{FileKind, Result};
use granary_pm::bytes::{u16_at, u32_at, u64_at};
use granary_pm::{Pm, corrupt};
use std::collections::BTreeMap;

/// Structure of an area on the NVM, for counters.
pub fn structure(area: Area) -> Structure {
    match area {
        Area::Inode => Structure::Inode,
        Area::Page => Structure::Dentry,
        _ => Structure::DataPointer,
    }
}

/// Bytes of what records change, as they will be home.
pub struct Images<'a> {
    pm: &'a Pm,
    layout: &'a Layout,
    /// Inodes from there on were never written, and hold anything.
    inodes_end: u64,
    /// By area and number.
    pub map: BTreeMap<(Area, u64), Vec<u8>>,
}

impl<'a> Images<'a> {
    /// Nothing is looked at yet.
    pub fn new(pm: &'a Pm, layout: &'a Layout, inodes_end: u64) -> Images<'a> {
        Images { pm, layout, inodes_end, map: BTreeMap::new() }
    }

    /// Where they are home.
    pub fn devices(&self) -> (&'a Pm, &'a Layout) {
        (self.pm, self.layout)
    }

    fn get(&mut self, area: Area, number: u64) -> Result<&mut Vec<u8>> {
        if !self.map.contains_key(&(area, number)) {
            let image = self.at_home(area, number)?;
            self.map.insert((area, number), image);
        }
        Ok(self.map.entry((area, number)).or_default())
    }

    /// The bytes as they are at home.
    fn at_home(&self, area: Area, number: u64) -> Result<Vec<u8>> {
        let mut image = vec![0; area.size() as usize];
        if area != Area::Inode || number < self.inodes_end {
            self.pm.load(self.layout.at(area, number), &mut image, structure(area))?;
        }
        Ok(image)
    }

    /// The bytes without keeping them: nothing of them changes.
    fn look(&self, area: Area, number: u64) -> Result<Vec<u8>> {
        match self.map.get(&(area, number)) {
            Some(image) => Ok(image.clone()),
            None => self.at_home(area, number),
        }
    }
}

/// Knowledge of the running kernel's part beside the media.
pub struct Known<'a> {
    /// Leases, and the users that processes may act as.
    pub leases: &'a Leases,
    /// Numbers that were given out.
    pub pools: &'a Pools,
}

/// Changes of links by a group.
#[derive(Default)]
struct Links {
    /// Names of an inode, more or fewer.
    names: BTreeMap<u64, i64>,
    /// Names of directories within a directory, more or fewer.
    subdirs: BTreeMap<u64, i64>,
    /// Counts of an inode, more or fewer.
    counts: BTreeMap<u64, i64>,
}

/// Judges a group, and makes its changes in the images when it is sound.
///
/// # Errors
/// `Corrupt` says why it is refused; the drive's.
pub fn judge(images: &mut Images<'_>, group: &Group, known: Option<&Known<'_>>) -> Result<()> {
    let (mut old, mut links) = (Vec::new(), Links::default());
    let mut judged = Ok(());
    for record in &group.records {
        judged = record.verify(images.layout).and_then(|()| match known {
            Some(known) => {
                judge_record(images, group, record, known)?;
                count(images, record, &mut links)
            }
            None => Ok(()),
        });
        if judged.is_err() {
            break;
        }
        let image = images.get(record.area, record.number)?;
        let place = &mut image[record.at..record.at + record.bytes.len()];
        old.push((record, place.to_vec()));
        place.copy_from_slice(&record.bytes);
    }
    let judged = judged.and_then(|()| links.agree(images));
    if judged.is_err() {
        for (record, bytes) in old.into_iter().rev() {
            images.get(record.area, record.number)?[record.at..record.at + bytes.len()]
                .copy_from_slice(&bytes);
        }
    }
    judged
}

/// The inode that a record is about.
fn owner(images: &mut Images<'_>, record: &Record) -> Result<u64> {
    let number = record.number;
    Ok(match record.area {
        Area::Inode => number,
        Area::Page => u64_at(images.get(Area::Page, number)?, 0),
        area => u64_at(images.get(area, number)?, 16),
    })
}

fn judge_record(images: &mut Images<'_>, group: &Group, record: &Record, known: &Known<'_>) -> Result<()> {
    let ino = owner(images, record)?;
    if !images.layout.has(Area::Inode, ino) {
        return Err(corrupt(format!("{} {} is no inode's", record.area.name(), record.number)));
    }
    let old = images.get(record.area, record.number)?[record.at..record.at + record.bytes.len()].to_vec();
    known.leases.check(group.process, group.epoch, ino)?;
    if !known.pools.is_taken(Area::Inode, ino) {
        return Err(corrupt(format!("inode {ino} was given to nobody")));
    }
    if record.area == Area::Inode && record.at == 0 {
        judge_rights(group.process, record, &old, known)?;
    }
    for (area, number) in named(record)? {
        if named(&Record { bytes: old.clone(), ..record.clone() })
            .is_ok_and(|old| old.contains(&(area, number)))
        {
            continue;
        }
        if !known.pools.is_taken(area, number) {
            return Err(corrupt(format!(
                "inode {ino} names {} {number}, which was given to nobody",
                area.name()
            )));
        }
        if let Some(other) = known.pools.fresh_of_other(area, group.process, number) {
            return Err(corrupt(format!(
                "inode {ino} names {} {number}, which was granted to process {other}",
                area.name()
            )));
        }
        if matches!(area, Area::Index | Area::Append | Area::Over) {
            let image = images.look(area, number)?;
            // While records for a node wait, its checksum may be wrong.
            let sound = images.map.contains_key(&(area, number)) || nodes::sealed(&image);
            if (u64_at(&image, 0), u64_at(&image, 16)) != (number, ino) || !sound {
                return Err(corrupt(format!("inode {ino} names {} {number} of another", area.name())));
            }
        }
    }
    Ok(())
}

/// Areas and numbers that a record's bytes name.
fn named(record: &Record) -> Result<Vec<(Area, u64)>> {
    let word = |at: usize| -> Result<Option<(Area, u64)>> {
        Ok(match Word::parse(u64_at(&record.bytes, at))? {
            Word::None => None,
            Word::Block(base) => Some((Area::Block, base.block)),
            Word::Append(eln) => Some((Area::Append, eln)),
            Word::Over(eln) => Some((Area::Over, eln)),
            Word::Index(node) => Some((Area::Index, node)),
        })
    };
    let page = |at: usize| Some((Area::Page, u64_at(&record.bytes, at))).filter(|(_, page)| *page != 0);
    let (len, at) = (record.bytes.len(), record.at);
    let mut all = Vec::new();
    match record.area {
        Area::Inode if at == 0 && len >= inode::HEAD && record.bytes[inode::KIND] != 0 => {
            all.extend(word(inode::ROOT)?);
            all.extend(page(inode::FIRST));
            all.extend(page(inode::ATTRIBUTES));
        }
        Area::Inode if (at, len) == (inode::ROOT, 8) => all.extend(word(0)?),
        Area::Index => {
            for child in (0..len).step_by(8) {
                all.extend(word(child)?);
            }
        }
        Area::Append => all.extend((0..len).step_by(8).filter_map(page)),
        Area::Over if at == nodes::BODY => all.extend(word(0)?),
        Area::Over => {
            for slot in record.bytes.chunks_exact(nodes::SLOT) {
                let page = nodes::parse_slot(slot)?.page;
                all.extend((page != 0).then_some((Area::Page, page)));
            }
        }
        Area::Page if at == dentry::NEXT => all.extend(page(0)),
        _ => {}
    }
    Ok(all)
}

/// Checks that the process may change owner, group and mode of an inode.
fn judge_rights(process: u32, record: &Record, old: &[u8], known: &Known<'_>) -> Result<()> {
    let new = &record.bytes;
    let may = |uid: u32| known.leases.may_act_as(process, uid);
    let (mode, uid, gid) = (|b: &[u8]| u16_at(b, 18), |b: &[u8]| u32_at(b, 24), |b: &[u8]| u32_at(b, 28));
    let bad = |why: &str| Err(corrupt(format!("process {process} changes inode {}: {why}", record.number)));
    match (inode::kind(old)?, inode::kind(new)?) {
        (_, None) => Ok(()),
        // A free inode may hold anything.
        (None, Some(_)) if !may(uid(new)) => bad("it makes it another user's"),
        (None, Some(_)) => Ok(()),
        (Some(was), Some(is)) if was != is => bad("it becomes of another kind"),
        (Some(_), Some(_)) if uid(old) != uid(new) && !may(0) => bad("its owner may not be changed"),
        (Some(_), Some(_)) if gid(old) != gid(new) && !may(uid(old)) => bad("its group may not be changed"),
        // A write clears one or both of the bits by which a program runs as its owner or group.
        (Some(_), Some(_)) if mode(new) | mode(old) & 0o6000 != mode(old) && !may(uid(old)) => {
            bad("its mode may not be changed")
        }
        _ => Ok(()),
    }
}

/// Counts what a record does to links; its bytes are not in the images yet.
fn count(images: &mut Images<'_>, record: &Record, links: &mut Links) -> Result<()> {
    match record.area {
        Area::Inode if record.at == 0 => {
            let old = images.get(Area::Inode, record.number)?[..inode::HEAD].to_vec();
            let nlink =
                |b: &[u8]| -> Result<i64> { Ok(inode::kind(b)?.map_or(0, |_| i64::from(u32_at(b, 20)))) };
            *links.counts.entry(record.number).or_default() += nlink(&record.bytes)? - nlink(&old)?;
            let first = |b: &[u8]| -> Result<u64> {
                Ok(if inode::kind(b)? == Some(FileKind::Dir) { u64_at(b, inode::FIRST) } else { 0 })
            };
            chain(images, record.number, first(&old)?, first(&record.bytes)?, links)
        }
        Area::Page => {
            let image = images.get(Area::Page, record.number)?.clone();
            let dir = u64_at(&image, 0);
            if record.at == dentry::NEXT {
                return chain(images, dir, u64_at(&image, dentry::NEXT), u64_at(&record.bytes, 0), links);
            }
            if let Some((d, _)) = dentry::parse(&image, record.at / dentry::UNIT)? {
                links.name(dir, &d, -1);
            }
            let mut page = image;
            page[record.at..record.at + record.bytes.len()].copy_from_slice(&record.bytes);
            if let Some((d, _)) = dentry::parse(&page, record.at / dentry::UNIT)? {
                links.name(dir, &d, 1);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A directory goes on with another page than before: one has left the chain, or come to its end.
fn chain(images: &mut Images<'_>, dir: u64, from: u64, to: u64, links: &mut Links) -> Result<()> {
    if from == to {
        return Ok(());
    }
    let (page, sign) = match (from, to) {
        (0, new) => (new, 1),
        (gone, next) => {
            if u64_at(&images.look(Area::Page, gone)?, dentry::NEXT) != next {
                return Err(corrupt(format!("directory {dir} loses more than one page")));
            }
            (gone, -1)
        }
    };
    // A new page counts as it came home before the group, which has its entries as records.
    let image = if sign > 0 { images.at_home(Area::Page, page)? } else { images.look(Area::Page, page)? };
    if u64_at(&image, 0) != dir || sign > 0 && u64_at(&image, dentry::NEXT) != 0 {
        return Err(corrupt(format!("NVM page {page} is none of directory {dir}")));
    }
    let mut unit = 1;
    while unit < dentry::UNITS {
        match dentry::parse(&image, unit)? {
            Some((d, units)) => {
                links.name(dir, &d, sign);
                unit += units;
            }
            None => unit += 1,
        }
    }
    Ok(())
}

impl Links {
    fn name(&mut self, dir: u64, d: &dentry::Dentry, sign: i64) {
        *self.names.entry(d.ino).or_default() += sign;
        if d.kind == FileKind::Dir {
            *self.subdirs.entry(dir).or_default() += sign;
        }
    }

    /// Whether counts and names go together.
    fn agree(&self, images: &mut Images<'_>) -> Result<()> {
        let all = self.names.keys().chain(self.counts.keys()).chain(self.subdirs.keys());
        let all: std::collections::BTreeSet<u64> = all.copied().collect();
        let of = |map: &BTreeMap<u64, i64>, ino: u64| map.get(&ino).copied().unwrap_or(0);
        for ino in all {
            let image = images.look(Area::Inode, ino)?;
            let names = of(&self.names, ino);
            let is_dir = inode::kind(&image)? == Some(FileKind::Dir);
            // A directory's own two, and one for each within it.
            let wanted = if is_dir { 2 * names + of(&self.subdirs, ino) } else { names };
            if of(&self.counts, ino) != wanted {
                return Err(corrupt(format!(
                    "inode {ino} gets {names} names more and {} links",
                    of(&self.counts, ino)
                )));
            }
        }
        Ok(())
    }
}
