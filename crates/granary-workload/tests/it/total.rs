//! No text makes the reader panic, hang or produce a workload that breaks its invariants.

use granary_workload::spec::{FlowopSpec, Op, Value};
use granary_workload::{Error, Workload, list};
use proptest::prelude::*;

/// Reads the text and checks what comes out, whatever it is.
fn survives(text: &str, overrides: &[(String, String)]) {
    match Workload::parse("fuzz.f", text, overrides) {
        Ok(mut workload) => {
            sound(&workload);
            workload.scale(0.001).unwrap();
            workload.set_threads(3).unwrap();
            sound(&workload);
        }
        Err(Error::Script(d)) => {
            let line = d.line.checked_sub(1).and_then(|above| text.split('\n').nth(above as usize));
            assert!(
                d.file.starts_with("--var ") && d.line == 0
                    || line.is_some_and(|l| d.column as usize <= l.chars().count() + 1),
                "{d:?}"
            );
            assert!(d.width >= 1 && d.caret <= d.source_line.chars().count());
            assert!(!d.message.is_empty() && !d.help.is_empty());
            assert!(d.to_string().contains(&d.help));
        }
        Err(other) => panic!("{other}"),
    }
}

/// The invariants of `spec`.
fn sound(workload: &Workload) {
    assert!((1..=65_536 * 2).contains(&workload.threads()));
    let value = |value: Value| match value {
        Value::Const(_) => {}
        Value::Random(id) => assert!(id.0 < workload.randoms.len()),
    };
    let mut names: Vec<_> = workload.randoms.iter().map(|r| &r.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), workload.randoms.len());
    for random in &workload.randoms {
        assert!(random.min >= 0.0 && random.min <= random.max, "{random:?}");
        assert!(!random.distribution.mean().is_nan(), "{random:?}");
    }
    for set in &workload.filesets {
        value(set.size);
        value(set.dirwidth);
        assert!(set.entries + set.leafdirs > 0 && set.prealloc_percent <= 100);
        assert!(set.mean_depth(&workload.randoms).is_finite());
    }
    for thread in workload.processes.iter().flat_map(|p| &p.threads) {
        assert!(!thread.flowops.is_empty());
        flowops(workload, &thread.flowops, thread.flowops.len());
    }
}

fn flowops(workload: &Workload, list: &[FlowopSpec], top_level: usize) {
    for flowop in list {
        assert!(!flowop.name.is_empty());
        match &flowop.op {
            Op::Create(file) | Op::Open(file) | Op::Read(file, _) | Op::Delete(file) => {
                assert!(file.fileset.is_none_or(|id| id.0 < workload.filesets.len()));
            }
            Op::OpsLimit { target } | Op::FinishOnCount { target, .. } | Op::BwLimit { target } => {
                assert!(target.is_none_or(|at| at < top_level));
            }
            Op::Composite(inner) => flowops(workload, inner, top_level),
            _ => {}
        }
    }
}

/// Pieces of the language, to be strung together.
const PIECES: &[&str] = &[
    "set ",
    "$x",
    "$nfiles",
    "=",
    ",",
    "{",
    "}",
    "(",
    ")",
    "\"",
    "\"a $x\"",
    "5",
    "4k",
    "0",
    "-3",
    "99999999999g",
    " ",
    "\n",
    "# c\n",
    "define ",
    "fileset ",
    "file ",
    "process ",
    "thread ",
    "flowop ",
    "randvar",
    "cvar",
    "name=a",
    "name=b",
    ",path=/d",
    ",entries=9",
    ",dirwidth=20",
    ",leafdirs=3",
    "size=$x",
    "instances=2",
    "read ",
    "openfile ",
    "statfile ",
    "name=s,filesetname=a",
    "fd=1",
    "iosize=4k",
    "random",
    "type=gamma",
    "mean=4",
    "randtable=",
    "{{100,1,2}}",
    "parameters=mean:4;gamma:1",
    "type=cvar-gamma",
    "mode quit alldone",
    "run ",
    "psrun ",
    "sleep ",
    "echo ",
    "system ",
    "eventgen rate=3",
    "create files",
    "finishoncount ",
    "value=7",
    "target=s",
    "iters=2",
    "a ",
    "quit",
    "*",
    "/",
    "-",
    "define fileset name=a,path=/d,entries=9,dirwidth=20\n",
    "define process name=p { thread name=t { flowop statfile name=s,filesetname=a } }\n",
    "define flowop name=c,$x { flowop statfile name=s,filesetname=$x }\n",
];

/// A small change at a random place.
#[derive(Debug, Clone)]
enum Change {
    Remove(usize),
    Insert(&'static str),
    Swap(usize),
    Byte(char),
}

fn change() -> impl Strategy<Value = (prop::sample::Index, Change)> {
    let change = prop_oneof![
        (1usize..60).prop_map(Change::Remove),
        prop::sample::select(PIECES).prop_map(Change::Insert),
        (1usize..40).prop_map(Change::Swap),
        any::<char>().prop_map(Change::Byte),
    ];
    (any::<prop::sample::Index>(), change)
}

fn apply(text: &str, changes: &[(prop::sample::Index, Change)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (index, change) in changes {
        if chars.is_empty() {
            break;
        }
        let at = index.index(chars.len());
        match change {
            Change::Remove(count) => {
                let end = (at + count).min(chars.len());
                chars.drain(at..end);
            }
            Change::Insert(piece) => {
                chars.splice(at..at, piece.chars());
            }
            Change::Swap(distance) => {
                let other = (at + distance) % chars.len();
                chars.swap(at, other);
            }
            Change::Byte(c) => chars[at] = *c,
        }
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_at_all(text in any::<String>()) {
        survives(&text, &[]);
    }

    /// Bytes that are no text are refused at the first of them.
    #[test]
    fn any_bytes_at_all(before in "[a-z \n]{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let file = [before.as_bytes(), &bytes].concat();
        let read = Workload::parse_bytes("any.f", &file, &[]);
        if let Err(wrong) = std::str::from_utf8(&file) {
            let Err(Error::Script(found)) = read else { panic!("{file:?} is no text") };
            let before = &file[..wrong.valid_up_to()];
            prop_assert_eq!(found.line as usize, before.iter().filter(|&&b| b == b'\n').count() + 1);
        }
    }

    #[test]
    fn any_string_of_words(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60)) {
        survives(&pieces.concat(), &[]);
    }

    #[test]
    fn any_damaged_workload(
        which in 0..list().len(),
        changes in prop::collection::vec(change(), 1..8),
    ) {
        survives(&apply(list()[which].text, &changes), &[]);
    }

    #[test]
    fn any_override(name in "\\$?[a-z]{0,6}", value in prop::collection::vec(prop::sample::select(PIECES), 0..6)) {
        let value = value.concat();
        let overrides = [(name, value.clone()), ("nfiles".to_owned(), value)];
        survives(list()[4].text, &overrides);
    }
}

/// Texts that once would have been slow or deep.
#[test]
fn large_hostile_texts_are_read_in_bounded_time() {
    let full = |piece: &str| piece.repeat((1 << 20) / piece.len());
    let many_randoms: String = (0..20_000).map(|i| format!("set $v{i}=randvar(mean=5)\n")).collect();
    let many_warnings: String = full("debug 1\n");
    for text in [
        full("{"),
        full("(("),
        full("set $x=$x "),
        full("set $x=randvar("),
        full("\"\\"),
        full("define flowop name=a{"),
        full("echo \"$a$b$c\"\n"),
        full("\n"),
        full("#"),
        full("é"),
        many_randoms,
        many_warnings,
    ] {
        survives(&text, &[]);
    }
}
