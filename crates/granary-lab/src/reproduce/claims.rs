//! [`Claim`]: a number that the paper states, and how it follows from records.

use super::{FILE_SYSTEMS, MACRO, MICRO, WORKLOADS, sum};
use crate::record::Record;

/// What a claim compares.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// Throughput of the first file system over the second's.
    Throughput(&'static str, &'static str),
    /// Metadata bytes over the host link, both directions: the first over the second.
    Metadata(&'static str, &'static str),
    /// Share by which the second's metadata reads are below the first's, percent.
    FewerMetadataReads(&'static str, &'static str),
    /// Data bytes, both directions: the first over the second.
    Data(&'static str, &'static str),
    /// Data bytes written: the first over the second.
    DataWritten(&'static str, &'static str),
    /// Flash pages, both directions: the first over the second.
    Flash(&'static str, &'static str),
    /// Host-link bytes written over the application's.
    WriteAmplification(&'static str),
    /// Host-link bytes read over the application's.
    ReadAmplification(&'static str),
}

/// How several workloads make one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The arithmetic mean.
    Mean,
    /// The largest.
    Max,
}

/// A number of the paper.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Figure or table.
    pub place: &'static str,
    /// Workloads that it is over.
    pub workloads: Vec<&'static str>,
    /// The number.
    pub paper: f64,
    what: What,
    over: Over,
}

/// A claim beside what the records say.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The claim.
    pub claim: Claim,
    /// Our number; `None` where records for it are missing, or what it divides by is nothing.
    pub ours: Option<f64>,
    /// Whether all runs that it is about were made.
    pub ran: bool,
}

impl Claim {
    fn new(place: &'static str, workloads: &[&'static str], what: What, over: Over, paper: f64) -> Claim {
        Claim { place, workloads: workloads.to_vec(), paper, what, over }
    }

    /// The metric in words.
    pub fn metric(&self) -> String {
        let over = match (self.over, self.workloads.len()) {
            (_, 1) => "",
            (Over::Mean, _) => ", mean",
            (Over::Max, _) => ", up to",
        };
        let name = match self.what {
            What::Throughput(a, b) => format!("throughput {a}/{b}"),
            What::Metadata(a, b) => format!("metadata bytes {a}/{b}"),
            What::FewerMetadataReads(a, b) => format!("metadata read less by {b} than by {a}, %"),
            What::Data(a, b) => format!("data bytes {a}/{b}"),
            What::DataWritten(a, b) => format!("data bytes written {a}/{b}"),
            What::Flash(a, b) => format!("flash pages {a}/{b}"),
            What::WriteAmplification(a) => format!("write amplification {a}"),
            What::ReadAmplification(a) => format!("read amplification {a}"),
        };
        name + over
    }

    /// The workloads in words.
    pub fn on(&self) -> String {
        match &self.workloads[..] {
            all if all == WORKLOADS => "all".to_owned(),
            micro if micro == MICRO => "micro".to_owned(),
            some => some.join(", "),
        }
    }

    /// The file systems that it compares.
    fn file_systems(&self) -> Vec<&'static str> {
        match self.what {
            What::Throughput(a, b)
            | What::Metadata(a, b)
            | What::FewerMetadataReads(a, b)
            | What::Data(a, b)
            | What::DataWritten(a, b)
            | What::Flash(a, b) => vec![a, b],
            What::WriteAmplification(a) | What::ReadAmplification(a) => vec![a],
        }
    }

    fn of_workload(&self, workload: &str, records: &[Record]) -> Option<f64> {
        let find = |fs: &str| find(records, workload, fs);
        let share = |a: f64, b: f64| (b > 0.0).then_some(a / b);
        let both = |(a, b): (u64, u64)| (a + b) as f64;
        let ratio = |a: &str, b: &str, of: &dyn Fn(&Record) -> f64| share(of(find(a)?), of(find(b)?));
        match self.what {
            What::Throughput(a, b) => ratio(a, b, &|r| r.ops.per_s),
            What::Metadata(a, b) => ratio(a, b, &|r| both(sum::metadata(r))),
            What::FewerMetadataReads(a, b) => {
                Some(100.0 * (1.0 - ratio(b, a, &|r| sum::metadata(r).1 as f64)?))
            }
            What::Data(a, b) => ratio(a, b, &|r| both(sum::data(r))),
            What::DataWritten(a, b) => ratio(a, b, &|r| sum::data(r).0 as f64),
            What::Flash(a, b) => ratio(a, b, &|r| both(sum::flash(r))),
            What::WriteAmplification(a) => sum::amplification(find(a)?).0,
            What::ReadAmplification(a) => sum::amplification(find(a)?).1,
        }
    }

    fn judge(self, records: &[Record]) -> Judged {
        let each: Option<Vec<f64>> = self.workloads.iter().map(|w| self.of_workload(w, records)).collect();
        let ours = each.map(|v| match self.over {
            Over::Mean => v.iter().sum::<f64>() / v.len() as f64,
            Over::Max => v.iter().copied().fold(f64::MIN, f64::max),
        });
        let file_systems = self.file_systems();
        let all = self.workloads.iter().flat_map(|w| file_systems.iter().map(move |fs| (w, fs)));
        let ran = all.into_iter().all(|(w, fs)| find(records, w, fs).is_some());
        Judged { claim: self, ours, ran }
    }
}

