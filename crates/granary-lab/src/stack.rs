//! A directory of the host with persistent memory in front of it: small synchronous writes go to an image of NVM DIMMs, all else to the
//! directory.
//!
//! The image finds its files in the directory by number and date of birth, so that they may be renamed beside it; but a file that is in the
//! image has its newest bytes there. Who is to use the directory alone demotes all files at the unmount.

use crate::error::LabError;
use crate::registry;
use granary_device::Devices;
use granary_image::{Durability, Image, ImageDevices, ImageMeta};
use granary_pmem::DimmConfig;
use granary_units::Bytes;
use granary_vfs::{Caller, DirStream, NodeRef, Vfs, VfsConfig};
use std::path::Path;
use std::sync::Arc;

/// What the header of such an image names in place of a file system of the registry.
const NAME: &str = "spfs-over-directory";

/// How a directory is stacked on.
pub struct Stack<'a> {
    /// The directory.
    pub dir: &'a Path,
    /// The image; it is made where there is nothing.
    pub image: &'a Path,
    /// Size of a new image.
    pub size: Bytes,
    /// What acknowledged changes survive.
    pub durability: Durability,
    /// Of both layers.
    pub vfs: VfsConfig,
    /// Options of the upper layer.
    pub options: &'a toml::Table,
}

/// A directory that is stacked on.
pub struct Stacked {
    /// The upper layer.
    pub vfs: Arc<Vfs>,
    /// The image and its devices.
    pub image: Image,
    /// As opened.
    pub devices: Devices,
    /// It was made now.
    pub new: bool,
}

/// Opens the image and mounts both layers.
///
/// # Errors
/// The image's, the directory's, the file system's.
pub fn open(how: &Stack<'_>) -> Result<Stacked, LabError> {
    let new = !how.image.exists();
    if new {
        let dimms = DimmConfig::optane_dcpmm().with_capacity(how.size);
        let meta = ImageMeta { fs: NAME.to_owned(), ..ImageMeta::default() };
        Image::create(how.image, &ImageDevices::nvm(dimms), meta, false)?;
    }
    let (image, devices) = Image::open(how.image, how.durability, false)?;
    if image.meta().fs != NAME {
        let why =
            format!("the image is one of {}, not of persistent memory over a directory", image.meta().fs);
        return Err(LabError::call(how.image.display().to_string(), why));
    }
    let doing = |what| LabError::fs(NAME, what);
    if new {
        registry::make_over(&devices).map_err(doing("mkfs"))?;
    }
    let below = granary_hostdir::mount(how.dir).map_err(doing("mount"))?;
    let lower = Vfs::mount(below, how.vfs).map_err(doing("mount"))?;
    if !new {
        // A directory of the host knows the numbers of files that were seen only.
        look_around(&lower).map_err(doing("mount"))?;
    }
    let mounted = registry::mount_over(lower.clone(), &devices, how.options);
    let fs = mounted.inspect_err(|_| drop(lower.unmount())).map_err(doing("mount"))?;
    let vfs = Vfs::mount(fs, how.vfs).map_err(doing("mount"))?;
    Ok(Stacked { vfs, image, devices, new })
}

/// Looks at every name of the tree.
fn look_around(vfs: &Arc<Vfs>) -> granary_vfs::Result<()> {
    let mut directories: Vec<NodeRef> = vec![vfs.root()];
    while let Some(dir) = directories.pop() {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let stream = DirStream::default();
        // Behind "." and "..".
        vfs.readdir(&Caller::KERNEL, &dir, &stream, 2, &mut |e| {
            names.push(e.name.to_vec());
            true
        })?;
        for name in names {
            match vfs.lookup(&Caller::KERNEL, &dir, &name) {
                Ok(node) if node.is_dir() => directories.push(node),
                // Somebody else may remove it meanwhile.
                Ok(_) | Err(granary_vfs::FsError::NoEntry) => {}
                Err(e) => return Err(e),
            }
        }
    }
    vfs.reap();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_units::{Dest, Payload};
    use granary_vfs::{Cred, OpenFlags, Posix, Process};

    fn stack<'a>(dir: &'a Path, image: &'a Path, options: &'a toml::Table) -> Stack<'a> {
        let vfs = VfsConfig { inodes: 64, page_cache: Bytes::mib(4), ..VfsConfig::default() };
        Stack { dir, image, size: Bytes::mib(16), durability: Durability::Process, vfs, options }
    }

    /// What was written through the stack is there again after an unmount, also where the file was renamed beside it; and all of it is in
    /// the directory after an unmount that demotes.
    #[test]
    fn a_directory_keeps_its_files_and_gets_them_back_whole() {
        let place = tempfile::tempdir().expect("a directory");
        let (dir, image) = (place.path().join("dir"), place.path().join("pm"));
        std::fs::create_dir_all(dir.join("sub")).expect("made");
        std::fs::write(dir.join("sub/f"), vec![1; 10_000]).expect("written");
        let eager = toml::from_str("promote_after = 2").expect("TOML");
        {
            let stacked = open(&stack(&dir, &image, &eager)).expect("opens");
            let mut p = Process::new(stacked.vfs.clone(), Cred::ROOT);
            let fd = p.open("/sub/f", OpenFlags::RDWR, 0).expect("open");
            for n in 0..4u64 {
                p.pwrite(fd, Payload::Fill { word: 0x0202_0202_0202_0202, len: 100 }, 100 * n)
                    .expect("write");
                p.fsync(fd).expect("fsync");
            }
            p.pwrite(fd, Payload::Fill { word: 0x0303_0303_0303_0303, len: 5 }, 10_000).expect("write");
            p.exit();
            stacked.vfs.unmount().expect("unmounts");
            drop((stacked.vfs, stacked.devices));
            stacked.image.close().expect("closes");
        }
        assert_eq!(
            std::fs::metadata(dir.join("sub/f")).expect("there").len(),
            10_000,
            "the newest is in the image"
        );
        std::fs::rename(dir.join("sub/f"), dir.join("g")).expect("renamed");
        let leaving = toml::from_str("demote_at_unmount = true").expect("TOML");
        let stacked = open(&stack(&dir, &image, &leaving)).expect("opens");
        let mut expected = vec![1; 10_005];
        expected[..400].fill(2);
        expected[10_000..].fill(3);
        let mut p = Process::new(stacked.vfs.clone(), Cred::ROOT);
        let fd = p.open("/g", OpenFlags::RDONLY, 0).expect("open");
        let mut content = vec![0; 20_000];
        assert_eq!(p.read(fd, Dest::Bytes(&mut content)), Ok(10_005));
        assert!(content[..10_005] == expected);
        p.exit();
        stacked.vfs.unmount().expect("unmounts");
        drop((stacked.vfs, stacked.devices));
        stacked.image.close().expect("closes");
        assert!(std::fs::read(dir.join("g")).expect("there") == expected, "the directory has all");
    }
}
