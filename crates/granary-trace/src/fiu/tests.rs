//! Records that a trace is read as, and messages about lines that are no records.

use super::{Call, Record, Trace};
use granary_sim::rng::Stream;

/// The two kinds of lines of the traces' description.
const FILES: &str = "\
1 100 OPEN 42 70000
2 200 READ 42 70000 0 4096 MISS
3 300 WRITE 42 70000 69000 2000 APPEND
4 400 WRITE 7 0 0 10
5 500 FDATASYNC 7 10
6 600 fsync 42 71000
7 700 CLOSE 42 71000
";
const BLOCKS: &str = "\
0 4892 syslogd 904265560 8 W 6 0 531e779e5cd8ea4ad6a5f2dd4e7ba9d1
70 4892 cat 8 8 R 6 0 x
";

fn read(text: &str) -> Trace {
    Trace::parse("t.fiu", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn calls_on_files_are_read_with_the_sizes_that_the_files_had() {
    let t = read(FILES);
    assert_eq!((t.count, t.clients, t.durable), (7, 1, false));
    let record = |call, file, offset, len| Record { call, file, offset, len };
    assert_eq!(
        t.records[..],
        [
            record(Call::Open, 0, 0, 0),
            record(Call::Read, 0, 0, 4096),
            record(Call::Write, 0, 69_000, 2000),
            record(Call::Write, 1, 0, 10),
            record(Call::Fdatasync, 1, 0, 0),
            record(Call::Fsync, 0, 0, 0),
            record(Call::Close, 0, 0, 0),
        ]
    );
    assert_eq!((t.files[0].name.as_str(), t.files[0].size), ("42", 70_000));
    assert_eq!(t.files[0].pieces, [(0, 70_000)], "both touched pieces, up to the size");
    assert_eq!((t.files[1].size, t.files[1].pieces.len()), (0, 0), "a file that the trace makes");
    assert_eq!(t.expected_bytes(), 70_000.0);
}

/// A device is a file that begins at the lowest page that is touched; far apart places leave holes.
#[test]
fn accesses_of_devices_become_durable_writes_of_sparse_files() {
    let t = read(BLOCKS);
    assert!(t.durable && t.files.len() == 1 && t.files[0].name == "6-0");
    let place = (904_265_560 - 8) * 512;
    assert_eq!(t.records[0], Record { call: Call::Write, file: 0, offset: place, len: 4096 });
    assert_eq!((t.records[1].offset, t.files[0].size), (0, place + 4096));
    assert_eq!(t.files[0].pieces.len(), 2);
    assert!(t.expected_bytes() <= 2.0 * 65_536.0);
}

#[test]
fn what_is_no_record_is_an_error_that_names_file_and_line() {
    for (bad, line, why) in [
        ("1 100 PEEK 42 70000\n", 2, "operation 'PEEK': there are READ"),
        ("1 100 READ 42 70000\n", 2, "5 fields instead of"),
        ("1 100 READ 42 70000 x 10 HIT\n", 2, "offset 'x' is no whole number"),
        ("1 100 READ 42 70000 0 10 LATER\n", 2, "'LATER': there are HIT, MISS and APPEND"),
        ("# a comment\n\n1 -5 OPEN 42 7\n", 4, "ts '-5' is no whole number"),
        ("1 100 WRITE 42 0 0 9999999999 HIT\n", 2, "up to 1 GiB is believed"),
        ("1 100 WRITE 42 0 18446744073709551615 1 HIT\n", 2, "beyond 1 PiB"),
        ("0 4892 syslogd 8 8 W 6 0 x\n", 2, "9 fields instead of"),
    ] {
        let text = format!("1 1 OPEN 42 0\n{bad}");
        let said = Trace::parse("t.fiu", text.as_bytes()).expect_err(bad).to_string();
        assert!(said.starts_with(&format!("t.fiu, line {line}: ")) && said.contains(why), "{said}");
    }
    for (bad, why) in [
        ("0 4892 syslogd 8 8 X 6 0 x", "type 'X': there are R and W"),
        ("0 4892 syslogd 99999999999999999999 8 R 6 0 x", "lba '99999999999999999999' is no whole number"),
        ("0 4892 syslogd 99999999999999999 8 R 6 0 x", "lies on no drive"),
    ] {
        let text = format!("{}{bad}\n", BLOCKS);
        let said = Trace::parse("t.fiu", text.as_bytes()).expect_err(bad).to_string();
        assert!(said.starts_with("t.fiu, line 3: ") && said.contains(why), "{said}");
    }
    for nothing in ["", "\n# only this\n"] {
        let said = Trace::parse("t.fiu", nothing.as_bytes()).expect_err("nothing").to_string();
        assert_eq!(said, "t.fiu, line 1: there is no record in the trace");
    }
    let said = Trace::parse("t.fiu", b"hello world\n").expect_err("no trace").to_string();
    assert!(said.contains("is no record of an FIU trace"), "{said}");
}

/// Reading any file ends with a trace that keeps its invariants, or with an error.
#[test]
fn damaged_traces_are_read_or_refused() {
    let mut rng = Stream::new(1, "damage");
    for round in 0..400 {
        let mut bytes = if round % 2 == 0 { FILES } else { BLOCKS }.as_bytes().to_vec();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = [b' ', b'9', b'\n', b'-', rng.below(256) as u8][rng.below(5) as usize];
        }
        let Ok(t) = Trace::parse("t.fiu", &bytes) else { continue };
        assert!(!t.records.is_empty() && t.records.iter().all(|r| (r.file as usize) < t.files.len()));
        for f in &t.files {
            assert!(f.pieces.iter().all(|(from, to)| from < to && *to <= f.size), "{f:?}");
            assert!(f.pieces.windows(2).all(|w| w[0].1 < w[1].0), "{f:?}");
        }
    }
}

#[test]
fn a_scaled_trace_has_fewer_records_and_lays_out_only_what_they_touch() {
    let mut t = read(FILES);
    t.scale(0.01);
    assert_eq!(t.count, 1);
    assert_eq!(t.touched(), [true, false]);
    t.scale(20.0);
    assert_eq!((t.count, t.touched()), (20, vec![true, true]));
}
