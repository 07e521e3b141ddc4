//! Set-user-ID and set-group-ID, which a change of a file's content by somebody else takes away.
//!
//! ```text
//!   WRITE, SETATTR of the size   the kernel says (KILL_SUIDGID) that the caller may not keep them: no
//!                                CAP_FSETID
//!   SETATTR of an owner          the same, whoever calls: whether they have CAP_FSETID is looked up
//!   FALLOCATE                    the kernel says nothing: what the caller's process may do is looked up
//! ```
//!
//! Which of the bits go is the vfs's rule, as Linux's `setattr_should_drop_suidgid`: set-user-ID always,
//! set-group-ID where the group may execute the file or the caller is not of that group. The kernel's own way
//! (without FUSE_HANDLE_KILLPRIV_V2) knows the first half only. It does *not* look up anything of a file
//! without these bits.
//!
//! Source: fs/fuse/dir.c (`fuse_do_setattr`), fs/fuse/file.c; proc_pid_status(5), capabilities(7).

use super::Adapter;
use granary_fs::{Caller, Cred};
use granary_fuse::{NodeId, Request};
use granary_vfs::NodeRef;
use std::fs;

const SET_IDS: u16 = 0o6000;
/// CAP_FSETID of linux/capability.h.
const CAP_FSETID: u64 = 1 << 4;
/// CAP_FOWNER.
const CAP_FOWNER: u64 = 1 << 3;
/// CAP_LINUX_IMMUTABLE.
const CAP_LINUX_IMMUTABLE: u64 = 1 << 9;
/// CAP_SYS_ADMIN.
const CAP_SYS_ADMIN: u64 = 1 << 21;
/// A user who is not root, as which root without that capability counts here.
const NOT_ROOT: u32 = u32::MAX;

/// The user who makes a request, with their privileges as the kernel reports them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester {
    uid: u32,
    gid: u32,
    pid: u32,
    /// They may not keep the bits.
    kill: bool,
}

impl Requester {
    pub(super) fn of(request: &Request<'_>, kill: bool) -> Requester {
        Requester { uid: request.uid, gid: request.gid, pid: request.pid, kill }
    }

    /// As whom a change of content is made: bits that stay are no reason to look anybody up.
    pub(super) fn writes_to(self, node: &NodeRef) -> Caller {
        let has_bits = self.kill && node.view(|a| a.mode & SET_IDS != 0);
        self.caller(if has_bits { self.cred() } else { Cred::ROOT })
    }

    /// The same where the kernel does not say what they may do.
    pub(super) fn allocates_in(self, node: &NodeRef) -> Caller {
        let may_keep = || self.pid == 0 || self.has_fsetid();
        let keeps = node.view(|a| a.mode & SET_IDS == 0) || may_keep();
        self.caller(if keeps { Cred::ROOT } else { self.cred() })
    }

    fn caller(self, cred: Cred) -> Caller {
        Caller::new(cred, self.pid)
    }

    fn cred(self) -> Cred {
        let uid = if self.uid == 0 { NOT_ROOT } else { self.uid };
        Cred { uid, gid: self.gid, groups: groups(self.pid) }
    }

    fn has_fsetid(self) -> bool {
        self.has(CAP_FSETID)
    }

    /// Whether they may do what is for administrators of file systems.
    pub(super) fn administers(self) -> bool {
        self.has(CAP_SYS_ADMIN)
    }

    /// As whom inode flags are set: root where they may set all, the file's owner where they may set what
    /// owners may.
    pub(super) fn sets_flags_of(self, node: &NodeRef) -> Caller {
        let owner = node.view(|a| a.uid);
        self.caller(if self.uid != owner && !self.has(CAP_FOWNER) {
            self.cred()
        } else if self.has(CAP_LINUX_IMMUTABLE) {
            Cred::ROOT
        } else {
            Cred { uid: owner, gid: self.gid, groups: Vec::new() }
        })
    }

    fn has(self, capability: u64) -> bool {
        match field(&status(self.pid), "CapEff:") {
            // A process that cannot be seen: by its user.
            "" => self.uid == 0,
            set => u64::from_str_radix(set, 16).is_ok_and(|set| set & capability != 0),
        }
    }
}

/// The system's status of a process; empty for one that has ended, or cannot be seen from here.
pub(crate) fn status(pid: u32) -> String {
    match pid {
        0 => String::new(),
        pid => fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(),
    }
}

/// The supplementary groups of a process, which a request does not say.
pub(super) fn groups(pid: u32) -> Vec<u32> {
    groups_in(&status(pid))
}

fn groups_in(status: &str) -> Vec<u32> {
    field(status, "Groups:").split_whitespace().filter_map(|g| g.parse().ok()).collect()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
}

impl Adapter {
    /// The mode of a file after a change by which the caller loses the bits; `None`: as it is.
    pub(super) fn mode_without_set_ids(&self, caller: Requester, node: &NodeRef) -> Option<u16> {
        let cred = caller.writes_to(node).cred;
        (cred.uid != 0).then(|| self.vfs.without_set_ids(&cred, node)).flatten()
    }

    /// The mode after a change of the owner or the group by the caller, of whatever is no directory; `None`:
    /// as it is.
    pub(super) fn mode_after_chown(&self, caller: Requester, node: &NodeRef) -> Option<u16> {
        if node.is_dir() || node.view(|a| a.mode & SET_IDS == 0) {
            return None;
        }
        let privileged = caller.pid == 0 || caller.has_fsetid();
        self.vfs.without_set_ids(&if privileged { Cred::ROOT } else { caller.cred() }, node)
    }

    /// Calls `f`; where it has changed the mode of the file, the kernel is told.
    pub(super) fn watching_mode<T>(&self, id: NodeId, node: &NodeRef, f: impl FnOnce() -> T) -> T {
        let mode = || node.view(|a| a.mode);
        let before = mode();
        let done = f();
        if before & SET_IDS != 0 && mode() != before {
            self.forget_attributes(id);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_may_do_is_read() {
        let status = "Name:\tx\nGroups:\t4 24 1000 \nCapEff:\t0000000000000010\n";
        assert_eq!((groups_in(status), field(status, "CapEff:")), (vec![4, 24, 1000], "0000000000000010"));
        assert!(groups_in("").is_empty() && groups_in("Groups:\t \n").is_empty());
        let gone = Requester { uid: 5, gid: 6, pid: u32::MAX, kill: true };
        assert!(!gone.has_fsetid() && Requester { uid: 0, ..gone }.has_fsetid());
        assert_eq!((gone.cred().uid, Requester { uid: 0, ..gone }.cred().uid), (5, NOT_ROOT));
    }
}
