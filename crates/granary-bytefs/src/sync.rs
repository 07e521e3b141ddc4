//! Durability on request: `sync`, and attributes that only memory knows.

use crate::core::Core;
use crate::journal::Tx;
use crate::node::{Half, Node, Standing};
use granary_fs::Result;

impl Core {
    /// See [`granary_fs::Life::sync`].
    pub fn sync(&self) -> Result<()> {
        {
            let _one = self.syncing.lock();
            let dirty = self.dirty.lock().take();
            for node in &dirty {
                self.persist(node)?;
            }
        }
        self.commit_to(self.journal.sealed())?;
        self.checkpoint_data(false)?;
        self.journal.verify_all(&self.port)
    }

    /// Puts an inode's dirty attributes on media, in a transaction of their own.
    pub(crate) fn persist(&self, node: &Node) -> Result<()> {
        let _change = node.change.lock();
        self.persist_held(node)
    }

    /// The same; the node's change lock is held.
    pub(crate) fn persist_held(&self, node: &Node) -> Result<()> {
        let clean = {
            let body = node.body.lock();
            body.pending.is_none() || body.standing == Standing::Gone
        };
        if clean {
            return Ok(());
        }
        let block = self.inode_block(node.ino)?;
        let mut tx = Tx::new(self);
        tx.touch(&block, self.inode_lines(node.ino, Half::Hot));
        let seq = tx.run(|| {
            let mut body = node.body.lock();
            if let Some(attr) = body.pending {
                self.put_record(&block, node.ino, &mut body, &attr);
            }
        })?;
        node.depends(seq);
        Ok(())
    }
}
