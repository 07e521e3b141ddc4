//! Leases: which process may change an inode (OrchFS section 4, as in ArckFS and Trio: who gives write access
//! to another one is verified first).
//!
//! ```text
//!   first change by a process      granted, one request to the kernel's part; to whoever makes an inode
//!                                  without one
//!   first change by another one    revoked: the holder's journal is digested, then the lease is the other's,
//!                                  in a new epoch
//!   the holder ends, or dies       its journal is digested as far as it is whole; its leases are nobody's
//! ```
//!
//! Each group says in which epoch it was written. A group about an inode counts when its process has the
//! lease, and had it then. So what a process writes after its lease is gone changes nothing.
//!
//! The kernel's part also knows who a process is: the users in whose name it has called.
//!
//! Not durable: after a power failure nobody has a lease, and groups are judged by what they say alone.

use granary_fs::Result;
use granary_pm::corrupt;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug)]
struct Lease {
    holder: u32,
    epoch: u64,
}

/// See the module.
#[derive(Default)]
pub struct Leases {
    epoch: u64,
    of: BTreeMap<u64, Lease>,
    users: BTreeMap<u32, BTreeSet<u32>>,
}

/// A process's hold on an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    /// The lease.
    Lease,
    /// Nothing, and nobody else has.
    Nothing,
    /// Nothing: this other process has the lease.
    Other(u32),
}

impl Leases {
    /// The epoch now.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A process's hold on an inode.
    pub fn has(&self, process: u32, ino: u64) -> Has {
        match self.of.get(&ino) {
            None => Has::Nothing,
            Some(lease) if lease.holder == process => Has::Lease,
            Some(lease) => Has::Other(lease.holder),
        }
    }

    /// The process that has the lease of an inode.
    pub fn holder(&self, ino: u64) -> Option<u32> {
        self.of.get(&ino).map(|lease| lease.holder)
    }

    /// Files that some process has the lease of.
    pub fn count(&self) -> usize {
        self.of.len()
    }

    /// The lease is this process's, from a new epoch on.
    pub fn grant(&mut self, process: u32, ino: u64) {
        self.epoch += 1;
        self.of.insert(ino, Lease { holder: process, epoch: self.epoch });
    }

    /// An inode is free: nobody has its lease.
    pub fn release(&mut self, ino: u64) {
        self.of.remove(&ino);
    }

    /// A process is gone.
    pub fn ended(&mut self, process: u32) {
        self.of.retain(|_, lease| lease.holder != process);
        self.users.remove(&process);
    }

    /// A process calls in the name of a user.
    pub fn called(&mut self, process: u32, uid: u32) {
        self.users.entry(process).or_default().insert(uid);
    }

    /// Whether a process may act as this user: it is his, or the superuser's. The kernel itself may.
    pub fn may_act_as(&self, process: u32, uid: u32) -> bool {
        let is = |uid| self.users.get(&process).is_some_and(|users| users.contains(&uid));
        process == 0 || is(uid) || is(0)
    }

    /// Whether a process may have written about an inode in this epoch.
    ///
    /// # Errors
    /// `Corrupt` says why not.
    pub fn check(&self, process: u32, epoch: u64, ino: u64) -> Result<()> {
        let why = match self.of.get(&ino) {
            Some(lease) if lease.holder == process && lease.epoch <= epoch => return Ok(()),
            Some(lease) if lease.holder == process => {
                format!("its lease is of epoch {}, later than {epoch}", lease.epoch)
            }
            Some(lease) => format!("process {} has the lease", lease.holder),
            None => "nobody has the lease".to_owned(),
        };
        Err(corrupt(format!("process {process} writes about inode {ino}: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_before_the_lease_or_after_it_does_not_count() {
        let mut leases = Leases::default();
        leases.grant(7, 5);
        let then = leases.epoch();
        assert!(leases.check(7, then, 5).is_ok() && leases.check(8, then, 5).is_err());
        leases.grant(8, 5);
        assert!(leases.check(7, leases.epoch(), 5).is_err());
        leases.grant(7, 5);
        assert!(leases.check(7, then, 5).is_err() && leases.check(7, leases.epoch(), 5).is_ok());
        assert_eq!(
            (leases.has(7, 5), leases.has(8, 5), leases.has(8, 6)),
            (Has::Lease, Has::Other(7), Has::Nothing)
        );
        leases.ended(7);
        assert!(leases.check(7, leases.epoch(), 5).is_err());
    }

    #[test]
    fn a_process_acts_as_who_it_has_called_as() {
        let mut leases = Leases::default();
        leases.called(7, 100);
        assert!(leases.may_act_as(7, 100) && !leases.may_act_as(7, 101) && !leases.may_act_as(8, 100));
        leases.called(7, 0);
        assert!(leases.may_act_as(7, 101) && leases.may_act_as(0, 3));
    }
}
