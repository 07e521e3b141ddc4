//! [`Bench`]: crash states of a recording, mounted and compared one after the other.
//!
//! ```text
//!   state ─> image file ─> loop device ─> mount: the file system's own recovery ─> oracle
//!         ─> use ─> unmount ─> checker
//! ```

use super::client::Client;
use super::image::Image;
use super::kind::Kind;
use super::mounted::Mount;
use super::recording::Recording;
use super::states::{self, CrashState};
use crate::cmd::loopdev::LoopDevice;
use granary_sim::rng::Stream;
use rustc_hash::FxHashSet;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Of so many states one is written to after the recovery.
const USED: u64 = 8;
/// Of so many states one is given to the checker.
const CHECKED: u64 = 10;
/// Calls before the power failure that a complaint tells.
const TOLD: usize = 12;
/// Broken promises that a complaint tells.
const MOST: usize = 8;

/// A state in which something is wrong.
#[derive(Debug)]
pub struct Complaint {
    /// The run.
    pub seed: u64,
    /// The state of the run.
    pub number: u64,
    /// The load.
    pub load: String,
    /// The state, in words.
    pub state: String,
    /// Broken promises, what the kernel refused, what the checker says.
    pub wrong: Vec<String>,
    /// The call that promised what the first of them is about.
    pub promised: Option<String>,
    /// Calls before the power failed; the last had begun.
    pub calls: Vec<String>,
    /// The image as the power failure left it; beside it, as text, what the drive was asked and which calls
    /// were made.
    pub image: Option<PathBuf>,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// States that were mounted and compared.
    pub states: u64,
    /// States that were drawn once more: nothing new.
    pub again: u64,
    /// Files that were compared.
    pub files: u64,
    /// States that the checker saw.
    pub checked: u64,
    /// Writes that were not covered by a flush, over all states.
    pub loose: u64,
}

/// Where states are mounted.
pub struct Bench<'a> {
    kind: &'a Kind,
    image: Image,
    device: LoopDevice,
    dir: PathBuf,
    seen: FxHashSet<u64>,
    /// Flushes that the drive lies about.
    pub ignored: usize,
    /// The directory of images that are kept.
    pub keep: Option<PathBuf>,
    /// How much was looked at.
    pub tally: Tally,
}

