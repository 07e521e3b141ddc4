//! Which blocks are written in place.

use crate::fs::F2fs;
use crate::options::InPlace;
use granary_fs::WriteBackCause;

impl F2fs {
    /// Whether overwrites of so many pages go in place.
    pub(super) fn in_place(&self, pages: usize, why: WriteBackCause) -> bool {
        match self.options.in_place {
            InPlace::Force => true,
            InPlace::Auto if self.force_in_place => true,
            InPlace::Never => false,
            InPlace::Ssr => self.fills_holes(),
            InPlace::Util => self.is_mostly_used(),
            InPlace::SsrUtil => self.fills_holes() && self.is_mostly_used(),
            InPlace::Fsync | InPlace::Auto => {
                why == WriteBackCause::Sync && pages <= self.options.min_fsync_blocks as usize
            }
        }
    }

    /// `f2fs_need_SSR`.
    pub(super) fn fills_holes(&self) -> bool {
        let segs = self.segs.lock();
        segs.free_count <= segs.ssr_below
    }

    /// More than `min_ipu_util` percent.
    pub(super) fn is_mostly_used(&self) -> bool {
        let s = self.space.lock();
        s.valid * 100 > s.user * 70
    }
}
