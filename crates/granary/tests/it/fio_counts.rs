//! Job files on files, beside fio itself: as many reads and writes, of as many bytes, for each option that
//! shapes accesses.
//!
//! Skipped where fio is not installed.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Options of a job beside `ioengine=psync`, and the tolerance of its counts: random draws come from other
/// numbers.
const JOBS: [(&str, f64); 31] = [
    ("rw=write size=1m bs=4k", 0.0),
    ("rw=read size=1m bs=4k", 0.0),
    ("rw=randread size=1m bs=8k", 0.0),
    ("rw=randwrite size=1m bs=8k norandommap", 0.0),
    ("rw=rw size=4m bs=4k", 0.1),
    ("rw=randrw size=4m bs=4k rwmixread=70", 0.1),
    ("rw=randrw size=4m bs=4k rwmixwrite=70", 0.1),
    ("rw=randwrite size=4m bssplit=4k/60:64k/40", 0.25),
    ("rw=randwrite size=64m bssplit=4k/60:64k/40", 0.06),
    ("rw=randwrite size=10m bsrange=1k-32k", 0.15),
    ("rw=rw size=16m bsrange=512-1m", 0.35),
    ("rw=write size=16m bsrange=4k-64k", 0.12),
    ("rw=randwrite size=16m bs=4k,16k,4k norandommap", 0.0),
    ("rw=randrw size=16m bs=4k,16k,4k norandommap", 0.1),
    ("rw=randwrite size=16m bssplit=4k/50:8k/50 norandommap", 0.06),
    ("rw=write size=1m bs=4k io_size=512k", 0.0),
    ("rw=write size=1m bs=4k io_size=3m", 0.0),
    ("rw=randread size=1m bs=4k loops=3", 0.0),
    ("rw=write size=1m bs=4k number_ios=100", 0.0),
    ("rw=write size=1m bs=4k numjobs=3", 0.0),
    ("rw=write size=1m bs=4k nrfiles=4", 0.0),
    ("rw=read filesize=256k nrfiles=4 size=1m bs=4k", 0.0),
    ("rw=write size=512k offset=256k bs=4k", 0.0),
    ("rw=write size=256k offset_increment=256k numjobs=2 filename=f bs=4k", 0.0),
    ("rw=write size=1m bs=4k fsync=8", 0.0),
    ("rw=write size=1m bs=4k fdatasync=8", 0.0),
    ("rw=write size=1m bs=4k end_fsync=1", 0.0),
    ("rw=write size=1m bs=4k overwrite=1", 0.0),
    ("rw=randwrite size=1m bs=4k verify=crc32c do_verify=0", 0.0),
    ("rw=randwrite size=1m bs=4k verify=crc32c", 0.0),
    ("rw=randwrite size=1m bs=3k sync=dsync fallocate=none", 0.0),
];

/// Reads and their bytes, writes and theirs.
type Counts = [u64; 4];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn by_fio(dir: &Path, job: &Path) -> Counts {
    let place = dir.join("files");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir(&place).expect("made");
    let mut fio = std::process::Command::new("fio");
    let out = fio.arg("--output-format=json").arg(job).current_dir(&place).output().expect("fio runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout);
    let result: Value = serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON");
    let mut sum = [0; 4];
    for job in result["jobs"].as_array().expect("jobs") {
        let (read, write) = (&job["read"], &job["write"]);
        let one = [&read["total_ios"], &read["io_bytes"], &write["total_ios"], &write["io_bytes"]];
        sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += number(one));
    }
    sum
}

fn by_granary(job: &Path) -> Counts {
    let mut granary = Command::cargo_bin("granary").expect("built");
    let args = ["--fs", "ext4", "--json", "--testbed", "bytefs-emulator"];
    let out = granary.arg("run").arg(job).args(args).assert().success().get_output().stdout.clone();
    let record: Value = serde_json::from_slice(&out).expect("JSON");
    let count = |kind: &str| number(&record["ops"]["by_type"][format!("j.{kind}")]["count"]);
    let bytes = |kind: &str| number(&record["app"][kind]);
    // fio counts a verification's reads as reads.
    [count("read") + count("verify"), bytes("read_bytes"), count("write"), bytes("write_bytes")]
}

#[test]
fn a_job_file_makes_as_many_accesses_as_with_fio_itself() {
    if std::process::Command::new("fio").arg("--version").output().is_err() {
        granary_suite::skip::skipped("fio is not installed");
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("j.fio");
    let mut wrong = Vec::new();
    for (options, tolerance) in JOBS {
        fs::write(&file, format!("[j]\nioengine=psync\n{}\n", options.replace(' ', "\n"))).expect("written");
        let (fio, ours) = (by_fio(dir.path(), &file), by_granary(&file));
        let far = |(a, b): (&u64, &u64)| a.abs_diff(*b) as f64 > tolerance * *a.max(b) as f64;
        if fio.iter().zip(&ours).any(far) {
            wrong.push(format!("{options}: fio {fio:?}, here {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "[reads, bytes, writes, bytes]\n{}", wrong.join("\n"));
}