impl<'a> Bench<'a> {
    /// In `dir`, which has an empty directory `state`.
    ///
    /// # Errors
    /// The system's, in one sentence.
    pub fn new(kind: &'a Kind, dir: &Path) -> Result<Bench<'a>, String> {
        let image = Image::new(&dir.join("image"), kind.size).map_err(|e| format!("making an image: {e}"))?;
        let device = LoopDevice::over(image.path(), false).map_err(|e| e.to_string())?;
        let (seen, tally) = (FxHashSet::default(), Tally::default());
        Ok(Bench { kind, image, device, dir: dir.join("state"), seen, ignored: 0, keep: None, tally })
    }

    /// Tries the state with this number. `None`: nothing is wrong, or it was seen already.
    ///
    /// # Errors
    /// Why it cannot be tried, in one sentence.
    pub fn attempt(
        &mut self,
        tape: &Recording,
        load: &str,
        number: u64,
    ) -> Result<Option<Complaint>, String> {
        let mut random = Stream::new(tape.seed, &format!("state {number}"));
        let calls: Vec<usize> = tape.notes.iter().map(|note| note.at).collect();
        let cut = states::busy_cut(&tape.entries, &calls, self.ignored, &mut random);
        let state = states::draw(&tape.entries, cut, self.ignored, &mut random);
        if !self.seen.insert(state.identity) {
            self.tally.again += 1;
            return Ok(None);
        }
        self.image.become_state(&tape.base, &state.overlay).map_err(|e| format!("writing a state: {e}"))?;
        let note = tape.note_at(cut);
        let mut wrong = self.wrong(tape, note, number);
        if !wrong.is_empty() {
            // Once more: whoever had the device open meanwhile may have kept blocks of another state in
            // memory.
            self.image
                .become_state(&tape.base, &state.overlay)
                .map_err(|e| format!("writing a state: {e}"))?;
            wrong = self.wrong(tape, note, number);
        }
        self.tally.states += 1;
        self.tally.loose += state.loose as u64;
        if wrong.is_empty() {
            return Ok(None);
        }
        let complaint = self.complaint(tape, load, number, &state, note, wrong);
        Ok(Some(complaint))
    }

    fn wrong(&mut self, tape: &Recording, note: usize, number: u64) -> Vec<String> {
        // The kernel drops a device's blocks with its last user, which need not be us.
        if let Ok(device) = std::fs::File::open(self.device.path()) {
            let _ = rustix::fs::fadvise(&device, 0, None, rustix::fs::Advice::DontNeed);
        }
        let mount = match Mount::new(self.kind, self.device.path(), &self.dir) {
            Ok(mount) => mount,
            Err(e) => return vec![format!("it cannot be mounted: {e} (the kernel's log says more)")],
        };
        let mut client = Client::new(&self.dir, 0, None);
        let verdict = tape.notes[note].promises.verify(&mut client);
        self.tally.files += verdict.files;
        let mut wrong = verdict.violations;
        if number.is_multiple_of(USED)
            && let Err(e) = used(&self.dir)
        {
            wrong.push(format!("it cannot be used after its recovery: {e}"));
        }
        if let Err(e) = mount.end() {
            wrong.push(format!("it cannot be unmounted: {e}"));
            return wrong;
        }
        if number.is_multiple_of(CHECKED) || !wrong.is_empty() {
            self.tally.checked += 1;
            wrong.extend(self.kind.check(self.image.path()).err());
        }
        wrong
    }

    /// Puts the image, as the power failure left it, into the directory of images that are kept, if there is
    /// one.
    fn keep_image(
        &mut self,
        tape: &Recording,
        number: u64,
        state: &CrashState,
    ) -> Result<Option<PathBuf>, String> {
        let Some(dir) = &self.keep else { return Ok(None) };
        let told = |e: std::io::Error| format!("{}: {e}", dir.display());
        std::fs::create_dir_all(dir).map_err(told)?;
        let path = dir.join(format!("{}-{}-{number}.img", self.kind.name, tape.seed));
        self.image.become_state(&tape.base, &state.overlay).map_err(told)?;
        let mut copy = std::process::Command::new("cp");
        super::kind::run(copy.arg("--sparse=always").arg(self.image.path()).arg(&path))?;
        std::fs::write(path.with_extension("txt"), tape.told(state.cut, &state.kept)).map_err(told)?;
        Ok(Some(path))
    }

    fn complaint(
        &mut self,
        tape: &Recording,
        load: &str,
        number: u64,
        state: &CrashState,
        note: usize,
        mut wrong: Vec<String>,
    ) -> Complaint {
        let promised = wrong.first().and_then(|first| promise(tape, note, first));
        let more = wrong.len().saturating_sub(MOST);
        wrong.truncate(MOST);
        if more > 0 {
            wrong.push(format!("and {more} more"));
        }
        let calls = tape.notes[(note + 1).saturating_sub(TOLD)..=note].iter();
        let words = format!(
            "the power failed before request {} of {}; of {} writes that no flush covered these are there: {:?}",
            state.cut,
            tape.entries.len(),
            state.loose,
            state.kept
        );
        let image = self.keep_image(tape, number, state).unwrap_or_else(|e| {
            wrong.push(format!("(the image was not kept: {e})"));
            None
        });
        Complaint {
            seed: tape.seed,
            number,
            load: load.to_owned(),
            state: words,
            wrong,
            promised,
            calls: calls.map(|note| format!("[{}] {}", note.at, note.text)).collect(),
            image,
        }
    }
}

/// The last call before the note that may have promised what a sentence is about: it names the path, or is a
/// sync.
fn promise(tape: &Recording, note: usize, sentence: &str) -> Option<String> {
    let path = sentence.split(": ").next().filter(|path| path.starts_with('/'));
    let mut before = tape.notes[..note].iter().rev();
    let found = before.find(|note| {
        let call = note.text.split_once(": ").map_or("", |(_, call)| call);
        let flushes = call.starts_with("fsync ") || call.starts_with("fdatasync ") || call.contains("SYNC");
        let about = path.is_none_or(|path| {
            let mut words = call.split([' ', ',']);
            words.any(|word| {
                word == path || path.rsplit_once('/').is_some_and(|(dir, _)| !dir.is_empty() && word == dir)
            })
        });
        call == "sync" || flushes && about
    });
    found.map(|note| format!("[{}] {}", note.at, note.text))
}

/// A file is made, made durable, read and removed.
fn used(root: &Path) -> std::io::Result<()> {
    let path = root.join("made-after-the-recovery");
    let content: Vec<u8> = (0..40_000_u32).map(|i| (i % 251) as u8).collect();
    let mut file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    file.write_all(&content)?;
    file.sync_all()?;
    file.rewind()?;
    let mut read = Vec::new();
    file.read_to_end(&mut read)?;
    drop(file);
    if read != content {
        return Err(std::io::Error::other("a new file reads otherwise than it was written"));
    }
    std::fs::remove_file(path)
}
