//! `granary stat [--stack DIR] IMAGE`: what the image is, its space, what it counted; of persistent memory in
//! front of a directory also what it has of that.

use crate::cmd::files::warn;
use crate::cmd::stacked;
use granary_device::{DriveCounters, Structure};
use granary_fs::{Call, Space as _, StatFs};
use granary_image::{Durability, Image, ImageError, ImageInfo};
use granary_lab::LabError;
use granary_lab::image::{BLANK, OpenImage};
use granary_mssd::Mode;
use granary_units::Bytes;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Space of a file system, and what keeps dead blocks.
type Room = (StatFs, Option<String>);

/// Files and bytes of the directory that are in persistent memory.
#[derive(serde::Serialize)]
struct Front {
    /// The directory.
    dir: String,
    /// Files of it whose newest bytes are in persistent memory.
    tiered: u64,
    /// Files that are in persistent memory alone.
    alone: u64,
    /// Used bytes of persistent memory.
    in_use: u64,
    /// Its bytes.
    capacity: u64,
}

/// Space of the file system, in blocks of 4 KiB and inodes, and what keeps dead blocks; `None` while another
/// process has the image open, or if there is none.
fn space(image: &Path) -> Result<Option<Room>, LabError> {
    if Image::describe(image)?.meta.fs == BLANK {
        return Ok(None);
    }
    let open = match super::serve::when_free(image, || OpenImage::open(image, Durability::Process, true)) {
        Err(LabError::Image(ImageError::InUse { .. })) => return Ok(None),
        other => other?,
    };
    warn(open.note.as_deref());
    let failed = |what: &'static str| move |e| LabError::call(format!("{what} {}", image.display()), e);
    let fs = open.mount().map_err(failed("mounting"))?;
    let space = fs.statfs(&Call::offline()).map_err(failed("asking"))?;
    let kept = fs.kept_back(&Call::offline()).map_err(failed("asking"))?;
    fs.unmount(&Call::offline()).map_err(failed("unmounting"))?;
    Ok(Some((space, kept)))
}

/// The same of persistent memory in front of a directory, with what it has.
fn stacked_space(image: &Path, dir: &Path) -> Result<(Room, Front), LabError> {
    let look = stacked::look(image, dir)?;
    let failed = |e| LabError::call(format!("asking {}", image.display()), e);
    let asked =
        look.fs.statfs(&Call::offline()).and_then(|space| Ok((space, look.fs.kept_back(&Call::offline())?)));
    let stats = look.fs.stats();
    look.close()?;
    let front = Front {
        dir: dir.display().to_string(),
        tiered: stats.tiered,
        alone: stats.alone,
        in_use: stats.in_use,
        capacity: stats.capacity,
    };
    Ok((asked.map_err(failed)?, front))
}

/// Bytes that the image's files take on this machine's disk.
fn on_host(image: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(image) else { return 0 };
    files.flatten().filter_map(|f| f.metadata().ok()).map(|m| m.blocks() * 512).sum()
}

/// Runs the command.
pub fn run(image: &Path, json: bool) -> Result<(), LabError> {
    stacked::refuse_alone(image, |dir, image| format!("`granary stat --stack {dir} {image}`"))?;
    let info = Image::describe(image)?;
    warn(info.exposed.as_deref());
    let space = space(image)?;
    print(image, &info, space, None, json);
    Ok(())
}

/// Runs it for persistent memory in front of a directory.
pub fn run_stacked(image: &Path, dir: &Path, json: bool) -> Result<(), LabError> {
    let info = Image::describe(image)?;
    let (space, front) = stacked_space(image, dir)?;
    print(image, &info, Some(space), Some(&front), json);
    Ok(())
}

