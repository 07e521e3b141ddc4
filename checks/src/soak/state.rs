//! Where a soak stopped: one small file for each job, `target/soak/NAME`, holding the next seed.

use std::path::PathBuf;

/// Where cargo builds.
pub fn target_dir() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target"))
}

/// The state file of one job.
pub struct State {
    path: PathBuf,
    /// The first seed that was not explored yet.
    pub next: u64,
}

impl State {
    /// Reads the state of the job, or starts it at seed 1.
    ///
    /// # Errors
    /// Where the file cannot be read, or holds something else.
    pub fn open(job: &str) -> Result<State, String> {
        let path = target_dir().join("soak").join(job);
        let next = match std::fs::read_to_string(&path) {
            Ok(text) => text
                .trim()
                .parse()
                .map_err(|_| format!("{} does not hold a seed: remove it, or give --from", path.display()))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => 1,
            Err(e) => return Err(format!("cannot read {}: {e}", path.display())),
        };
        Ok(State { path, next })
    }

    /// All seeds below `next` are done.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn advance(&mut self, next: u64) -> Result<(), String> {
        self.next = next;
        let failed = |e| format!("cannot write {}: {e}", self.path.display());
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        std::fs::write(&self.path, format!("{next}\n")).map_err(failed)
    }
}
