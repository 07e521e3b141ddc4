//! Content of a testbed's file and of `--set`, and messages about wrong ones.

use super::*;
use crate::Host;
use crate::builtin::text;
use granary_units::Bytes;
use toml::Value;

#[test]
fn every_builtin_testbed_loads_under_its_own_name() {
    for (name, _) in builtins() {
        assert_eq!(Testbed::load(name, &[]).expect(name).name, name);
    }
}

#[test]
fn set_reaches_a_value_by_the_end_of_its_path() {
    let t = Testbed::load("bytefs-emulator", &["costs.syscall=123".into(), "page_cache=64MiB".into()])
        .expect("good sets");
    assert_eq!((t.host.costs.syscall.0, t.host.vfs.page_cache), (123, Bytes::mib(64)));
}

/// A file may state them: none is unknown for want of a value.
#[test]
fn set_reaches_keys_that_a_testbed_leaves_out() {
    let load = |set: &str| Testbed::load("bytefs-emulator", &[set.to_owned()]);
    let emulator = Testbed::load("bytefs-emulator", &[]).expect("built in");
    let granularity = |t: &Testbed| t.fs.section("f2fs").and_then(|s| s.get("discard_granularity")).cloned();
    assert_eq!(granularity(&emulator), None);
    let t = load("f2fs.discard_granularity=4").expect("a key");
    assert_eq!(granularity(&t), Some(Value::Integer(4)));
    let t = load("read_retry_ns=7").expect("a key");
    assert_eq!(t.ssd().expect("one").flash.read_retry.map(|time| time.0), Some(7));
    assert_eq!(
        unset::keys(&emulator),
        [
            "drive.firmware.bam",
            "drive.firmware.cache_write_ack",
            "drive.firmware.flush_cost",
            "drive.firmware.tears_pages",
            "drive.firmware.volatile_cache",
            "drive.flash.mapping_unit",
            "drive.flash.read_retry_ns",
            "drive.link.half_duplex",
            "drive.link.nvme.queue_depth",
            "drive.window",
            "fs.f2fs.discard_granularity",
            "fs.nilfs2.cp",
            "fs.orchfs.read_cache",
            "host.costs.admission",
            "host.costs.command_build",
            "host.costs.completion",
            "host.costs.doorbell",
            "host.costs.library_call"
        ]
    );
    let said = load("granularity=4").expect_err("a part").to_string();
    assert!(said.contains("perhaps fs.f2fs.discard_granularity"), "{said}");
    for (set, word) in [("discard_granularity=0", "at least 1"), ("discard_granularity=513", "at most 512")] {
        let said = load(set).expect_err(set).to_string();
        assert!(said.contains(word), "{said}");
    }
    let listed = emulator.values();
    assert!(listed.contains("\n# fs.f2fs.discard_granularity: left out\n"), "{listed}");
    let image = emulator.with(&["discard_granularity=4".to_owned()]).expect("a key");
    assert_eq!(image.1, ["fs.f2fs.discard_granularity"]);
}

