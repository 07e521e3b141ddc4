//! Changes of names that ended with an error of the drive.
//!
//! ```text
//!   shows all       it has happened; a sync makes it durable, as any other
//!   shows nothing   it may be on the medium; the old state counts as a change behind it, which a sync makes
//!                   durable
//!   unknown         nobody can say which file the name means: the model has gone astray
//! ```

use super::model::{Fate, Model, NodeId};
use super::names::NameChange;
use std::sync::Arc;

/// How much of a change shows that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    All,
    Nothing,
    Unknown,
}

impl NameChange {
    /// How many names it changes.
    pub(crate) fn names(&self) -> usize {
        self.at.len()
    }
}

impl Model {
    /// The nodes that the nth name of a change has before and after it.
    pub(crate) fn sides(&self, change: &NameChange, nth: usize) -> (Option<NodeId>, Option<NodeId>) {
        let (dir, name, is) = &change.at[nth];
        let was = self.node(*dir).entries.get(name).and_then(|slot| slot.before(change.by));
        (was.flatten(), *is)
    }

    /// The change ended with an error of the drive.
    pub(crate) fn doubt_names(&mut self, change: NameChange, shows: Shows) {
        match shows {
            Shows::All => {
                // A call that returned an error promises nothing, not even where each that returns does.
                let durable_calls = std::mem::replace(&mut self.durable_calls, false);
                self.end_names(change, Fate::Done);
                self.durable_calls = durable_calls;
                return;
            }
            Shows::Unknown => self.astray = true,
            Shows::Nothing => {}
        }
        self.stamps.end_named(change.by);
        let by = self.stamps.begin_named();
        for nth in 0..change.names() {
            let (was, _) = self.sides(&change, nth);
            let (dir, name, _) = &change.at[nth];
            let node = Arc::make_mut(&mut self.nodes[dir.0 as usize]);
            if let Some(slot) = Arc::make_mut(&mut node.entries).get_mut(name) {
                slot.push(&self.stamps, by, was);
            }
            node.changes.extend([change.by, by]);
        }
        self.stamps.end_named(by);
        for (node, _) in &change.touched {
            self.node_mut(*node).times.forget();
        }
        Arc::make_mut(&mut self.moves).retain(|m| m.stamp != change.by);
    }
}
