//! Extended attributes: all of an inode's are one blob, written anew with each change.

use crate::OrchFs;
use crate::blob;
use crate::layout::Area;
use crate::mount::MOST_ATTRIBUTES;
use crate::node::node;
use crate::pools::{Claim, Taken};
use crate::tx::Tx;
use granary_fs::{Attr, Call, FsError, Inode, Result};

impl OrchFs {
    pub(crate) fn set_xattr(
        &self,
        call: &Call<'_>,
        inode: &Inode,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        self.check_alive()?;
        self.check_lease(inode.ino().0)?;
        self.called(call);
        let node = node(inode);
        let mut state = node.state.write();
        let mut attributes = state.attributes.clone();
        match value {
            Some(value) => drop(attributes.insert(name.to_vec(), value.to_vec())),
            None => drop(attributes.remove(name)),
        }
        let bytes = blob::encode(&attributes);
        if bytes.len() > MOST_ATTRIBUTES {
            return Err(FsError::NoSpace);
        }
        let claim = if value.is_some() { Claim::Metadata } else { Claim::Removal };
        let (mut taken, mut tx) = (Taken::new(&self.pools, call.process, claim), Tx::new(self));
        let mut pages = Vec::new();
        for _ in 0..blob::pages(bytes.len()) {
            pages.push(self.take(&mut taken, Area::Page)?);
        }
        blob::write(&mut tx.batch, &self.layout, inode.ino().0, &pages, &bytes)?;
        taken.keep();
        std::mem::replace(&mut state.attribute_pages, pages)
            .into_iter()
            .for_each(|page| tx.free(Area::Page, page));
        state.attributes = attributes;
        let attr = Attr { ctime: call.time, blocks: state.blocks(), ..inode.attr() };
        tx.put_inode(node, &state, &attr);
        tx.commit(call.process)?;
        inode.update(|a| (a.ctime, a.blocks) = (attr.ctime, attr.blocks));
        Ok(())
    }
}
