//! Progress bars on stderr: one per running file system, or one for all; nothing where stderr is no terminal.

use granary_lab::experiment::{OnProgress, Report};
use granary_workload::run::Phase;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The bars of a comparison.
pub struct Bars {
    all: MultiProgress,
    by_fs: Mutex<BTreeMap<String, ProgressBar>>,
}

impl Bars {
    /// No bars yet. indicatif draws nothing where stderr is no terminal.
    pub fn new() -> Bars {
        Bars { all: MultiProgress::new(), by_fs: Mutex::default() }
    }

    /// A bar for `fs`; returns what the run reports its progress to.
    pub fn start(&self, fs: &str) -> Option<OnProgress> {
        let style = ProgressStyle::with_template("{prefix:>17} {msg:<6} {bar:30} {pos:>9}/{len} {elapsed}")
            .expect("a constant template");
        let bar = self.all.add(ProgressBar::new(0).with_style(style).with_prefix(fs.to_owned()));
        self.by_fs.lock().expect("no panic while held").insert(fs.to_owned(), bar.clone());
        Some(Arc::new(move |Report { progress: p, .. }| {
            bar.set_message(match p.phase {
                Phase::Setup => "setup",
                Phase::Measure => "run",
            });
            bar.set_length(p.total.unwrap_or(p.done));
            bar.set_position(p.done);
        }))
    }

    /// The run of `fs` ended.
    pub fn finish(&self, fs: &str) {
        if let Some(bar) = self.by_fs.lock().expect("no panic while held").remove(fs) {
            bar.finish_and_clear();
        }
    }
}

/// One bar for a fraction of the work.
pub struct Fraction(ProgressBar);

impl Fraction {
    /// At nothing.
    pub fn new() -> Fraction {
        let style = ProgressStyle::with_template("{msg:<12} {bar:40} {percent:>3} % {elapsed}")
            .expect("a constant template");
        Fraction(ProgressBar::new(1000).with_style(style))
    }

    /// `part` (0 to 1) of `phase` is done.
    pub fn set(&self, phase: &str, part: f64) {
        self.0.set_message(phase.to_owned());
        self.0.set_position((part * 1000.0) as u64);
    }

    /// All is done.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
