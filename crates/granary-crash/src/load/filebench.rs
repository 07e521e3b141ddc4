//! [`Filebench`]: the built-in Filebench workloads, made small.
//!
//! Each round works in a directory of its own, because a run makes its files anew: what earlier rounds left
//! must still be there at the next power failure.

use super::{Clients, Load};
use granary_sim::rng::Stream;
use granary_workload::Workload;
use granary_workload::run::{Run, RunOptions};

/// The built-in `oltp` has its semaphores' values and its run time in its text: this one is small throughout.
const OLTP: &str = include_str!("oltp.f");

/// A built-in workload of [`granary_workload`] as a load.
#[derive(Clone, Debug)]
pub struct Filebench {
    name: String,
    files: u32,
    threads: u32,
    count: u32,
}

impl Filebench {
    /// `varmail` or `fileserver` with some dozens of files of 12 KiB, 4 threads and `count` operations in
    /// all; `oltp` with 8 files of 64 KiB, 4 readers, 2 database writers and the log writer.
    pub fn new(name: &str, count: u32) -> Filebench {
        Filebench { name: name.to_owned(), files: 40, threads: 4, count }
    }

    fn workload(&self, round: u32) -> Result<Workload, String> {
        let dir = ("dir".to_owned(), format!("/round{round}"));
        let count = ("count".to_owned(), self.count.to_string());
        if self.name == "oltp" {
            return Workload::parse("oltp.f", OLTP, &[dir, count]).map_err(|e| e.to_string());
        }
        let [nfiles, width, size, threads] = [
            ("nfiles", self.files.to_string()),
            ("meandirwidth", "8".to_owned()),
            ("filesize", "12k".to_owned()),
            ("nthreads", self.threads.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        Workload::from_builtin(&self.name, &[dir, count, nfiles, width, size, threads])
            .map_err(|e| e.to_string())
    }
}

impl Load for Filebench {
    fn name(&self) -> &str {
        &self.name
    }

    fn rounds(&self) -> u32 {
        // Each has files of its own: several would fill the drive.
        1
    }

    fn run(&self, clients: &Clients, round: u32, random: &mut Stream) -> Result<(), String> {
        let workload = self.workload(round)?;
        let clients = clients.clone();
        let options = RunOptions { seed: random.next_u64(), ..RunOptions::default() };
        let mut run = Run::new(&workload, move |_: &str| clients.client(), options);
        run.setup().map_err(|e| e.to_string())?;
        run.measure().map_err(|e| e.to_string())?;
        Ok(())
    }
}
