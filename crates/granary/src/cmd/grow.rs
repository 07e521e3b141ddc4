//! `granary grow IMAGE --size N`.

use granary_lab::LabError;
use granary_lab::image::grow;
use granary_units::Bytes;
use std::path::Path;

/// Runs the command.
pub fn run(image: &Path, size: Bytes) -> Result<(), LabError> {
    let grown = grow(image, size)?;
    match grown.after == grown.before {
        true => eprintln!("{}: its drive has {} already", image.display(), grown.after),
        false => eprintln!("{}: {} now, was {}", image.display(), grown.after, grown.before),
    }
    Ok(())
}
