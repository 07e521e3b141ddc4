//! Warnings that limit the trust in a result (design promise 6). A warning never changes a number.

use crate::record::Record;
use granary_bench::record::gc_never_ran;
use granary_fs::CachePolicy;
use granary_testbed::Testbed;
use granary_testbed::registry::FsEntry;
use granary_workload::Workload;

/// The facts by which a run is judged, beside its record.
pub struct Run<'a> {
    /// The file system.
    pub fs: &'a FsEntry,
    /// Content that the vfs page cache serves of it.
    pub cache: CachePolicy,
    /// Its testbed.
    pub testbed: &'a Testbed,
    /// Its workload.
    pub workload: &'a Workload,
}

impl Run<'_> {
    /// The warnings: of the workload's text, `from_run`, and what follows from the record.
    pub fn warnings(&self, record: &Record, from_run: &[String]) -> Vec<String> {
        let text = self.workload.warnings.iter().map(ToString::to_string);
        let mut out: Vec<String> = text.chain(from_run.iter().cloned()).collect();
        out.extend(gc_never_ran(record.flash.erases + record.drain.flash.erases).map(|why| {
            format!("{why}: the drive was not filled, so flash writes are those of a fresh drive")
        }));
        out.extend(self.served_from_memory(record));
        out.extend(self.too_short(record.virtual_s));
        if let Some(stalls) = record.firmware.get("log.stalls") {
            out.push(format!("the write log was full {stalls} times and stores waited for cleaning"));
        }
        out
    }

    /// Reads that a cache larger than all files has answered.
    fn served_from_memory(&self, record: &Record) -> Option<String> {
        let (set, cache) = (self.workload.expected_bytes(), self.testbed.host.vfs.page_cache);
        let (asked, read) = (record.app.read_bytes, record.host.data_read());
        if !self.cache.reads || set >= cache.0 as f64 || asked == 0 || read >= asked / 2 {
            return None;
        }
        Some(format!(
            "the page cache ({cache}) is larger than the files ({:.2} GiB): of what programs read, {:.0} % came from the drive",
            set / (1u64 << 30) as f64,
            100.0 * read as f64 / asked as f64
        ))
    }

    /// Work that comes round less often than the run lasted.
    fn too_short(&self, virtual_s: f64) -> Option<String> {
        let write_back = self.cache.writes.then_some(("write-back", self.testbed.host.vfs.dirty_expire));
        let periods = [(self.fs.periodic)(&self.testbed.fs.of(self.fs)), write_back].into_iter().flatten();
        let missed: Vec<String> = periods
            .filter(|(_, every)| virtual_s < every.as_secs_f64())
            .map(|(what, every)| format!("{} s {what}", every.as_secs_f64()))
            .collect();
        (!missed.is_empty()).then(|| {
            format!(
                "the measured run lasted {virtual_s:.2} virtual seconds: periodic work ({}) shows in the drain or not at all",
                missed.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_testbed::registry;

    const TEXT: &str = "define fileset name=set,path=/d,size=16k,entries=50,dirwidth=10,prealloc=100\n\
                        define process name=p,instances=1\n{\nthread name=t,memsize=1m,instances=1\n{\n\
                        flowop readwholefile name=r,filesetname=set,iosize=1m\n}\n}\nrun 60\n";

    /// The warnings of a run of so many seconds on this file system, in which programs read so many bytes and
    /// the drive gave so many of data.
    fn of(fs: &str, cached: bool, virtual_s: f64, asked: u64, read: u64) -> String {
        let cache = if cached { CachePolicy::ALL } else { CachePolicy::NONE };
        let testbed = &Testbed::load("bytefs-emulator", &[]).expect("built in");
        let workload = &Workload::parse("w", TEXT, &[]).expect("a workload");
        let run = Run { fs: registry::find(fs).expect("known"), cache, testbed, workload };
        let mut record = Record { virtual_s, ..Record::default() };
        record.app.read_bytes = asked;
        record.host.block.read_bytes.insert("data".to_owned(), read);
        run.warnings(&record, &[]).join("\n")
    }

    #[test]
    fn what_comes_round_less_often_than_the_run_lasts_is_named_with_its_period() {
        let periods = "(5 s commits, 30 s write-back)";
        assert!(of("ext4", true, 2.0, 0, 0).contains(periods));
        assert!(of("ext4", true, 10.0, 0, 0).contains("(30 s write-back)"));
        assert!(of("f2fs", true, 40.0, 0, 0).contains("(60 s checkpoints)"));
        for (fs, virtual_s) in [("ext4", 31.0), ("nova", 0.1), ("pmfs", 0.1)] {
            let said = of(fs, fs == "ext4", virtual_s, 0, 0);
            assert!(!said.contains("periodic"), "{fs} writes nothing later: {said}");
        }
    }

    #[test]
    fn only_reads_that_memory_answered_are_warned_of() {
        assert!(of("ext4", true, 60.0, 1000, 30).contains("3 % came from the drive"));
        for said in [
            of("ext4", true, 60.0, 1000, 990),
            of("nova", false, 60.0, 1000, 0),
            of("ext4", true, 60.0, 0, 0),
        ] {
            assert!(!said.contains("page cache"), "{said}");
        }
    }
}
