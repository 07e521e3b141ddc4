//! [`OnFiles`]: what a job file's options mean where its jobs read and write files.
//!
//! Invariant: an option of files that would change what is done is honoured or refused with its line.
//!
//! Source: fio's HOWTO, "Target file/device", "I/O type", "Verification"; `extend_file` of fio's filesetup.c
//! for what is laid out.

use granary_trace::fio::{
    Access, Amount, Blocks, Job, JobFile, Mistake, Mistakes, Setting, flag, number, size,
};
use granary_units::Bytes;
use granary_vfs::OpenFlags;

/// How space of a file that is not laid out is taken before the job writes it (`fallocate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preallocate {
    /// Not at all.
    Nothing,
    /// By fallocate, where the file system has it: fio's default, as if the system call is there.
    Space,
    /// The same, and the size stays (`keep`).
    KeepSize,
    /// The size alone (`truncate`).
    Size,
}

/// A job on files.
#[derive(Clone, Debug, PartialEq)]
pub struct OnFiles {
    /// The reads and writes, their times and their number. The job's places are those of one client's files,
    /// one after the other.
    pub job: Job,
    /// The directory of its files, from the root; ends in a slash.
    pub directory: String,
    /// The files' names, where they are given: all clients have the same.
    pub names: Option<Vec<String>>,
    /// Files of a client.
    pub files: u64,
    /// Bytes of each, from `offset` on, that a client touches.
    pub span: u64,
    /// Where that begins in the files of the first client, and how much further on in those of each next one.
    pub offset: (u64, u64),
    /// Bytes that each file has at least when the jobs begin.
    pub file_size: u64,
    /// How the files are opened, beside reading and writing.
    pub open: OpenFlags,
    /// Files that are written have their content already.
    pub overwrite: bool,
    /// Preallocation of a file that has no content and will be written.
    pub preallocate: Preallocate,
    /// Before the jobs begin, the caches drop the files that were laid out.
    pub invalidate: bool,
    /// Files that are laid out are fsynced.
    pub create_fsync: bool,
    /// A file is fsynced when its client has written all.
    pub end_fsync: bool,
    /// The files are removed in the end.
    pub unlink: bool,
    /// Data read is compared with the data written there.
    pub verify: bool,
    /// With `verify`: in the end the data written is read again.
    pub verify_phase: bool,
}

/// Largest file.
const MOST: u64 = 1 << 50;
/// Largest access of a job that verifies.
const MOST_VERIFIED: u64 = 1 << 30;

/// Options that say nothing here: all files of a client are open from its beginning to its end, made one
/// after the other.
const IDLE: &[&str] = &[
    "openfiles",
    "create_serialize",
    "create_on_open",
    "allow_file_create",
    "allow_mounted_write",
    "fadvise_hint",
    "unique_filename",
];

/// Options that are there only with the value that is their default.
const DEFAULTS: &[(&str, &str)] = &[
    ("file_service_type", "roundrobin"),
    ("unlink_each_loop", "0"),
    ("create_only", "0"),
    ("file_append", "0"),
    ("lockfile", "none"),
    ("fill_fs", "0"),
    ("pre_read", "0"),
    ("filename_format", "$jobname.$jobnum.$filenum"),
    ("opendir", ""),
    ("mode", ""),
    ("ftruncate", ""),
];

/// The jobs of a file on files, and what had no effect.
///
/// # Errors
/// All that cannot be done, with the lines.
pub fn on_files(read: &JobFile) -> Result<(Vec<OnFiles>, Vec<String>), Mistakes> {
    let (mut all, mut wrong, mut idle) = (Vec::new(), Vec::new(), read.without_effect.clone());
    for job in &read.jobs {
        match one(job, &mut idle) {
            Ok(job) => all.push(job),
            Err(mistakes) => wrong.extend(mistakes),
        }
    }
    wrong.dedup();
    if wrong.is_empty() { Ok((all, idle)) } else { Err(Mistakes::new(&read.file, wrong)) }
}

fn one(job: &Job, idle: &mut Vec<String>) -> Result<OnFiles, Vec<Mistake>> {
    let mut on = OnFiles {
        job: job.clone(),
        directory: "/".to_owned(),
        names: None,
        files: 1,
        span: 0,
        offset: (0, 0),
        file_size: 0,
        open: OpenFlags::empty(),
        overwrite: false,
        preallocate: Preallocate::Space,
        invalidate: true,
        create_fsync: true,
        end_fsync: false,
        unlink: false,
        verify: false,
        verify_phase: true,
    };
    let (mut file_size, mut wrong) = (None, Vec::new());
    for s in &job.other {
        match on.set(s, &mut file_size) {
            Ok(true) => {}
            Ok(false) if idle.contains(&s.key) => {}
            Ok(false) => idle.push(s.key.clone()),
            Err(message) => wrong.push(Mistake { line: s.line, message }),
        }
    }
    if wrong.is_empty()
        && let Err((keys, message)) = on.place(file_size)
    {
        wrong.push(job.mistake(keys, message));
    }
    if wrong.is_empty() { Ok(on) } else { Err(wrong) }
}

