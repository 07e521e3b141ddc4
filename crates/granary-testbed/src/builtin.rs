//! The built-in testbeds, and the text of any.

use crate::error::TestbedError;
use granary_trace::suggest::meant;

/// Name and text of each built-in testbed.
const BUILTIN: [(&str, &str); 10] = [
    ("bytefs-emulator", include_str!("../testbeds/bytefs-emulator.toml")),
    ("bytefs-reproduction", include_str!("../testbeds/bytefs-reproduction.toml")),
    ("bytefs-fpga", include_str!("../testbeds/bytefs-fpga.toml")),
    ("cxl", include_str!("../testbeds/cxl.toml")),
    ("pebblessd", include_str!("../testbeds/pebblessd.toml")),
    ("devfs", include_str!("../testbeds/devfs.toml")),
    ("orchfs", include_str!("../testbeds/orchfs.toml")),
    ("orchfs-pcie5", include_str!("../testbeds/orchfs-pcie5.toml")),
    ("spfs", include_str!("../testbeds/spfs.toml")),
    ("spfs-nvdimm", include_str!("../testbeds/spfs-nvdimm.toml")),
];

/// The built-in testbeds.
pub fn builtins() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUILTIN.into_iter()
}

/// The text of a testbed: a built-in name, or the path of a file.
///
/// # Errors
/// Neither exists; the file cannot be read.
pub fn text(name: &str) -> Result<String, TestbedError> {
    if let Some((_, text)) = builtins().find(|(n, _)| *n == name) {
        return Ok(text.to_owned());
    }
    if !std::path::Path::new(name).exists() {
        let known: Vec<&str> = builtins().map(|(n, _)| n).collect();
        let meant = meant(name, known.iter().copied());
        return Err(TestbedError::UnknownTestbed { name: name.to_owned(), meant, known: known.join(", ") });
    }
    std::fs::read_to_string(name)
        .map_err(|source| TestbedError::Io { what: format!("reading {name}"), source })
}
