//! [`names_of_lower!`](crate::names_of_lower): the names of a stacked file system that are its lower layer's.

/// Implements [`Names`](granary_fs::Names) for a file system whose names are those of its
/// [`Lower`](crate::Lower) layer, where it acts as the superuser, since the vfs above has asked whether the
/// caller may.
///
/// The file system has a field `lower`, and methods `below(&self, &Inode) -> Result<NodeRef>`,
/// `created(&self, NodeRef) -> Created`, and `renamed(&self, &[&Inode]) -> Result<()>`, which is told of the
/// inodes whose names or entries a call has changed below.
#[macro_export]
macro_rules! names_of_lower {
    ($fs:ty) => {
        impl $crate::contract::Names for $fs {
            fn lookup(
                &self,
                call: &$crate::contract::Call<'_>,
                dir: &$crate::contract::Inode,
                name: &[u8],
            ) -> $crate::contract::Result<Option<$crate::contract::Ino>> {
                Ok(self.lower.lookup(&call.as_root(), &self.below(dir)?, name)?.map(|node| node.ino()))
            }

            fn readdir(
                &self,
                call: &$crate::contract::Call<'_>,
                dir: &$crate::contract::Inode,
                from: u64,
                emit: &mut dyn FnMut($crate::contract::DirEntry<'_>) -> bool,
            ) -> $crate::contract::Result<()> {
                self.lower.readdir(&call.as_root(), &self.below(dir)?, from, emit)
            }

            fn dir_end(&self, dir: &$crate::contract::Inode) -> u64 {
                self.below(dir).map_or(u64::MAX, |node| self.lower.dir_end(&node))
            }

            fn parent(
                &self,
                call: &$crate::contract::Call<'_>,
                dir: &$crate::contract::Inode,
            ) -> $crate::contract::Result<$crate::contract::Ino> {
                let above = self.lower.lookup(&call.as_root(), &self.below(dir)?, b"..")?;
                above.map(|node| node.ino()).ok_or($crate::contract::FsError::Stale)
            }

            fn is_empty_dir(
                &self,
                call: &$crate::contract::Call<'_>,
                dir: &$crate::contract::Inode,
            ) -> $crate::contract::Result<bool> {
                self.lower.is_empty_dir(&call.as_root(), &self.below(dir)?)
            }

            fn readlink(
                &self,
                call: &$crate::contract::Call<'_>,
                inode: &$crate::contract::Inode,
            ) -> $crate::contract::Result<Vec<u8>> {
                self.lower.readlink(&call.as_root(), &self.below(inode)?)
            }

            fn create(
                &self,
                call: &$crate::contract::Call<'_>,
                dir: &$crate::contract::Inode,
                name: &[u8],
                new: &$crate::contract::NewNode<'_>,
            ) -> $crate::contract::Result<$crate::contract::Created> {
                let made = self.lower.create(&call.as_root(), &self.below(dir)?, name, new)?;
                self.renamed(&[dir])?;
                Ok(self.created(made))
            }

            fn create_unnamed(
                &self,
                call: &$crate::contract::Call<'_>,
                dir: &$crate::contract::Inode,
                new: &$crate::contract::NewNode<'_>,
            ) -> $crate::contract::Result<$crate::contract::Created> {
                Ok(self.created(self.lower.create_unnamed(&call.as_root(), &self.below(dir)?, new)?))
            }

            fn link(
                &self,
                call: &$crate::contract::Call<'_>,
                dir: &$crate::contract::Inode,
                name: &[u8],
                inode: &$crate::contract::Inode,
            ) -> $crate::contract::Result<()> {
                self.lower.link(&call.as_root(), &self.below(inode)?, &self.below(dir)?, name)?;
                self.renamed(&[dir, inode])
            }

            fn unlink(
                &self,
                call: &$crate::contract::Call<'_>,
                dir: &$crate::contract::Inode,
                name: &[u8],
                inode: &$crate::contract::Inode,
            ) -> $crate::contract::Result<()> {
                let (call, above) = (&call.as_root(), self.below(dir)?);
                match inode.view(|a| a.kind) {
                    $crate::contract::FileKind::Dir => self.lower.rmdir(call, &above, name)?,
                    _ => self.lower.unlink(call, &above, name)?,
                }
                self.renamed(&[dir, inode])
            }

            fn rename(
                &self,
                call: &$crate::contract::Call<'_>,
                r: &$crate::contract::Rename<'_>,
            ) -> $crate::contract::Result<()> {
                let (from, to) = (self.below(r.from_dir)?, self.below(r.to_dir)?);
                let flags =
                    $crate::contract::RenameFlags { no_replace: r.target.is_none(), exchange: r.exchange };
                self.lower.rename(&call.as_root(), (&from, r.from), (&to, r.to), flags)?;
                let mut changed = vec![r.from_dir, r.to_dir, r.inode];
                changed.extend(r.target);
                self.renamed(&changed)
            }
        }
    };
}
