//! [`User`]: the resources of this mount that one user's programs hold together.
//!
//! ```text
//!   the user who serves, and the superuser     all that there is: they could end this process anyway
//!   each other user                            a quarter of the connections and of the channels; as many
//!                                              open files as one program
//! ```
//!
//! So nobody keeps others from connecting, nor takes all the memory: a channel takes up to 2 MiB while it is
//! used, an open file 100 bytes. A program that finds nothing left goes the kernel's way.

use super::{MAX_CHANNELS, MAX_PEERS};
use parking_lot::Mutex;
use rustix::process::geteuid;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Files that one program, or one user who neither serves nor is root, may have open this way. By default a
/// process under systemd may have 524,288 files open, of which regular files are a fraction.
pub(super) const MAX_FILES: usize = 1 << 16;

/// See the module.
pub(super) struct User {
    limits: [usize; 3],
    taken: [AtomicUsize; 3],
}

/// Of what.
#[derive(Clone, Copy, Debug)]
pub(super) enum Share {
    Connections,
    Channels,
    Files,
}

impl User {
    fn new(uid: u32) -> User {
        let limits = match uid == 0 || uid == geteuid().as_raw() {
            true => [MAX_PEERS, MAX_CHANNELS, usize::MAX],
            false => [MAX_PEERS / 4, MAX_CHANNELS / 4, MAX_FILES],
        };
        User { limits, taken: Default::default() }
    }

    /// Takes one, if one is left.
    pub(super) fn take(&self, what: Share) -> bool {
        let limit = self.limits[what as usize];
        let more = |n: usize| (n < limit).then_some(n + 1);
        self.taken[what as usize].fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&self, what: Share, count: usize) {
        self.taken[what as usize].fetch_sub(count, SeqCst);
    }
}

/// Those that are connected.
#[derive(Default)]
pub(super) struct Users(Mutex<BTreeMap<u32, Arc<User>>>);

impl Users {
    pub(super) fn get(&self, uid: u32) -> Arc<User> {
        let mut users = self.0.lock();
        // Those that have gone.
        users.retain(|_, user| Arc::strong_count(user) > 1);
        Arc::clone(users.entry(uid).or_insert_with(|| Arc::new(User::new(uid))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_user_gets_a_quarter_and_what_is_given_back_again() {
        let users = Users::default();
        let user = users.get(4_000_000);
        let taken = (0..MAX_PEERS).filter(|_| user.take(Share::Connections)).count();
        assert_eq!(taken, MAX_PEERS / 4);
        assert!(!users.get(4_000_000).take(Share::Connections), "it is one user");
        assert!(user.take(Share::Channels) && users.get(0).take(Share::Connections));
        user.give_back(Share::Connections, 1);
        assert!(user.take(Share::Connections) && !user.take(Share::Connections));
        drop(user);
        assert!(users.get(4_000_000).take(Share::Connections), "nothing is left of who has gone");
    }
}
