//! [`Ledger`]: the drive's memory by kind of object, in the paper's sizes.
//!
//! Objects of this program may be larger; what is counted is what the paper's take (DevFS section 3.4 and
//! Figure 8).

use granary_units::Bytes;

/// Objects in the drive's memory, or in the part of the host's memory that the drive was lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The part of an inode that the drive always needs.
    InodeDevice,
    /// The part that only an open file needs.
    InodeHost,
    /// A name, with where it leads.
    Dentry,
    /// An open file.
    FilePointer,
    /// The workers' knowledge of a file.
    Filemap,
    /// 64 commands of 64 bytes.
    Queue,
    /// 64 journal entries of 64 bytes.
    Journal,
}

impl Kind {
    /// All, in order.
    pub const ALL: [Kind; 7] = [
        Kind::InodeDevice,
        Kind::InodeHost,
        Kind::Dentry,
        Kind::FilePointer,
        Kind::Filemap,
        Kind::Queue,
        Kind::Journal,
    ];

    /// Bytes of one (DevFS section 3.4; 262 + 578 = 840 is the evaluated split of section 5.4).
    pub const fn bytes(self) -> u64 {
        match self {
            Kind::InodeDevice => 262,
            Kind::InodeHost => 578,
            Kind::Dentry => 192,
            Kind::FilePointer => 256,
            Kind::Filemap => 156,
            Kind::Queue | Kind::Journal => 4096,
        }
    }

    /// Its name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::InodeDevice => "device.inode",
            Kind::InodeHost => "device.inode_host_part",
            Kind::Dentry => "device.dentry",
            Kind::FilePointer => "device.file_pointer",
            Kind::Filemap => "device.filemap",
            Kind::Queue => "device.queue",
            Kind::Journal => "device.journal",
        }
    }
}

/// How many there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    counts: [u64; Kind::ALL.len()],
}

impl Ledger {
    /// One more.
    pub fn add(&mut self, kind: Kind) {
        self.counts[kind as usize] += 1;
    }

    /// One less.
    ///
    /// # Panics
    /// Where there is none.
    pub fn take(&mut self, kind: Kind) {
        let count = &mut self.counts[kind as usize];
        *count = count.checked_sub(1).expect("what is freed was allocated");
    }

    /// How many.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }

    /// Bytes of all objects of a kind.
    pub fn bytes(&self, kind: Kind) -> u64 {
        self.count(kind) * kind.bytes()
    }

    /// Bytes of all objects.
    pub fn total(&self) -> Bytes {
        Bytes(Kind::ALL.into_iter().map(|kind| self.bytes(kind)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 8: a million files, created, written and closed.
    #[test]
    fn the_papers_memory_of_a_million_closed_files_comes_out_of_its_sizes() {
        let mut ledger = Ledger::default();
        let mib = |l: &Ledger| l.total().0 as f64 * 1e6 / (1 << 20) as f64;
        for kind in [Kind::InodeDevice, Kind::InodeHost, Kind::Dentry, Kind::Filemap] {
            ledger.add(kind);
        }
        let all = mib(&ledger);
        assert!((1_100.0..1_170.0).contains(&all), "the paper: 1163 MB; {all}");
        ledger.take(Kind::Filemap);
        assert!((0.12..0.14).contains(&(1.0 - mib(&ledger) / all)), "the paper: 13.4 % less");
        ledger.take(Kind::Dentry);
        ledger.take(Kind::InodeHost);
        assert!((0.77..0.79).contains(&(1.0 - mib(&ledger) / all)), "the paper: 78 % less");
    }
}