fn print(image: &Path, info: &ImageInfo, space: Option<Room>, front: Option<&Front>, json: bool) {
    let host = on_host(image);
    if json {
        let fs = space.as_ref().map(|(s, kept)| {
            serde_json::json!({
                "blocks": s.blocks, "free_blocks": s.free_blocks, "available_blocks": s.available_blocks(),
                "inodes": s.inodes, "free_inodes": s.free_inodes, "kept": kept
            })
        });
        let mut value = serde_json::json!({
            "image": info.meta, "clean": info.clean, "in_use": space.is_none() && info.meta.fs != BLANK, "drive": info.devices.ssd,
            "pages": info.devices.ssd.as_ref().map(|ssd| ssd.pages()), "host_bytes": host, "space": fs,
            "counters": info.counters.ssd,
        });
        if let Some(nvm) = &info.devices.nvm {
            value["nvm"] =
                serde_json::json!({ "config": nvm, "pages": nvm.pages(), "counters": info.counters.nvm });
        }
        if let Some(front) = front {
            value["front"] = serde_json::json!(front);
        }
        outln!("{value:#}");
    } else {
        print_info(info, space, front, host);
        if info.devices.ssd.is_some() {
            print_counters(&info.counters.ssd);
        }
        if info.devices.nvm.is_some() {
            let (c, bus) = (&info.counters.nvm.dimm, &info.counters.nvm.drive.link);
            outln!(
                "\nNVM DIMMs     {} written and {} read over the bus, {} and {} at the media, {} fences",
                Bytes(bus.written()),
                Bytes(bus.read()),
                c.media_written(),
                c.media_read(),
                c.fences
            );
        }
    }
}

fn print_info(info: &ImageInfo, space: Option<Room>, front: Option<&Front>, host: u64) {
    let m = &info.meta;
    let known = space.is_some() || m.fs == BLANK;
    let state = match (known, info.clean) {
        (false, _) => "in use; space is not known, counters are those of its last clean close",
        (true, true) => "closed cleanly",
        (true, false) => "not closed cleanly: the next mount recovers it",
    };
    let mut rows = vec![
        ("file system", m.fs.clone()),
        ("label", m.label.clone()),
        ("uuid", m.uuid.clone()),
        ("state", state.to_owned()),
    ];
    if let Some(d) = &info.devices.ssd {
        let g = &d.flash.geometry;
        let mode = match d.firmware.mode {
            Mode::Log => format!("write log of {}", d.firmware.log_region),
            Mode::Cache => format!("page cache of {}", d.firmware.cache),
            Mode::Own(name) => name.to_owned(),
        };
        rows.push(("drive", format!("{} from testbed {}, {mode}", Bytes(d.pages() * 4096), m.testbed)));
        rows.push((
            "flash",
            format!(
                "{} channels x {} ways x {} dies x {} planes x {} blocks x {} pages = {}",
                g.channels,
                g.ways,
                g.dies,
                g.planes,
                g.blocks_per_plane,
                g.pages_per_block,
                g.raw()
            ),
        ));
    }
    if let Some(nvm) = &info.devices.nvm {
        rows.push(("nvm", format!("{} DIMMs of {}", nvm.dimms, nvm.capacity)));
    }
    rows.push(("on this disk", Bytes(host).to_string()));
    if let Some((s, kept)) = space {
        let used = Bytes((s.blocks - s.free_blocks) * 4096);
        rows.push(("space", format!("{used} of {} in use", Bytes(s.blocks * 4096))));
        rows.push(("inodes", format!("{} of {} in use", s.inodes - s.free_inodes, s.inodes)));
        rows.push(("kept", kept.unwrap_or_default()));
    }
    if let Some(front) = front {
        let files = format!(
            "{}: {} of its files have their newest bytes here, and {} files are here alone; {} of {} in use",
            front.dir,
            front.tiered,
            front.alone,
            Bytes(front.in_use),
            Bytes(front.capacity)
        );
        rows.push(("in front of", files));
    }
    for (name, value) in rows.iter().filter(|(_, v)| !v.is_empty()) {
        outln!("{name:<13} {value}");
    }
}

fn print_counters(c: &DriveCounters) {
    outln!(
        "\n{:<13} {:>12} {:>12} {:>12} {:>12}",
        "host link",
        "byte read",
        "byte written",
        "block read",
        "block written"
    );
    for s in Structure::ALL {
        let i = s as usize;
        let row = [c.link.byte_read[i], c.link.byte_write[i], c.link.block_read[i], c.link.block_write[i]];
        if row.iter().any(|&n| n > 0) {
            out!("{:<13}", s.name());
            row.iter().for_each(|&n| out!(" {:>12}", Bytes(n).to_string()));
            outln!();
        }
    }
    outln!(
        "flash         {} pages read, {} programmed, {} blocks erased, write amplification {:.2}",
        c.flash.total_reads(),
        c.flash.total_programs(),
        c.flash.erases,
        c.flash.waf()
    );
}
