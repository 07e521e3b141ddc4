//! Extended attributes: all of an inode's are one blob, written anew with each change.

use crate::blob;
use crate::blob::MOST_ATTRIBUTES;
use crate::fs::OrchFs;
use crate::layout::Area;
use crate::node::node;
use crate::pools::{Claim, Taken};
use crate::tx::Tx;
use granary_fs::{Attr, Attributes, Call, FsError, Inode, Result, SetAttr};

impl Attributes for OrchFs {
    fn setattr(&self, call: &Call<'_>, inode: &Inode, set: &SetAttr) -> Result<()> {
        self.set_attributes(call, inode, set)
    }

    fn touch_atime(&self, call: &Call<'_>, inode: &Inode) -> Result<()> {
        let node = node(inode);
        let state = node.state.write();
        let attr = inode.attr().with(|a| a.accessed(call.time));
        let mut tx = Tx::new(self);
        tx.put_inode(node, &state, &attr);
        tx.commit(call.process)?;
        inode.update(|a| a.accessed(call.time));
        Ok(())
    }

    fn getxattr(&self, _call: &Call<'_>, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(node(inode).state.read().attributes.get(name).cloned())
    }

    fn setxattr(&self, call: &Call<'_>, inode: &Inode, name: &[u8], value: Option<&[u8]>) -> Result<()> {
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
        let attr = Attr { blocks: state.blocks(), ..inode.attr().with(|a| a.changed(call.time)) };
        tx.put_inode(node, &state, &attr);
        tx.commit(call.process)?;
        inode.update(|a| (a.ctime, a.blocks) = (attr.ctime, attr.blocks));
        Ok(())
    }

    fn listxattr(&self, _call: &Call<'_>, inode: &Inode) -> Result<Vec<Vec<u8>>> {
        Ok(node(inode).state.read().attributes.keys().cloned().collect())
    }

    fn generation(&self, inode: &Inode) -> u32 {
        node(inode).generation
    }
}