fn find<'a>(records: &'a [Record], workload: &str, fs: &str) -> Option<&'a Record> {
    // A built-in workload has its bare name; a file of the same name has its path, and a hash.
    records.iter().find(|r| r.workload == workload && r.workload_hash.is_none() && r.fs == fs)
}

/// The claims that follow from runs of the nine workloads, beside what the records say.
pub fn claims(records: &[Record]) -> Vec<Judged> {
    use What::{
        Data, DataWritten, FewerMetadataReads, Flash, Metadata, ReadAmplification, Throughput,
        WriteAmplification,
    };
    let [bytefs, ext4, f2fs, nova, pmfs] = FILE_SYSTEMS;
    let mut all = Vec::new();
    let mut claim = |place, workloads: &[&'static str], what, over, paper| {
        all.push(Claim::new(place, workloads, what, over, paper));
    };
    let (mean, max) = (Over::Mean, Over::Max);
    claim("Fig. 6", &MICRO, Throughput(bytefs, ext4), mean, 2.5);
    claim("Fig. 6", &MICRO, Throughput(bytefs, f2fs), mean, 1.48);
    claim("Fig. 6", &["create"], Throughput(bytefs, ext4), mean, 6.0);
    claim("Fig. 6", &["create"], Throughput(bytefs, f2fs), mean, 2.4);
    // "1.2-1.5x"
    claim("Fig. 6", &["mkdir", "rmdir"], Throughput(bytefs, f2fs), mean, 1.35);
    claim("Fig. 6", &["delete"], Throughput(bytefs, ext4), mean, 1.0);
    claim("Fig. 6", &["delete"], Throughput(bytefs, f2fs), mean, 1.0);
    claim("Fig. 6", &["varmail"], Throughput(bytefs, f2fs), mean, 1.9);
    claim("Fig. 6", &["fileserver"], Throughput(bytefs, ext4), mean, 2.2);
    claim("Fig. 6", &["fileserver"], Throughput(bytefs, f2fs), mean, 1.2);
    claim("Fig. 6", &["webproxy"], Throughput(bytefs, ext4), mean, 1.3);
    claim("Fig. 6", &["webserver"], Throughput(bytefs, ext4), mean, 1.0);
    claim("Fig. 6", &["webserver"], Throughput(bytefs, f2fs), mean, 1.0);
    claim("Fig. 6", &["oltp"], Throughput(bytefs, ext4), mean, 4.1);
    claim("Fig. 8", &MICRO, Metadata(ext4, bytefs), max, 25.3);
    claim("Fig. 8", &MICRO, Metadata(f2fs, bytefs), max, 17.2);
    claim("Fig. 8", &MICRO, Metadata(ext4, bytefs), mean, 11.4);
    claim("Fig. 8", &MICRO, Metadata(f2fs, bytefs), mean, 6.1);
    claim("Fig. 8", &MICRO, FewerMetadataReads(nova, bytefs), mean, 43.0);
    claim("Fig. 9", &["webproxy", "webserver"], Data(nova, bytefs), max, 4.7);
    claim("Fig. 9", &["webproxy", "webserver"], Data(pmfs, bytefs), max, 2.7);
    claim("Fig. 9", &["oltp"], DataWritten(nova, bytefs), mean, 1.6);
    claim("Fig. 9", &["oltp"], DataWritten(pmfs, bytefs), mean, 2.2);
    for (fs, paper) in [(ext4, 2.9), (f2fs, 2.1), (nova, 3.2), (pmfs, 2.2)] {
        claim("Fig. 10, 11", &WORKLOADS, Flash(fs, bytefs), mean, paper);
    }
    let table2 = [
        (ext4, [3.85, 6.21, 1.43, 1.66, 2.17], [1.21, 1.15, 1.25, 1.71, 1.52]),
        (f2fs, [2.14, 1.92, 1.67, 1.06, 1.10], [1.67, 1.42, 1.35, 1.18, 1.13]),
    ];
    for (fs, writes, reads) in table2 {
        for (i, workload) in MACRO.into_iter().enumerate() {
            claim("Table 2", &[workload], WriteAmplification(fs), mean, writes[i]);
        }
        for (i, workload) in MACRO.into_iter().enumerate() {
            claim("Table 2", &[workload], ReadAmplification(fs), mean, reads[i]);
        }
    }
    all.into_iter().map(|c| c.judge(records)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Bytes2, Host, Interface, Ops, Phase};
    use std::collections::BTreeMap;

    fn record(workload: &str, fs: &str, per_s: f64, written: u64) -> Record {
        let link = |n: u64| Interface {
            read_bytes: BTreeMap::new(),
            write_bytes: BTreeMap::from([("data".to_owned(), n)]),
        };
        let phase = |n| Phase { host: Host { block: link(n), ..Host::default() }, ..Phase::default() };
        Record {
            workload: workload.to_owned(),
            fs: fs.to_owned(),
            ops: Ops { total: 1, per_s, by_type: BTreeMap::new() },
            app: Bytes2 { read_bytes: 0, write_bytes: 1000 },
            host: phase(written).host,
            drain: phase(500),
            ..Record::default()
        }
    }

    #[test]
    fn a_claim_needs_all_its_records_and_counts_the_drain() {
        let find = |records: &[Record], metric: &str, on: &str| {
            let all = claims(records);
            all.into_iter().find(|j| j.claim.metric() == metric && j.claim.on() == on).expect("a claim").ours
        };
        let mut records = vec![record("varmail", "bytefs", 300.0, 0), record("varmail", "f2fs", 200.0, 1500)];
        assert_eq!(find(&records, "throughput bytefs/f2fs", "varmail"), Some(1.5));
        assert_eq!(find(&records, "write amplification f2fs", "varmail"), Some(2.0));
        assert_eq!(find(&records, "read amplification f2fs", "varmail"), None);
        assert_eq!(find(&records, "throughput bytefs/f2fs, mean", "mkdir, rmdir"), None);
        for (w, n) in [("mkdir", 100.0), ("rmdir", 300.0)] {
            records.push(record(w, "bytefs", n, 0));
            records.push(record(w, "f2fs", 100.0, 0));
        }
        assert_eq!(find(&records, "throughput bytefs/f2fs, mean", "mkdir, rmdir"), Some(2.0));
    }

    #[test]
    fn a_claim_about_runs_that_were_not_made_is_told_from_one_that_has_no_number() {
        let records = [record("varmail", "bytefs", 1.0, 1), record("varmail", "f2fs", 1.0, 1)];
        let all = claims(&records);
        let ran = |metric: &str| all.iter().find(|j| j.claim.metric() == metric && j.claim.on() == "varmail");
        let of = |metric: &str| ran(metric).map(|j| (j.ran, j.ours.is_some()));
        assert_eq!(of("throughput bytefs/f2fs"), Some((true, true)));
        assert_eq!(of("read amplification f2fs"), Some((true, false)));
        assert_eq!(of("write amplification ext4"), Some((false, false)));
    }
}
