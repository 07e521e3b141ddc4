//! [`CredentialTable`]: credentials of a command, by the processor that rings the doorbell (DevFS section
//! 3.5).
//!
//! ```text
//!   scheduler   down-call: entry[cpu] := {process, user, groups}    on every switch; only the kernel can
//!                                                                   write it
//!   program     doorbell from cpu ──> the drive: snapshot := entry[cpu]    when it rings, not when it is
//!                                                                          looked at
//!   admission   the snapshot's process owns the buffer with the command, else the program rings again
//! ```
//!
//! The paper compares with the entry as it is at admission. Between the doorbell and that moment the
//! processor may have changed to another process: the command would be admitted with credentials of somebody
//! else. Stores of one processor stay in order, so the doorbell arrives before the next down-call, and a
//! snapshot is right. [`Check::Table`] is the paper's way, for the test that shows the hole.

use granary_fs::Cred;
use std::collections::BTreeMap;

/// Entry of the table for one processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialEntry {
    /// The process that runs there.
    pub process: u32,
    /// Its user and groups.
    pub cred: Cred,
    /// Down-calls for this processor so far.
    pub epoch: u64,
}

/// When the entry is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// When the doorbell arrives; and the process must own the buffer.
    Snapshot,
    /// When the command is admitted: the paper's.
    Table,
}

/// A doorbell that has arrived.
#[derive(Clone, Debug)]
pub struct Doorbell {
    cpu: u16,
    snapshot: Option<CredentialEntry>,
}

/// Why a command is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No process was ever announced on this processor.
    Nobody,
    /// The buffer is another process's: the program rings again (EAGAIN).
    Again,
}

/// The table, in the drive's memory.
#[derive(Debug, Default)]
pub struct CredentialTable {
    entries: BTreeMap<u16, CredentialEntry>,
    down_calls: u64,
}

impl CredentialTable {
    /// The scheduler puts a process on a processor.
    pub fn down_call(&mut self, cpu: u16, process: u32, cred: &Cred) {
        let epoch = self.entries.get(&cpu).map_or(0, |e| e.epoch) + 1;
        self.entries.insert(cpu, CredentialEntry { process, cred: cred.clone(), epoch });
        self.down_calls += 1;
    }

    /// Whether the scheduler has to say so before this process runs there.
    pub fn is_news(&self, cpu: u16, process: u32, cred: &Cred) -> bool {
        self.entries.get(&cpu).is_none_or(|e| e.process != process || e.cred != *cred)
    }

    /// Down-calls so far.
    pub fn down_calls(&self) -> u64 {
        self.down_calls
    }

    /// A doorbell arrives from a processor.
    pub fn ring(&self, cpu: u16) -> Doorbell {
        Doorbell { cpu, snapshot: self.entries.get(&cpu).cloned() }
    }

    /// The credentials of a command that lies in a buffer which `owner` registered.
    ///
    /// # Errors
    /// The reason why the command is refused.
    pub fn admit(&self, doorbell: &Doorbell, owner: u32, check: Check) -> Result<Cred, Refused> {
        match check {
            Check::Table => self.entries.get(&doorbell.cpu).map(|e| e.cred.clone()).ok_or(Refused::Nobody),
            Check::Snapshot => match &doorbell.snapshot {
                None => Err(Refused::Nobody),
                Some(e) if e.process != owner => Err(Refused::Again),
                Some(e) => Ok(e.cred.clone()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32) -> Cred {
        Cred { uid, gid: uid, groups: Vec::new() }
    }

    /// A user's process rings on a processor and is preempted by root's before the drive looks.
    #[test]
    fn a_command_is_never_admitted_with_the_credentials_of_who_came_after_its_sender() {
        let mut table = CredentialTable::default();
        table.down_call(0, 100, &user(1000));
        let rung = table.ring(0);
        table.down_call(0, 1, &Cred::ROOT);
        assert_eq!(table.admit(&rung, 100, Check::Snapshot), Ok(user(1000)));
        // The paper's two steps admit it: the hole.
        assert_eq!(table.admit(&rung, 100, Check::Table), Ok(Cred::ROOT));
    }

    /// The process on the processor rings the doorbell, but the buffer decides the owner of the command.
    #[test]
    fn a_buffer_belongs_to_the_process_that_registered_it() {
        let mut table = CredentialTable::default();
        table.down_call(3, 7, &Cred::ROOT);
        let rung = table.ring(3);
        assert_eq!(table.admit(&rung, 8, Check::Snapshot), Err(Refused::Again));
        assert_eq!(table.admit(&rung, 7, Check::Snapshot), Ok(Cred::ROOT));
        assert_eq!(table.admit(&table.ring(4), 7, Check::Snapshot), Err(Refused::Nobody));
    }

    /// Switches and doorbells in any order: an admitted command is of the process that rang.
    #[test]
    fn in_any_order_of_switches_and_doorbells_the_sender_is_who_is_admitted() {
        let mut random = granary_sim::rng::Stream::new(5, "credentials");
        let mut table = CredentialTable::default();
        let mut on = [0u32; 4];
        let mut rung: Vec<(u32, Doorbell)> = Vec::new();
        for _ in 0..20_000 {
            let cpu = random.below(4) as usize;
            match random.below(3) {
                0 => {
                    on[cpu] = 1 + random.below(9) as u32;
                    table.down_call(cpu as u16, on[cpu], &user(1000 + on[cpu]));
                }
                1 if on[cpu] > 0 => rung.push((on[cpu], table.ring(cpu as u16))),
                _ => {
                    if let Some((sender, bell)) = rung.pop() {
                        assert_eq!(table.admit(&bell, sender, Check::Snapshot), Ok(user(1000 + sender)));
                        assert_eq!(table.admit(&bell, sender + 1, Check::Snapshot), Err(Refused::Again));
                    }
                }
            }
        }
        assert!(table.down_calls() > 1000);
    }
}
