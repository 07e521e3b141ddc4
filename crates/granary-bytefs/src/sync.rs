//! Durability on request: `fsync`, `sync`, and attributes that only memory knows.

use crate::core::Core;
use crate::journal::Tx;
use crate::node::{Half, Node, Standing, node};
use granary_fs::{Inode, Result};
use std::sync::atomic::Ordering::Relaxed;

impl Core {
    /// See [`granary_fs::Data::fsync`]. The commit covers all that was sealed before it; data that went by byte
    /// outside transactions needs a verify of its own only where no commit came after it.
    pub fn fsync(&self, inode: &Inode, data_only: bool) -> Result<()> {
        let node = node(inode);
        {
            // Who is just putting this inode's attributes on media has taken them out of `pending`, and tells of the transaction
            // before it leaves.
            let _change = node.change.lock();
            if !data_only && node.body.lock().dirty.times {
                self.persist_held(node)?;
            }
        }
        self.commit_to(node.last_seq.load(Relaxed))?;
        self.journal.verify_to(&self.port, node.posted.load(Relaxed))
    }

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

    /// See [`granary_fs::Life::release`].
    pub fn release(&self, inode: &Inode) -> Result<()> {
        self.unreserve_from(&mut node(inode).body.lock(), 0);
        self.persist(node(inode))
    }

    /// Puts an inode's dirty attributes on media, in a transaction of their own.
    fn persist(&self, node: &Node) -> Result<()> {
        let _change = node.change.lock();
        self.persist_held(node)
    }

    /// The same; the node's change lock is held.
    fn persist_held(&self, node: &Node) -> Result<()> {
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
