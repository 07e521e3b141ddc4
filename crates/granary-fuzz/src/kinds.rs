//! [`Kind`]: the inputs that can come from outside, and the work on them.

mod commands;
mod files;
mod image;
mod requests;
mod text;

use granary_crash::target;
use granary_testbed::registry::FILE_SYSTEMS;
use std::path::{Path, PathBuf};

pub use image::FILE_SYSTEMS as IMAGES;

/// A kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A workload in Filebench's language.
    Filebench,
    /// A job file of fio, for file systems and for drives.
    Fio,
    /// A testbed, and the drive that it describes.
    Testbed,
    /// A trace in any format.
    Trace,
    /// A request of the kernel (FUSE), a place of a direct command.
    Requests,
    /// Commands, loads and stores of a device.
    Commands,
    /// The header of an image, and its other files.
    Header,
    /// Groups of the redo log of an image.
    Journal,
    /// Blocks of a file system that were changed: the index is that of [`IMAGES`].
    Image(usize),
}

impl Kind {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Kind> {
        use Kind::{Commands, Filebench, Fio, Header, Image, Journal, Requests, Testbed, Trace};
        let plain = [Filebench, Fio, Testbed, Trace, Requests, Commands, Header, Journal];
        plain.into_iter().chain((0..IMAGES.len()).map(Image))
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::all().find(|kind| kind.name() == name)
    }

    /// Name on command lines.
    pub fn name(self) -> String {
        match self {
            Kind::Filebench => "filebench",
            Kind::Fio => "fio",
            Kind::Testbed => "testbed",
            Kind::Trace => "trace",
            Kind::Requests => "requests",
            Kind::Commands => "commands",
            Kind::Header => "header",
            Kind::Journal => "journal",
            Kind::Image(at) => return format!("image-{}", IMAGES[at]),
        }
        .to_owned()
    }

    /// Whether its input is text.
    pub fn is_text(self) -> bool {
        matches!(self, Kind::Filebench | Kind::Fio | Kind::Testbed | Kind::Trace)
    }

    /// Does with the bytes what the house does with such input. Errors are welcome; nothing else may come of
    /// it.
    pub fn run(self, bytes: &[u8]) {
        match self {
            Kind::Filebench => text::filebench(bytes),
            Kind::Fio => text::fio(bytes),
            Kind::Testbed => text::testbed(bytes),
            Kind::Trace => text::trace(bytes),
            Kind::Requests => requests::run(bytes),
            Kind::Commands => commands::run(bytes),
            Kind::Header => files::header(bytes),
            Kind::Journal => files::journal(bytes),
            Kind::Image(at) => {
                let name = IMAGES[at];
                let target = target::by_name(FILE_SYSTEMS, name).expect("its crash case is in the registry");
                image::run(name, &target, bytes);
            }
        }
    }

    /// Seeds of the tree: files of its own, and those that others keep of this kind.
    pub fn seeds(self) -> Vec<Vec<u8>> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let own = here.join("seeds").join(match self {
            Kind::Image(_) => "image".to_owned(),
            other => other.name(),
        });
        let mut files = within(&own);
        let workloads = here.join("../granary-workload/workloads");
        files.extend(match self {
            Kind::Filebench => with_end(within(&workloads), "f"),
            Kind::Fio => with_end(within(&workloads), "fio"),
            Kind::Testbed => with_end(within(&here.join("../granary-testbed/testbeds")), "toml"),
            _ => Vec::new(),
        });
        let mut seeds: Vec<Vec<u8>> = files.iter().filter_map(|file| std::fs::read(file).ok()).collect();
        match self {
            Kind::Header => seeds.push(files::seed()),
            Kind::Trace => seeds.push(text::record()),
            Kind::Requests => seeds.extend(requests::seeds()),
            _ => {}
        }
        seeds
    }
}

/// All files in a directory and those in it, in order.
fn within(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { within(&path) } else { vec![path] }).collect()
}

fn with_end(files: Vec<PathBuf>, end: &str) -> Vec<PathBuf> {
    files.into_iter().filter(|file| file.extension().is_some_and(|e| e == end)).collect()
}
