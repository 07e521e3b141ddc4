//! `--export FILE`: the records of a command as a file; the ending of its name says the format.

use granary_lab::LabError;
use granary_lab::record::Record;
use granary_lab::report::{csv, html, json_line};
use std::path::{Path, PathBuf};

/// A file to write, and how.
#[derive(Clone, Debug)]
pub struct Export {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    /// One array.
    Json,
    /// An object per line, as `--json` prints.
    JsonLines,
    Csv,
    Html,
}

/// Reads the argument, before hours of work are done for a file that nobody can write.
///
/// # Errors
/// An ending of no format, or a directory that is not there.
pub fn export(text: &str) -> Result<Export, String> {
    let path = PathBuf::from(text);
    let format = match path.extension().and_then(|e| e.to_str()) {
        Some("json") => Format::Json,
        Some("jsonl") => Format::JsonLines,
        Some("csv") => Format::Csv,
        Some("html" | "htm") => Format::Html,
        _ => return Err("the name ends with .json, .jsonl, .csv or .html".to_owned()),
    };
    match path.parent() {
        Some(dir) if dir != Path::new("") && !dir.is_dir() => {
            Err(format!("there is no directory {}", dir.display()))
        }
        _ if path.is_dir() => Err("this is a directory".to_owned()),
        _ => Ok(Export { path, format }),
    }
}

/// Writes the files.
///
/// # Errors
/// The first that cannot be written.
pub fn write(exports: &[Export], records: &[Record]) -> Result<(), LabError> {
    for Export { path, format } in exports {
        let lines = |end: &str| records.iter().map(json_line).collect::<Vec<_>>().join(end);
        let text = match format {
            Format::Json => format!("[\n{}\n]\n", lines(",\n")),
            Format::JsonLines => format!("{}\n", lines("\n")),
            Format::Csv => csv(records),
            Format::Html => html(records),
        };
        std::fs::write(path, text)
            .map_err(|source| LabError::Io { what: format!("writing {}", path.display()), source })?;
    }
    Ok(())
}
