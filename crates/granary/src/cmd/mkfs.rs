//! `granary mkfs IMAGE`.

use crate::cli::MkfsArgs;
use crate::cmd::files::warn;
use granary_image::Image;
use granary_lab::LabError;
use granary_lab::image::{NewImage, make};
use granary_units::Bytes;

/// Runs the command.
pub fn run(args: &MkfsArgs) -> Result<(), LabError> {
    let size: Bytes = args.size.parse().map_err(|e| {
        LabError::call(format!("--size {}", args.size), format!("{e}; write for example 64GiB"))
    })?;
    let (fs, testbed, label) = (&args.fs[..], &args.testbed[..], &args.label[..]);
    let new = NewImage {
        fs,
        size,
        testbed,
        sets: &args.set,
        label,
        force: args.force,
        date: super::date(),
        owner: super::me(),
    };
    make(&args.image, &new)?;
    let info = Image::describe(&args.image)?;
    warn(info.exposed.as_deref());
    let drive = info.devices.ssd.as_ref();
    let capacity = Bytes(drive.map_or(0, |drive| drive.pages()) * 4096);
    if let Some(drive) = drive.filter(|_| capacity > size) {
        let step = drive.flash.with_capacity(Bytes(1)).capacity_pages() * 4096;
        say!(
            "granary: drives of testbed {testbed} have whole rows of blocks: {} instead of {} (the smallest has {})",
            exact(capacity),
            exact(size),
            exact(Bytes(step))
        );
    }
    let dimms = info.devices.nvm.as_ref().map(|nvm| format!("{} of NVM", Bytes(nvm.pages() * 4096)));
    let on = drive.map(|_| format!("a drive of {capacity}")).into_iter().chain(dimms);
    let on = on.collect::<Vec<_>>().join(" and ");
    say!("{}: {fs} on {on}, UUID {}", args.image.display(), info.meta.uuid);
    let own = |set: &String| set.contains("nilfs2.protection_period");
    if fs.split('+').any(|part| part.starts_with("nilfs2")) && !args.set.iter().any(own) {
        say!(
            "granary: nilfs2 keeps what is overwritten or removed for an hour, and a drive that is written over within it is full; \
             `--set nilfs2.protection_period=0` of mkfs or mount gives it back at once"
        );
    }
    Ok(())
}

/// To the byte, where two sizes are to be told apart.
fn exact(size: Bytes) -> String {
    let short = size.to_string();
    if short.parse() == Ok(size) { short } else { format!("{} B", size.0) }
}
