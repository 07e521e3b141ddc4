//! Content of an image's header: whatever stands in it, opening ends with an answer, and mkfs's refusals hold
//! for it.

use crate::common::Place;
use std::fs;
use toml::{Table, Value};

/// Places of all numbers of a table, those in lists too.
fn numbers(value: &Value, at: &[String], out: &mut Vec<Vec<String>>) {
    let below = |key: String| [at, &[key]].concat();
    match value {
        Value::Table(t) => t.iter().for_each(|(key, v)| numbers(v, &below(key.clone()), out)),
        Value::Array(a) => a.iter().enumerate().for_each(|(n, v)| numbers(v, &below(n.to_string()), out)),
        Value::Integer(_) => out.push(at.to_vec()),
        // Sizes.
        Value::String(s) if s.parse::<granary_units::Bytes>().is_ok() && at[0] != "image" => {
            out.push(at.to_vec())
        }
        _ => {}
    }
}

fn place_of<'a>(table: &'a mut Table, at: &[String]) -> &'a mut Value {
    let mut value = table.get_mut(&at[0]).expect("a key");
    for key in &at[1..] {
        value = match value {
            Value::Table(t) => t.get_mut(key).expect("a key"),
            Value::Array(a) => &mut a[key.parse::<usize>().expect("a place")],
            _ => panic!("{at:?}"),
        };
    }
    value
}

/// Every so many keys are tried: every fourth, or all with `GRANARY_HEADERS=1`.
fn step() -> usize {
    std::env::var("GRANARY_HEADERS").ok().and_then(|n| n.parse().ok()).unwrap_or(4)
}

/// The header of an image with another body, and a right checksum.
fn header(body: &Table) -> String {
    let body = toml::to_string(body).expect("TOML");
    format!("granary-image = 5\ncrc32c = \"{:#010x}\"\n{body}", crc32c::crc32c(body.as_bytes()))
}

#[test]
fn a_header_with_a_right_checksum_and_any_number_is_opened_or_refused_as_mkfs_refuses_it() {
    let Some(place) = Place::new() else { return };
    let content = "content\n".repeat(100_000);
    fs::write(place.path("file"), &content).expect("written");
    for (fs_name, sections) in [
        ("bytefs", &["image", "host", "drive"][..]),
        ("f2fs", &["f2fs"]),
        ("ext4", &["ext4", "vfs", "firmware"]),
    ] {
        place.runs(
            &[
                "mkfs",
                "img",
                "--fs",
                fs_name,
                "--size",
                "64MiB",
                "--force",
                "--set",
                "f2fs.discard_granularity=7",
            ],
            0,
        );
        let text = fs::read_to_string(place.path("img/image.toml")).expect("read");
        let body: Table = toml::from_str(text.splitn(3, '\n').nth(2).expect("a body")).expect("TOML");
        let mut places = Vec::new();
        numbers(&Value::Table(body.clone()), &[], &mut places);
        let wanted = |at: &&Vec<String>| {
            let path = at.iter().filter(|k| *k != "image").map(String::as_str).collect::<Vec<_>>();
            sections.iter().any(|s| at[0] == *s || path.contains(s))
        };
        let mut refused = 0;
        for (n, at) in places.iter().filter(wanted).enumerate().step_by(step()) {
            for extreme in [i64::MAX, [0, 1 << 31, 1 << 32, 1_000_000_000_000][n / step() % 4]] {
                let mut changed = body.clone();
                *place_of(&mut changed, at) = Value::Integer(extreme);
                fs::write(place.path("img/image.toml"), header(&changed)).expect("written");
                let (code, said) = place.ends(&["ls", "img", "/"]);
                assert!(
                    matches!(code, Some(0 | 2)) && !said.contains("panicked"),
                    "{at:?} = {extreme}: {code:?} {said}"
                );
                refused += u32::from(code == Some(2));
                // Of lists the key stands for all; what says nothing of a testbed no --set can say.
                let key = at.iter().skip_while(|k| *k == "image").map(String::as_str).collect::<Vec<_>>();
                if at.last().is_some_and(|k| k.parse::<u32>().is_ok()) || at[..2] == ["image", "created"] {
                    continue;
                }
                let set = format!("{}={extreme}", key.join("."));
                let (made, why) = place
                    .ends(&["mkfs", "other", "--force", "--size", "64MiB", "--fs", fs_name, "--set", &set]);
                assert!(
                    matches!(made, Some(0 | 2)) && !why.contains("panicked"),
                    "mkfs {set}: {made:?} {why}"
                );
                assert!(
                    made == Some(0) || code == Some(2),
                    "{set}: mkfs refuses it ({why}), opening does not"
                );
                if made == Some(0) && extreme == i64::MAX {
                    let (code, said) = place.ends(&["cp-in", "other", "file", "/"]);
                    assert_eq!(code, Some(0), "{set}: made, and then of no use: {said}");
                    assert_eq!(place.runs(&["cat", "other", "/file"], 0).0, content, "{set}");
                }
            }
        }
        assert!(refused > 2, "{refused} refused");
    }
}

#[test]
fn commands_that_read_start_no_write_back() {
    let Some(place) = Place::new() else { return };
    place.runs(&["mkfs", "img", "--size", "64MiB", "--set", "flushers=100"], 0);
    let threads = |how: &[&str]| {
        place.runs(&[&["mount", "--daemon"], how, &["img", "mnt"]].concat(), 0);
        let tasks = fs::read_dir(format!("/proc/{}/task", place.server())).expect("it runs").count();
        place.runs(&["umount", "mnt"], 0);
        tasks
    };
    assert!(threads(&[]) > 100);
    assert!(threads(&["--read-only"]) < 50);
}
