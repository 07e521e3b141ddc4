//! Blocks: changes of a range of a file, and the space that a file system has left.

/// Modes of [`Space::fallocate`](crate::Space::fallocate).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allocate {
    /// Gives every hole of the range blocks that read as zeros, so that writing there cannot run out of
    /// space.
    Reserve {
        /// Leave the file's size as it is, even where the range ends beyond it.
        keep_size: bool,
    },
    /// Makes the range a hole (Linux demands FALLOC_FL_KEEP_SIZE with it: the size never changes).
    PunchHole,
    /// Makes the range read as zeros, with blocks under it.
    ZeroRange {
        /// As with `Reserve`.
        keep_size: bool,
    },
}

impl Allocate {
    /// Whether the file grows where the range ends beyond it.
    pub fn grows(self) -> bool {
        matches!(self, Allocate::Reserve { keep_size: false } | Allocate::ZeroRange { keep_size: false })
    }

    /// Whether what the range held is gone.
    pub fn zeroes(self) -> bool {
        !matches!(self, Allocate::Reserve { .. })
    }
}

/// Space and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Blocks of 4 KiB in all.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Those of the free blocks that the file system keeps for its own metadata, or needs to name the others.
    pub reserved_blocks: u64,
    /// Inodes in all.
    pub inodes: u64,
    /// Free inodes.
    pub free_inodes: u64,
}

impl StatFs {
    /// Free blocks that programs can fill: `f_bavail`.
    pub fn available_blocks(&self) -> u64 {
        self.free_blocks.saturating_sub(self.reserved_blocks)
    }

    /// Of so many free blocks those that the index of one file would take that filled the others, where a
    /// block of an index names `fanout` blocks: what can be filled is the rest.
    pub fn index_of_all(free: u64, fanout: u64) -> u64 {
        let index = |data: u64| {
            let (mut all, mut level) = (0, data);
            while level > 1 {
                level = level.div_ceil(fanout);
                all += level;
            }
            all
        };
        // The index of `free` blocks of data is an upper bound. Less data needs less index: search the least
        // share that suffices.
        let (mut least, mut enough) = (0, index(free).min(free));
        while least < enough {
            let share = (least + enough) / 2;
            match index(free - share) <= share {
                true => enough = share,
                false => least = share + 1,
            }
        }
        enough
    }
}

/// Blocks that [`Space::trim`](crate::Space::trim) tells of at once: 128 MiB.
pub const TRIM_RUN: u64 = 32_768;

#[cfg(test)]
mod tests {
    use super::StatFs;

    #[test]
    fn the_rest_and_its_index_fill_what_is_free() {
        for fanout in [2, 512, 1018] {
            for free in (0..3000).chain([1 << 20, 1 << 30]) {
                let share = StatFs::index_of_all(free, fanout);
                let index = |data: u64| {
                    let levels = std::iter::successors(Some(data), |n| (*n > 1).then(|| n.div_ceil(fanout)));
                    levels.skip(1).sum::<u64>()
                };
                let data = free - share;
                assert!(data + index(data) <= free, "{free} at {fanout}: {share}");
                assert!(
                    share == 0 || data + 1 + index(data + 1) > free,
                    "{free} at {fanout}: {share} is too much"
                );
            }
        }
    }
}
