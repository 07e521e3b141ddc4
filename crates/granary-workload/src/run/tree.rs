//! [`Tree`]: the directories, files and leaf directories of a fileset, as Filebench lays them out.
//!
//! ```text
//!   /data/bigfileset                 the root: only subdirectories, as many as it takes
//!   ├── 00000001                     depth 2: deep enough? then it holds files, else subdirectories
//!   │   ├── 00000001 .. 00000019     as many as its width says; files of one directory have consecutive
//!                                    numbers
//!   └── 00000002
//!       ├── 00000001
//!       │   └── 00000001 .. 00000023
//!       └── 00000002
//! ```
//!
//! The mean depth is `ln(entries + leafdirs) / ln(mean width)`; every directory draws its own depth limit and
//! width from gamma distributions of shape `dirgamma` (1.5) around these means, or takes the means where
//! `dirgamma` is 0. A directory below the root whose level has reached its limit holds files, then leaf
//! directories; the others hold directories. The root goes on until all entries exist. So even a `dirwidth`
//! of all entries gives a handful of directories, not one: widths vary.
//!
//! Names are numbers of eight digits from 1. Filebench starts again at 1 for leaf directories (and for
//! directories that are added for them), so that their names can collide with files; here the numbering goes
//! on.
//!
//! Memory: 4 bytes per file (12 where sizes vary) and 20 per directory; paths are built on demand into a
//! [`PathBuffer`].
//!
//! Source: Filebench 1.5-alpha3, fileset population.

use super::draw::Draws;
use super::error::RunError;
use crate::spec::{FilesetSpec, RandomVar, Value};
use granary_fs::PATH_MAX;
use granary_sim::rng::Stream;
use std::sync::Arc;

/// No directory: the root's parent.
const NONE: u32 = u32::MAX;

/// The most entries of each kind: the top bit of an entry's number is free for other uses.
const MAX_ENTRIES: u64 = 1 << 31;

/// The shape of a fileset; it never changes after it was made.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The root directory, such as `/data/bigfileset`.
    root: Vec<u8>,
    dirs: Vec<Dir>,
    file_dir: Vec<u32>,
    leaf_dir: Vec<u32>,
    sizes: Sizes,
}

#[derive(Debug)]
struct Dir {
    parent: u32,
    serial: u32,
    first_file: u32,
    first_leaf: u32,
    /// Serial of its first leaf directory.
    leaf_serial: u32,
}

#[derive(Debug)]
enum Sizes {
    All(u64),
    Each(Vec<u64>),
}

impl Tree {
    /// Draws the tree of `spec`.
    ///
    /// # Errors
    /// [`RunError::Fileset`] where it has too many entries or its path is too long.
    pub(crate) fn new(spec: &FilesetSpec, randoms: &Arc<[RandomVar]>, seed: u64) -> Result<Tree, RunError> {
        let refuse = |reason: String| Err(RunError::Fileset { fileset: spec.name.clone(), reason });
        let entries = if spec.single_file { 1 } else { spec.entries };
        if entries > MAX_ENTRIES || spec.leafdirs > MAX_ENTRIES {
            return refuse(format!("more than {MAX_ENTRIES} entries"));
        }
        let mut root = spec.path.trim_end_matches('/').as_bytes().to_vec();
        if root.first() != Some(&b'/') {
            root.insert(0, b'/');
        }
        if root.len() > 1 {
            root.push(b'/');
        }
        root.extend_from_slice(spec.name.as_bytes());
        // Room for the name of a file, and for two more levels.
        let Some(room) = (PATH_MAX - 1).checked_sub(root.len() + 3 * NAME) else {
            return refuse("its path is too long".into());
        };
        let shape = Shape::new(spec, entries + spec.leafdirs, room / NAME, randoms, seed);
        let mut builder = Builder {
            tree: Tree {
                root,
                dirs: Vec::new(),
                file_dir: Vec::new(),
                leaf_dir: Vec::new(),
                sizes: Sizes::All(0),
            },
            shape,
            entries: entries as usize,
            leafdirs: spec.leafdirs as usize,
        };
        builder.build();
        let mut tree = builder.tree;
        tree.sizes = match spec.size {
            Value::Const(size) => Sizes::All(size),
            Value::Random(_) => {
                let mut draws = Draws::new(randoms, seed, &format!("sizes of {}", spec.name));
                Sizes::Each((0..entries).map(|_| draws.int(spec.size)).collect())
            }
        };
        Ok(tree)
    }

    pub(crate) fn files(&self) -> usize {
        self.file_dir.len()
    }

    pub(crate) fn leaves(&self) -> usize {
        self.leaf_dir.len()
    }

