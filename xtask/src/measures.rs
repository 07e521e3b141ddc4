//! `cargo xtask measures`: measures of the prose in documents and comments, and their limits.
//!
//! Exit code 1 where a limit is passed; each place is named.

mod prose;

use clap::Args as ClapArgs;
use prose::{comment, comments, is_fused, paragraphs, sentences, words};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Documents that a reader begins with.
const FIRST: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "DESIGN.md", "docs/GUARANTEES.md", "docs/FAULT_MODEL.md"];
/// Words of half of their sentences, at most.
const MEDIAN: usize = 15;
/// Words of any sentence, at most.
const LONGEST: usize = 40;
/// Sentences in a hundred that open with a fused relative: fewer than this.
const FUSED: f64 = 1.0;
/// Columns of a comment line.
const COLUMNS: usize = 110;
/// Lines or words of a document, at most.
const SIZES: [(&str, Size); 3] = [
    ("README.md", Size::Lines(120)),
    ("DESIGN.md", Size::Words(7_000)),
    ("docs/BENCHMARKS.md", Size::Lines(250)),
];
/// Places named for each limit that is passed.
const NAMED: usize = 10;

#[derive(Clone, Copy)]
enum Size {
    Lines(usize),
    Words(usize),
}

/// Arguments.
#[derive(ClapArgs)]
pub struct Args {
    /// Files to measure; all of the tree where left out
    files: Vec<PathBuf>,
    /// Name all places, not the first ten of each kind
    #[arg(long)]
    all: bool,
}

/// Findings in one kind of text.
#[derive(Default)]
struct Found {
    sentences: usize,
    fused: Vec<String>,
    long: Vec<String>,
}

impl Found {
    fn look(&mut self, file: &Path, document: &str) {
        for sentence in paragraphs(document).iter().flat_map(|paragraph| sentences(paragraph)) {
            self.sentences += 1;
            let place = |what: &str| format!("{}: {what}", file.display());
            if is_fused(&sentence) {
                self.fused.push(place(&sentence));
            }
            let count = words(&sentence);
            if count > LONGEST {
                self.long.push(place(&format!("{count} words: {sentence}")));
            }
        }
    }
}

/// Lines of a report, and whether a limit was passed.
struct Verdict {
    failed: bool,
    named: usize,
}

impl Verdict {
    fn tell(&mut self, what: &str, good: bool, places: &[String]) {
        println!("{} {what}", if good { "ok  " } else { "OVER" });
        if !good {
            self.failed = true;
            places.iter().take(self.named).for_each(|place| println!("       {place}"));
            if places.len() > self.named {
                println!("       and {} more: --all", places.len() - self.named);
            }
        }
    }
}

/// Measures, and says what passes a limit.
///
/// # Errors
/// A file cannot be read.
pub fn run(args: &Args) -> Result<ExitCode, String> {
    let files = if args.files.is_empty() { tree()? } else { args.files.clone() };
    let mut verdict = Verdict { failed: false, named: if args.all { usize::MAX } else { NAMED } };
    let (mut documents, mut in_comments, mut wide) = (Found::default(), Found::default(), Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).map_err(|e| format!("reading {}: {e}", file.display()))?;
        if file.extension().is_some_and(|e| e == "md") {
            documents.look(file, &text);
            sizes(file, &text, &mut verdict);
        } else {
            comments(&text).iter().for_each(|comment| in_comments.look(file, comment));
            let too_wide = |(n, line): (usize, &str)| {
                let is = comment(line).is_some() && line.chars().count() > COLUMNS;
                is.then(|| format!("{}:{}", file.display(), n + 1))
            };
            wide.extend(text.lines().enumerate().filter_map(too_wide));
        }
    }
    for (kind, found) in [("documents", &documents), ("comments", &in_comments)] {
        let share = found.fused.len() as f64 * 100.0 / found.sentences.max(1) as f64;
        let what = format!(
            "{kind}: {share:.2} of 100 sentences open with a fused relative ({} sentences)",
            found.sentences
        );
        verdict.tell(&what, share < FUSED, &found.fused);
        let what = format!("{kind}: {} sentences of more than {LONGEST} words", found.long.len());
        verdict.tell(&what, found.long.is_empty(), &found.long);
    }
    verdict.tell(
        &format!("comments: {} lines wider than {COLUMNS} columns", wide.len()),
        wide.is_empty(),
        &wide,
    );
    Ok(ExitCode::from(u8::from(verdict.failed)))
}

/// The limits of one document.
fn sizes(file: &Path, text: &str, verdict: &mut Verdict) {
    let name = file.strip_prefix("./").unwrap_or(file);
    if FIRST.iter().any(|first| name == Path::new(first)) {
        let mut all: Vec<usize> =
            paragraphs(text).iter().flat_map(|p| sentences(p)).map(|s| words(&s)).collect();
        all.sort_unstable();
        let median = all.get(all.len() / 2).copied().unwrap_or_default();
        verdict.tell(
            &format!("{}: half of the sentences have {median} words or less", name.display()),
            median <= MEDIAN,
            &[],
        );
    }
    for (_, size) in SIZES.iter().filter(|(of, _)| name == Path::new(of)) {
        let (is, most, what) = match size {
            Size::Lines(most) => (text.lines().count(), *most, "lines"),
            Size::Words(most) => (text.split_whitespace().count(), *most, "words"),
        };
        verdict.tell(&format!("{}: {is} {what}, {most} at most", name.display()), is <= most, &[]);
    }
}

/// Documents and sources of the tree.
fn tree() -> Result<Vec<PathBuf>, String> {
    let mut all = Vec::new();
    let mut todo = vec![PathBuf::from(".")];
    while let Some(dir) = todo.pop() {
        let broken = |e: std::io::Error| format!("reading {}: {e}", dir.display());
        for entry in fs::read_dir(&dir).map_err(broken)? {
            let path = entry.map_err(broken)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    todo.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "md" || e == "rs") {
                all.push(path);
            }
        }
    }
    all.sort();
    Ok(all)
}