type Fault = (&'static [&'static str], String);

impl OnFiles {
    /// Sets what the option says; whether it says anything.
    fn set(&mut self, s: &Setting, file_size: &mut Option<u64>) -> Result<bool, String> {
        let (key, value) = (s.key.as_str(), s.value.as_str());
        let given = Some(value).filter(|v| !v.is_empty());
        let on = || flag(key, given);
        let refused = |why: &str| Err(format!("{key}={value}: {why}"));
        match key {
            "direct" => self.open.set(OpenFlags::DIRECT, on()?),
            "buffered" => self.open.set(OpenFlags::DIRECT, !on()?),
            "sync" => {
                self.open.remove(OpenFlags::SYNC | OpenFlags::DSYNC);
                match value {
                    "0" | "none" => {}
                    "1" | "sync" => self.open |= OpenFlags::SYNC,
                    "dsync" => self.open |= OpenFlags::DSYNC,
                    _ => return refused("there are none, sync and dsync"),
                }
            }
            "invalidate" => self.invalidate = on()?,
            "overwrite" => self.overwrite = on()?,
            "create_fsync" => self.create_fsync = on()?,
            "end_fsync" | "fsync_on_close" => self.end_fsync |= on()?,
            "unlink" => self.unlink = on()?,
            "verify" => self.verify = !matches!(value, "0" | "none"),
            "do_verify" => self.verify_phase = on()?,
            "nrfiles" => self.files = number(key, value, 1)?,
            "filesize" => match value.contains('-') {
                true => return refused("files of several sizes are not supported: give one"),
                false => *file_size = Some(size(key, value)?.0),
            },
            "directory" => {
                if value.contains(':') || value.split('/').any(|part| part == "..") {
                    return refused("one directory below the file system's root");
                }
                self.directory = format!("/{}/", value.trim_matches('/')).replace("//", "/");
            }
            "filename" => {
                let names: Vec<String> =
                    value.split(':').map(|n| n.trim_start_matches('/').to_owned()).collect();
                if names.iter().any(|n| n.is_empty() || n.split('/').any(|part| part == "..")) {
                    return refused("names of files below the file system's root, with : between them");
                }
                self.files = names.len() as u64;
                self.names = Some(names);
            }
            "fallocate" => {
                self.preallocate = match value {
                    "none" | "0" => Preallocate::Nothing,
                    "native" | "posix" | "1" => Preallocate::Space,
                    "keep" => Preallocate::KeepSize,
                    "truncate" => Preallocate::Size,
                    _ => return refused("there are none, native, posix, keep and truncate"),
                }
            }
            key if IDLE.contains(&key) => return Ok(false),
            key => match DEFAULTS.iter().find(|(k, _)| *k == key) {
                Some((_, default)) if value == *default => return Ok(false),
                _ => return refused("not supported on files here: leave it out"),
            },
        }
        Ok(true)
    }