    /// Directories of the tree, the root included (number 0).
    pub(crate) fn dirs(&self) -> usize {
        self.dirs.len()
    }

    /// Bytes that a file is given when it is written whole.
    #[inline]
    pub(crate) fn size(&self, file: u32) -> u64 {
        match &self.sizes {
            Sizes::All(size) => *size,
            Sizes::Each(sizes) => sizes[file as usize],
        }
    }

    pub(crate) fn root(&self) -> &[u8] {
        &self.root
    }

    /// The directory that holds a file.
    pub(crate) fn dir_of(&self, file: u32) -> u32 {
        self.file_dir[file as usize]
    }

    /// The directory that holds this one; `None` for the root.
    pub(crate) fn parent(&self, dir: u32) -> Option<u32> {
        Some(self.dirs[dir as usize].parent).filter(|&p| p != NONE)
    }
}

/// Length of a name with its slash, for numbers below 10^8.
const NAME: usize = 9;

/// The distributions of depth and width.
struct Shape {
    mean_depth: f64,
    mean_width: Option<f64>,
    gamma: f64,
    max_depth: u32,
    spec_depth: Option<crate::spec::RandomId>,
    spec_width: Value,
    draws: Draws,
    stream: Stream,
}

impl Shape {
    fn new(spec: &FilesetSpec, all: u64, max_depth: usize, randoms: &Arc<[RandomVar]>, seed: u64) -> Shape {
        // Filebench truncates the mean of a random width.
        let mean_width = spec.dirwidth.mean(randoms).trunc();
        // A width of 1 or less would give an infinite depth; Filebench's conversion to int then makes every
        // directory below the root hold files.
        let mean_depth =
            if mean_width > 1.0 && all > 0 { libm::log(all as f64) / libm::log(mean_width) } else { 0.0 };
        let owner = format!("tree of {}", spec.name);
        Shape {
            mean_depth,
            mean_width: spec.dirwidth.constant().map(|w| w as f64),
            gamma: spec.dir_gamma,
            max_depth: max_depth as u32,
            spec_depth: spec.depth,
            spec_width: spec.dirwidth,
            draws: Draws::new(randoms, seed, &owner),
            stream: Stream::new(seed, &format!("workload {owner}")),
        }
    }

    fn around(&mut self, mean: f64) -> f64 {
        if self.gamma > 0.0 && mean > 0.0 { self.stream.gamma(self.gamma, mean / self.gamma) } else { mean }
    }

    /// Whether a new directory at `level` (the root is at 1) holds files, and how many children it wants.
    fn draw(&mut self, level: u32) -> (bool, usize) {
        let limit = match self.spec_depth {
            Some(id) => self.draws.with_mean(id, self.mean_depth),
            None => self.around(self.mean_depth),
        };
        let limit = limit.trunc().max(1.0);
        let width = match self.mean_width {
            Some(mean) => self.around(mean),
            None => self.draws.real(self.spec_width),
        };
        let holds_files = f64::from(level) >= limit || level >= self.max_depth;
        (holds_files, width.ceil().max(1.0) as usize)
    }
}

/// A directory whose children are being made; Filebench's recursion, on a stack of our own.
struct Open {
    dir: u32,
    level: u32,
    holds_files: bool,
    width: usize,
    /// Children made in this phase.
    made: usize,
    /// Serial of the next child.
    serial: u32,
    /// First phase: files (and what holds them); second: leaf directories.
    second: bool,
}

struct Builder {
    tree: Tree,
    shape: Shape,
    entries: usize,
    leafdirs: usize,
}

impl Builder {
    fn build(&mut self) {
        let mut open = vec![self.open(NONE, 1, 1)];
        while let Some(top) = open.last_mut() {
            let root = top.dir == 0;
            let left = if top.second {
                self.leafdirs - self.tree.leaf_dir.len()
            } else {
                self.entries - self.tree.file_dir.len()
            };
            let wanted = if root { left } else { left.min(top.width - top.made) };
            if wanted == 0 {
                if top.second {
                    open.pop();
                } else {
                    (top.second, top.made) = (true, 0);
                    self.tree.dirs[top.dir as usize].leaf_serial = top.serial;
                }
            } else if !root && top.holds_files {
                let list = if top.second { &mut self.tree.leaf_dir } else { &mut self.tree.file_dir };
                list.resize(list.len() + wanted, top.dir);
                top.made += wanted;
                top.serial += wanted as u32;
            } else {
                let (dir, serial, level) = (top.dir, top.serial, top.level + 1);
                top.made += 1;
                top.serial += 1;
                let child = self.open(dir, serial, level);
                open.push(child);
            }
        }
    }

