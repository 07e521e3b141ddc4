//! `--export FILE`: the records of a command as a file; the ending of its name says the format.

use granary_lab::LabError;
use granary_lab::record::Record;
use granary_lab::report::{csv, html, json_line};
use granary_lab::reproduce::{Judged, Results, claims_csv, claims_json, claims_page};
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

/// Writes the files of a reproduction: statements beside the paper's, and its runs. A CSV file has the statements; the runs go
/// beside it, into NAME.runs.csv.
///
/// # Errors
/// The first that cannot be written.
pub fn write_claims(exports: &[Export], judged: &[Judged], results: &Results) -> Result<(), LabError> {
    let put = |path: &Path, text: String| {
        std::fs::write(path, text)
            .map_err(|source| LabError::Io { what: format!("writing {}", path.display()), source })
    };
    for Export { path, format } in exports {
        match format {
            Format::Json => put(path, claims_json(judged, results))?,
            Format::JsonLines => {
                write(&[Export { path: path.clone(), format: *format }], &results.records())?;
            }
            Format::Csv => {
                put(path, claims_csv(judged))?;
                put(&path.with_extension("runs.csv"), csv(&results.records()))?;
            }
            Format::Html => put(path, claims_page(judged, results))?,
        }
    }
    Ok(())
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