    /// Where the job reads and writes, and whether that can be.
    fn place(&mut self, file_size: Option<u64>) -> Result<(), Fault> {
        let job = &self.job;
        if let Some(access) = job.pattern.accesses().find(|a| !matches!(a, Access::Read | Access::Write)) {
            let why = format!("{access:?} is of drives (`granary drive bench`): files are read and written");
            return Err((&["rw"], why));
        }
        if job.mapped {
            return Err((&["ioengine"], "mappings are not supported on files here: use psync".to_owned()));
        }
        if job.depth == 0 || job.clients == 0 || job.loops == 0 {
            return Err((&["iodepth", "numjobs", "loops"], "at least 1".to_owned()));
        }
        if job.time_based && job.runtime.is_none() {
            return Err((&["time_based"], "needs a runtime: nothing else would end the job".to_owned()));
        }
        let zero = job.pattern.accesses().any(|a| job.blocks_of(a).sizes().contains(&0));
        if zero || job.runtime.is_some_and(|t| t.0 == 0) || job.io_size == Some(Amount::Bytes(Bytes::ZERO)) {
            return Err((&["bs", "runtime", "io_size"], "at least 1: with 0 nothing is done".to_owned()));
        }
        if self.files > 1 && !(job.least() == job.most() && job.align.is_none()) {
            return Err((
                &["nrfiles", "bs"],
                "several files have blocks of one size: give one bs".to_owned(),
            ));
        }
        let direct = self.open.contains(OpenFlags::DIRECT);
        let odd = |b: &Blocks| matches!(b, Blocks::Between(..)) || b.sizes().iter().any(|s| s % 512 != 0);
        if direct
            && (job.pattern.accesses().any(|a| odd(job.blocks_of(a)))
                || job.align.is_some_and(|a| a % 512 != 0))
        {
            return Err((&["bs", "direct"], "direct accesses are of whole sectors of 512 bytes".to_owned()));
        }
        let of = |amount: Amount| match (amount, file_size) {
            (Amount::Bytes(b), _) => Ok(b.0),
            (Amount::Percent(_), Some(whole)) => Ok(amount.of(whole)),
            (Amount::Percent(_), None) => {
                Err((&["size", "offset"][..], "a part of what? give filesize=... as well".to_owned()))
            }
        };
        self.offset = (of(job.offset)?, of(job.offset_increment)?);
        let total = match (job.size, file_size) {
            (Some(Amount::Percent(p)), Some(whole)) => {
                Amount::Percent(p).of(whole).saturating_mul(self.files)
            }
            (Some(amount), _) => of(amount)?,
            (None, Some(whole)) => whole.saturating_sub(self.offset.0).saturating_mul(self.files),
            (None, None) => return Err((&["size"], "how large are the files? give size=...".to_owned())),
        };
        self.span = total / self.files;
        if self.span < job.most() {
            let why = format!(
                "{} for each file leave no room for an access of {}",
                Bytes(self.span),
                Bytes(job.most())
            );
            return Err((&["size", "bs", "offset"], why));
        }
        let last = self.offset.1.saturating_mul(u64::from(job.clients) - 1);
        let end = self.offset.0.saturating_add(last).saturating_add(self.span);
        if end.max(file_size.unwrap_or(0)) > MOST {
            return Err((&["size", "offset"], "files have at most 1 PiB here".to_owned()));
        }
        if self.verify && job.most() > MOST_VERIFIED {
            return Err((
                &["bs"],
                "an access that is verified has at most 1 GiB: it is held in memory".to_owned(),
            ));
        }
        self.file_size = file_size.unwrap_or(0).max(if self.names.is_some() { end } else { self.end(0) });
        Ok(())
    }

    /// Where the part of the `n`-th client's files that it touches ends.
    fn end(&self, n: u64) -> u64 {
        self.offset.0 + self.offset.1 * n + self.span
    }

    /// The same job with its files and amounts multiplied by `factor`; each keeps one access at least.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> OnFiles {
        let most = self.job.most().max(1);
        let by = |n: u64| (((n as f64 * factor) as u64) / most).max(1) * most;
        let scaled = |n: u64| if n == 0 { 0 } else { by(n) };
        let mut on = self.clone();
        on.span = by(self.span);
        on.offset = (scaled(self.offset.0), scaled(self.offset.1));
        on.file_size = by(self.file_size).max(on.end(if on.names.is_some() {
            u64::from(on.job.clients) - 1
        } else {
            0
        }));
        on.job.number_ios = self.job.number_ios.map(|n| ((n as f64 * factor) as u64).max(1));
        on.job.io_size = self.job.io_size.map(|amount| match amount {
            Amount::Bytes(b) => Amount::Bytes(Bytes(by(b.0))),
            part => part,
        });
        on
    }

    /// Whether its files must have content before it begins.
    pub fn lays_out(&self) -> bool {
        self.overwrite || self.job.pattern.accesses().any(Access::reads)
    }

    /// The path of the `file`-th file of the `client`-th client, both from 0.
    pub fn path(&self, client: u64, file: u64) -> String {
        let name = match &self.names {
            Some(names) => names[file as usize].clone(),
            None => format!("{}.{client}.{file}", self.job.name.replace('/', "_")),
        };
        format!("{}{name}", self.directory)
    }

    /// Which file the place `at` of a client is in, and where there: blocks go round the files.
    pub fn of(&self, client: u64, at: u64) -> (u64, u64) {
        let base = self.offset.0 + self.offset.1 * client;
        if self.files == 1 {
            return (0, base + at);
        }
        let (block, bs) = (at / self.job.most(), self.job.most());
        (block % self.files, base + block / self.files * bs + at % bs)
    }

    /// Bytes of all its files.
    pub fn expected_bytes(&self) -> f64 {
        let clients = if self.names.is_some() { 1 } else { self.job.clients };
        self.file_size as f64 * self.files as f64 * f64::from(clients)
    }
}