    fn open(&mut self, parent: u32, serial: u32, level: u32) -> Open {
        let dir = self.tree.dirs.len() as u32;
        self.tree.dirs.push(Dir {
            parent,
            serial,
            first_file: self.tree.file_dir.len() as u32,
            first_leaf: self.tree.leaf_dir.len() as u32,
            leaf_serial: 1,
        });
        let (holds_files, width) = self.shape.draw(level);
        // A directory that is opened for leaf directories finds no file left, so its first phase is empty and
        // its first leaf is the next one to be made; one that holds files has its leaves right after them.
        Open { dir, level, holds_files, width, made: 0, serial: 1, second: false }
    }
}

/// Builds paths from their end, in one buffer that is used again and again.
pub(crate) struct PathBuffer {
    bytes: Box<[u8; PATH_MAX]>,
    start: usize,
}

impl PathBuffer {
    pub(crate) fn new() -> PathBuffer {
        PathBuffer { bytes: Box::new([0; PATH_MAX]), start: PATH_MAX }
    }

    /// The path of a file.
    pub(crate) fn file(&mut self, tree: &Tree, file: u32) -> &[u8] {
        let dir = tree.file_dir[file as usize];
        self.start = PATH_MAX;
        self.number(file - tree.dirs[dir as usize].first_file + 1);
        self.above(tree, dir)
    }

    /// The path of a leaf directory.
    pub(crate) fn leaf(&mut self, tree: &Tree, leaf: u32) -> &[u8] {
        let dir = tree.leaf_dir[leaf as usize];
        let Dir { first_leaf, leaf_serial, .. } = tree.dirs[dir as usize];
        self.start = PATH_MAX;
        self.number(leaf - first_leaf + leaf_serial);
        self.above(tree, dir)
    }

    /// The path of a directory of the tree.
    pub(crate) fn dir(&mut self, tree: &Tree, dir: u32) -> &[u8] {
        self.start = PATH_MAX;
        self.above(tree, dir)
    }

    fn above(&mut self, tree: &Tree, mut dir: u32) -> &[u8] {
        loop {
            let Dir { parent, serial, .. } = tree.dirs[dir as usize];
            if parent == NONE {
                break;
            }
            self.number(serial);
            dir = parent;
        }
        let end = self.start;
        self.start -= tree.root.len();
        self.bytes[self.start..end].copy_from_slice(&tree.root);
        &self.bytes[self.start..]
    }

    /// Puts a slash and a number of at least eight digits in front.
    #[inline]
    fn number(&mut self, n: u32) {
        let high = n / 100_000_000;
        self.start -= NAME;
        let name = &mut self.bytes[self.start..self.start + NAME];
        name[1..].copy_from_slice(&eight_digits(n % 100_000_000));
        if high > 0 {
            // Ten digits at most: the two in front take the place of the slash and one more.
            let two = [b'0' + (high / 10) as u8, b'0' + (high % 10) as u8];
            let more = if high >= 10 { &two[..] } else { &two[1..] };
            self.start -= more.len();
            self.bytes[self.start + 1..][..more.len()].copy_from_slice(more);
        }
        self.bytes[self.start] = b'/';
    }
}

/// The decimal digits of `n`, below 10^8, all computed at once.
///
/// ```text
///   12345678 -> 1234 | 5678          two lanes of 32 bits
///            -> 12 | 34 | 56 | 78    four of 16, by multiplying with 10486 / 2^20 = 1/100 (exact below 10^4)
///            -> 1 | 2 | ... | 8      eight of 8, by multiplying with 103 / 2^10 = 1/10 (exact below 100)
/// ```
fn eight_digits(n: u32) -> [u8; 8] {
    let fours = u64::from(n / 10_000) | (u64::from(n % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | ((twos - 10 * tens) << 8);
    (ones | 0x3030_3030_3030_3030).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::{PathBuffer, eight_digits};
    use granary_fs::PATH_MAX;

    #[test]
    fn digits_are_decimal() {
        for n in (0..100_000_000).step_by(9_973).chain([9, 10, 99, 100, 9_999, 10_000, 99_999_999]) {
            assert_eq!(eight_digits(n), format!("{n:08}").as_bytes(), "{n}");
        }
    }

    #[test]
    fn names_have_eight_digits_or_as_many_as_they_need() {
        let mut path = PathBuffer::new();
        for n in [0, 1, 99_999_999, 100_000_000, 999_999_999, 1_000_000_000, 2_147_483_648] {
            path.start = PATH_MAX;
            path.number(n);
            assert_eq!(path.bytes[path.start..], *format!("/{n:08}").as_bytes());
        }
    }
}
