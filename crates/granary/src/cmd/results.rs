//! `--export FILE`: the records of a command as a file; the ending of its name says the format.

use granary_bench::columns::View;
use granary_lab::LabError;
use granary_lab::record::Record;
use granary_lab::report::{csv, html, json_line};
use granary_papers::reproduce::{Judged, Results, claims_csv, claims_json, claims_page};
use std::fs::File;
use std::io::Write as _;
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

/// How wide tables may be: as the terminal is, or as `COLUMNS` says; what is neither gets those of a wide
/// terminal.
pub fn view(latencies: bool) -> View {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(rustix::stdio::stdout()).map(|size| size.ws_col.into());
    let width: Option<usize> = said.or_else(|| terminal().ok()).filter(|width| *width > 0);
    View {
        latencies,
        ..width.map_or_else(View::default, |width| View { width: width.max(40), ..View::default() })
    }
}

fn rendered(format: Format, records: &[Record]) -> String {
    let lines = |end: &str| records.iter().map(json_line).collect::<Vec<_>>().join(end);
    match format {
        Format::Json => format!("[\n{}\n]\n", lines(",\n")),
        Format::JsonLines => format!("{}\n", lines("\n")),
        Format::Csv => csv(records),
        Format::Html => html(records),
    }
}

/// The files for results, opened before there are any: nobody works for hours for a file that cannot be
/// written.
///
/// A file keeps its old content until there are results. A file that was made for them and gets none is
/// removed.
pub struct Outputs {
    exports: Vec<(Format, Output)>,
    /// `results.jsonl` and `results.txt`.
    listed: Option<[Output; 2]>,
}

impl Outputs {
    /// Opens the files of `--export` and those in the directory of `--out`, which is made.
    ///
    /// # Errors
    /// The first that cannot be written, or is named twice.
    pub fn open(exports: &[Export], dir: Option<&Path>) -> Result<Outputs, LabError> {
        for (n, export) in exports.iter().enumerate() {
            if exports[..n].iter().any(|before| before.path == export.path) {
                let path = export.path.display();
                return Err(LabError::Usage(format!("--export {path}: the same file twice: leave one out")));
            }
        }
        let listed = match dir {
            None => None,
            Some(dir) => {
                std::fs::create_dir_all(dir).map_err(|source| writing(dir, source))?;
                Some([Output::open(&dir.join("results.jsonl"))?, Output::open(&dir.join("results.txt"))?])
            }
        };
        let exports = exports
            .iter()
            .map(|e| Ok((e.format, Output::open(&e.path)?)))
            .collect::<Result<_, LabError>>()?;
        Ok(Outputs { exports, listed })
    }

    /// Writes the results: the records, as lines of JSON, and as text.
    ///
    /// # Errors
    /// The first file that cannot be written.
    pub fn write(&mut self, records: &[Record], json: &str, text: &str) -> Result<(), LabError> {
        if let Some([lines, tables]) = &mut self.listed {
            lines.write(json)?;
            tables.write(text)?;
        }
        self.exports.iter_mut().try_for_each(|(format, output)| output.write(&rendered(*format, records)))
    }

    /// Writes the results of a reproduction: the statements beside the paper's, and the runs. A CSV file has
    /// the statements; the runs go beside it, into NAME.runs.csv.
    ///
    /// # Errors
    /// The first file that cannot be written.
    pub fn write_claims(
        &mut self,
        title: &str,
        judged: &[Judged],
        results: &Results,
        json: &str,
        text: &str,
    ) -> Result<(), LabError> {
        if let Some([lines, tables]) = &mut self.listed {
            lines.write(json)?;
            tables.write(text)?;
        }
        for (format, output) in &mut self.exports {
            match format {
                Format::Json => output.write(&claims_json(judged, results))?,
                Format::JsonLines => output.write(json)?,
                Format::Csv => {
                    output.write(&claims_csv(judged))?;
                    Output::open(&output.path.with_extension("runs.csv"))?.write(&csv(&results.records()))?;
                }
                Format::Html => output.write(&claims_page(title, judged, results))?,
            }
        }
        Ok(())
    }
}

/// Whether a file can be written that somebody else will make or replace.
///
/// # Errors
/// It cannot.
pub fn writable(path: &Path) -> Result<(), LabError> {
    Output::open(path).map(drop)
}

/// A file that is open and keeps its content until it is written.
struct Output {
    path: PathBuf,
    file: File,
    /// It was made, and nothing is in it.
    empty: bool,
}

impl Output {
    fn open(path: &Path) -> Result<Output, LabError> {
        let existed = path.exists();
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|source| writing(path, source))?;
        Ok(Output { path: path.to_owned(), file, empty: !existed })
    }

    fn write(&mut self, text: &str) -> Result<(), LabError> {
        self.empty = false;
        let is_regular = self.file.metadata().is_ok_and(|m| m.is_file());
        let cut = if is_regular { self.file.set_len(0) } else { Ok(()) };
        cut.and_then(|()| self.file.write_all(text.as_bytes())).map_err(|source| writing(&self.path, source))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.empty {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn writing(path: &Path, source: std::io::Error) -> LabError {
    LabError::Io { what: format!("writing {}", path.display()), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_held_stays_until_there_are_results() {
        let dir = tempfile::tempdir().expect("a directory");
        let (old, new) = (dir.path().join("old.csv"), dir.path().join("new.csv"));
        std::fs::write(&old, "kept, and longer than what comes").expect("written");
        let exports = [&old, &new].map(|path| export(path.to_str().expect("UTF-8")).expect("a format"));
        let out = dir.path().join("a/b");
        drop(Outputs::open(&exports, Some(&out)).expect("opens"));
        assert_eq!(std::fs::read_to_string(&old).expect("there"), "kept, and longer than what comes");
        assert!(!new.exists() && !out.join("results.txt").exists(), "nothing is left of a run that failed");
        Outputs::open(&exports, Some(&out)).expect("opens").write(&[], "j", "t").expect("writes");
        assert_eq!(std::fs::read_to_string(out.join("results.jsonl")).expect("there"), "j");
        assert_eq!(std::fs::read_to_string(&old).expect("there"), csv(&[]));
        assert_eq!(std::fs::read_to_string(&new).expect("there"), csv(&[]));
    }
}