#[test]
fn a_wrong_set_says_what_would_be_right() {
    let message = |set: &str| Testbed::load("bytefs-emulator", &[set.to_owned()]).expect_err(set).to_string();
    let said = message("syscal=1");
    assert!(said.contains("no key 'syscal'; did you mean `syscall`? "), "{said}");
    let said = message("nand.raed_ns=3");
    assert!(said.contains("did you mean `nand.read_ns`? "), "{said}");
    // Where the end of the path is not enough, more of it is said.
    let said = message("writeback_intervall=3");
    assert!(said.contains("did you mean `ext4.writeback_interval` or `vfs.writeback_interval`? "), "{said}");
    assert!(message("syscall").contains("write KEY=VALUE"));
    let said = message("ext4.data=3");
    assert!(said.contains("ext4.data=3: unknown variant `3`, expected one of `ordered`"), "{said}");
    for (set, word) in [
        (
            "nand.read_ns=abc",
            "drive.flash.nand.read_ns takes a whole number of nanoseconds; it is 40000 in bytefs-emulator",
        ),
        ("nand.read_ns=-1", "drive.flash.nand.read_ns takes a whole number of nanoseconds"),
        ("nand.read_ns=1.5", "drive.flash.nand.read_ns takes a whole number of nanoseconds"),
        ("costs.syscall=fast", "host.costs.syscall takes a whole number of nanoseconds; it is 90 in"),
        ("host.cores=many", "host.cores takes a whole number; it is 28 in"),
        (
            "channels=99999999999",
            "drive.flash.geometry.channels takes a whole number up to 4294967295; it is 8 in",
        ),
        ("log_region=much", "drive.firmware.log_region takes a size (or bandwidth): "),
        ("log_region=much", "; it is 268435456 in bytefs-emulator"),
        ("gc_sleep=9", "fs.f2fs.gc_sleep takes a list of 3; it is [30000000000, "),
        ("ext4.data=orderd", "did you mean `ordered`?"),
    ] {
        let said = message(set);
        assert!(said.starts_with(&format!("--set {set}: ")) && said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_key_is_set_once() {
    let sets = ["nand.read_ns=3", "channels=4", "drive.flash.nand.read_ns=4"].map(str::to_owned);
    let said = Testbed::load("bytefs-emulator", &sets).expect_err("twice").to_string();
    assert_eq!(
        said,
        "--set drive.flash.nand.read_ns=4: drive.flash.nand.read_ns is set already, by --set nand.read_ns=3: leave one out"
    );
    let testbed = Testbed::load("bytefs-emulator", &[]).expect("built in");
    assert_eq!(testbed.with(&sets).expect_err("twice").to_string(), said);
}

/// The message about a file of this text.
fn refusal(text: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mine.toml");
    std::fs::write(&path, text).expect("written");
    let path = path.to_str().expect("UTF-8");
    let said = Testbed::load(path, &[]).expect_err("refused").to_string();
    said.replace(path, "mine.toml")
}

#[test]
fn unknown_keys_and_contradictions_are_refused_with_their_line() {
    let good = text("bytefs-emulator").expect("built in");
    let line =
        |text: &str, key: &str| 1 + text.lines().position(|l| l.starts_with(key)).expect("the key is there");
    for (old, new, key, word) in [
        ("line_read = 4800", "lien_read = 4800", "lien_read", "unknown field `lien_read`"),
        ("cores = 28 ", "cores = \"many\" ", "cores", "invalid type"),
        ("cores = 28 ", "cores = 0 ", "cores", "host.cores must be at least 1"),
        ("gc_stop = 5", "gc_stop = 3", "gc_stop", "must be above gc_start"),
        ("erase_ns = 2000000", "erase_ns = 2000000000", "erase_ns", "longer than a second"),
        ("channels = 8", "channels = 0", "channels", "at least 1"),
        ("log_region = \"256MiB\"", "log_region = \"1KiB\"", "log_region", "firmware.log_region"),
        ("read_bandwidth = 3500000000", "read_bandwidth = 3", "read_bandwidth", "bytes per second"),
        ("blocks_per_plane = 1096", "blocks_per_plane = 4000000", "[drive.flash]", "32-bit"),
        (
            "writeback_interval = 5000000000",
            "writeback_interval = 0",
            "writeback_interval",
            "a daemon sleeps",
        ),
        ("read_ns = 40000", "read_ns = 0", "read_ns", "no flash works in no time"),
        ("name = \"bytefs-emulator\"", "name = \"a\\nb\"", "name", "must be one line"),
        ("description = \"", "description = \"\\t", "description", "must be one line"),
        ("syscall = 90", "syscall = 2000000000", "syscall", "longer than a second"),
        ("cores = 28 ", "cores = 1000000 ", "cores", "at most 8192"),
        (
            "dirty_limit_percent = 20",
            "dirty_limit_percent = 5",
            "dirty_background_percent",
            "above dirty_limit",
        ),
    ] {
        assert!(good.contains(old), "{old}");
        let bad = good.replacen(old, new, 1);
        let said = refusal(&bad);
        let place = format!("testbed mine.toml: line {}: ", line(&bad, key));
        assert!(said.starts_with(&place) && said.contains(word), "{place}... {word}: {said}");
    }
    let said = refusal("name = \"x\"\n[host\n");
    assert!(said.contains("line 2"), "{said}");
}

/// Two sections have a key of this name; it is the one that is wrong whose line is said.
#[test]
fn a_key_that_several_sections_have_is_named_with_its_own_line() {
    let head = "base = \"cxl\"\nname = \"x\"\ndescription = \"d\"\n[host.ext4]\nwriteback_interval = ";
    let said = refusal(&format!("{head}9000\n[host.vfs]\nwriteback_interval = 0\n"));
    assert!(said.starts_with("testbed mine.toml: line 7: host.vfs.writeback_interval"), "{said}");
    let said = refusal(&format!("{head}0\n[host.vfs]\nwriteback_interval = 9000\n"));
    assert!(said.starts_with("testbed mine.toml: line 5: fs.ext4.writeback_interval"), "{said}");
    for set in [
        "vfs.writeback_interval=0",
        "ext4.writeback_interval=999",
        "ext4.commit_interval=0",
        "bytefs.commit_interval=0",
        "idle_interval=0",
        "gc_sleep=[1,1,1]",
        "discard_sleep=[50000000,500000000,0]",
        "program_ns=0",
        "erase_ns=0",
        "flushers=100000",
        "firmware.cores=100000",
        "nvme.fetch=9223372036854775807",
        "power_on=9223372036854775807",
        "command_cost=9223372036854775807",
        "gc_stop=4294967295",
        "ext4.cpus=4294967295",
        "ext4.cpus=0",
        "bytefs.cpus=0",
        "victim_search=0",
        "discard_granularity=0",
        "discard_granularity=513",
        "discard_granularity=some",
        "checkpoint_interval=0",
    ] {
        let said = Testbed::load("cxl", &[set.into()]).expect_err(set).to_string();
        assert!(said.starts_with(&format!("--set {set}: ")), "{said}");
    }
}

/// The registry takes both from elsewhere; as keys of file systems they would be accepted and ignored.
#[test]
fn a_file_system_has_no_metadata_cache_and_no_variant_of_its_own() {
    for (fs, key, value, word) in [
        ("ext4", "metadata_cache", "\"16KiB\"", "host.metadata_cache"),
        ("f2fs", "metadata_cache", "\"16KiB\"", "host.metadata_cache"),
        ("bytefs", "metadata_cache", "\"16KiB\"", "host.metadata_cache"),
        ("bytefs", "variant", "\"log\"", "bytefs-log"),
    ] {
        let head = "base = \"cxl\"\nname = \"x\"\ndescription = \"d\"\n";
        let said = refusal(&format!("{head}[host.{fs}]\n{key} = {value}\n"));
        assert!(said.starts_with("testbed mine.toml: line 5: ") && said.contains(word), "{said}");
        let set = format!("{fs}.{key}={value}");
        let said = Testbed::load("cxl", std::slice::from_ref(&set)).expect_err(&set).to_string();
        assert!(said.starts_with(&format!("--set {set}: ")) && said.contains(word), "{said}");
    }
    let set = Testbed::load("cxl", &["metadata_cache=16KiB".to_owned()]).expect("the host's");
    assert_eq!(set.host.metadata_cache, Bytes::kib(16));
}

#[test]
fn the_host_of_an_image_may_have_keys_that_had_no_effect() {
    let base = Testbed::load("cxl", &[]).expect("built in");
    let old = "[ext4]\nmetadata_cache = 7\ncpus = 3\n[bytefs]\nvariant = \"full\"\nmetadata_cache = 7\n";
    let (host, fs) = Host::from_table(&toml::from_str(old).expect("TOML"), &base).expect("readable");
    let cpus = fs.section("ext4").and_then(|s| s.get("cpus")).and_then(Value::as_integer);
    assert_eq!((cpus, host.metadata_cache), (Some(3), base.host.metadata_cache));
}

#[test]
fn a_based_testbed_takes_over_what_it_does_not_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mine.toml");
    let load = |text: &str| {
        std::fs::write(&path, text).expect("written");
        Testbed::load(path.to_str().expect("UTF-8"), &[])
    };
    let head = "base = \"bytefs-emulator\"\nname = \"mine\"\ndescription = \"d\"\n";
    let mine = load(&format!("{head}[drive.flash.nand]\nread_ns = 3000\n")).expect("good");
    let base = Testbed::load("bytefs-emulator", &[]).expect("built in");
    assert_eq!((mine.name.as_str(), mine.ssd().expect("one").flash.timing.read.0), ("mine", 3000));
    let link = |t: &Testbed| t.ssd().expect("one").link.clone();
    assert_eq!((link(&mine), &mine.host), (link(&base), &base.host));
    let said =
        load(&format!("{head}[drive.flash]\ngc_stop = 2\n")).expect_err("contradicts the base").to_string();
    assert!(said.contains("mine.toml: line 5: ") && said.contains("gc_start (3)"), "{said}");
    let said = load(&format!("{head}[drive.flash]\ngc_stpo = 2\n")).expect_err("unknown").to_string();
    assert!(said.contains("mine.toml: line 5: unknown field `gc_stpo`: did you mean `gc_stop`?"), "{said}");
    // Of two keys that contradict each other the one that stands here is named, not the base's.
    let said = load(&format!("{head}[drive.flash]\ngc_start = 5\n")).expect_err("contradicts").to_string();
    assert!(said.contains("mine.toml: line 5: ") && said.contains("gc_stop (5)"), "{said}");
    let said = load(&format!("{head}[drive.flash.geometry]\nblocks_per_plane = 3\n"))
        .expect_err("too few")
        .to_string();
    assert!(said.contains("mine.toml: line 5: drive.flash.gc_stop is 5"), "{said}");
    let said = load(&format!("{head}[drive.link]\nread_bandwidth = -1\n")).expect_err("negative").to_string();
    assert!(said.contains("mine.toml: line 5: a size (or bandwidth) belongs here"), "{said}");
    let own = path.to_str().expect("UTF-8").to_owned();
    let said = load(&format!("base = \"{own}\"\n")).expect_err("a circle").to_string();
    assert!(said.contains("based on each other"), "{said}");
}

#[test]
fn a_set_that_contradicts_the_file_is_named() {
    let said = Testbed::load("bytefs-emulator", &["gc_stop=2".into()]).expect_err("refused").to_string();
    assert!(said.starts_with("--set gc_stop=2: ") && said.contains("above gc_start"), "{said}");
    // The set is named, also where the message begins with another key, or names none.
    for set in [
        "gc_start=5",
        "blocks_per_plane=3",
        "host.vfs.dirty_limit_percent=5",
        "geometry.channels=100000000",
        "link.read_bandwidth=-1",
    ] {
        let sets = [set.to_owned(), "costs.syscall=91".to_owned()];
        let said = Testbed::load("bytefs-emulator", &sets).expect_err(set).to_string();
        assert!(said.starts_with(&format!("--set {set}: ")) && !said.contains("untagged"), "{said}");
    }
    let two = ["gc_start=5".to_owned(), "costs.syscall=91".to_owned()];
    let testbed = Testbed::load("bytefs-emulator", &[]).expect("built in");
    let said = testbed.with(&two).expect_err("refused").to_string();
    assert!(said.starts_with("--set gc_start=5: "), "{said}");
}

#[test]
fn a_changed_copy_of_a_built_in_testbed_is_told_from_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("mine.toml");
    let name = path.to_str().expect("UTF-8");
    let write = |text: &str| std::fs::write(&path, text).expect("written");
    let good = text("cxl").expect("built in");
    let built_in = Testbed::load("cxl", &[]).expect("built in");
    write(&good);
    let copy = Testbed::load(name, &[]).expect("a copy");
    assert_eq!((copy.hash(), copy.impostor(name)), (built_in.hash(), None));
    write("base = \"cxl\"\n[drive.flash.nand]\nread_ns = 3001\n");
    let other = Testbed::load(name, &[]).expect("changed");
    assert_ne!(other.hash(), built_in.hash());
    assert!(other.impostor(name).expect("told").contains("the built-in cxl"), "{:?}", other.name);
    let set = Testbed::load("cxl", &["nand.read_ns=3001".to_owned()]).expect("set");
    assert_eq!((set.hash(), set.impostor("cxl")), (other.hash(), None));
    assert_eq!((Testbed::file("cxl"), Testbed::file(name)), (None, Some(name.to_owned())));
}

#[test]
fn the_values_of_a_testbed_are_a_testbed() {
    for (name, _) in builtins() {
        let testbed = Testbed::load(name, &[]).expect("built in");
        assert_eq!(toml::from_str::<Testbed>(&testbed.values()).expect("a testbed"), testbed);
    }
}

#[test]
fn an_unknown_testbed_lists_the_known_ones() {
    let e = Testbed::load("no-such", &[]).expect_err("unknown").to_string();
    assert!(e.contains("bytefs-emulator") && !e.contains("did you mean"), "{e}");
    let e = Testbed::load("bytefs-emulater", &[]).expect_err("unknown").to_string();
    assert!(e.contains("did you mean `bytefs-emulator`?"), "{e}");
}

#[test]
fn a_firmware_that_no_drive_has_is_refused_by_its_key() {
    let set = ["drive.firmware.mode=foo".to_owned()];
    let refused = Testbed::load("bytefs-emulator", &set).expect_err("no drive has it").to_string();
    assert!(
        refused.contains("drive.firmware.mode=foo") && refused.contains("one of log, cache"),
        "{refused}"
    );
    let long = [format!("drive.firmware.mode={}", "x".repeat(100))];
    assert!(Testbed::load("bytefs-emulator", &long).is_err());
}
