//! The targets of cargo-fuzz. They are compiled here with a `fuzz_target!` of ours (`main.rs`), which makes a
//! function of each: `cargo test` sees that they still fit, with neither a nightly toolchain nor libFuzzer's
//! C++.

use granary_fuzz::Kind;
use std::path::Path;

macro_rules! targets {
    ($($target:ident: $file:literal,)*) => {
        $(#[path = $file]
        // `no_main` is for a crate.
        #[allow(unused_attributes)]
        mod $target;)*

        const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($target), $target::run)),*];
    };
}

targets! {
    filebench: "../../../../fuzz/fuzz_targets/filebench.rs",
    fio: "../../../../fuzz/fuzz_targets/fio.rs",
    testbed: "../../../../fuzz/fuzz_targets/testbed.rs",
    trace: "../../../../fuzz/fuzz_targets/trace.rs",
    requests: "../../../../fuzz/fuzz_targets/requests.rs",
    commands: "../../../../fuzz/fuzz_targets/commands.rs",
    header: "../../../../fuzz/fuzz_targets/header.rs",
    journal: "../../../../fuzz/fuzz_targets/journal.rs",
    image_bytefs: "../../../../fuzz/fuzz_targets/image_bytefs.rs",
    image_ext4: "../../../../fuzz/fuzz_targets/image_ext4.rs",
    image_f2fs: "../../../../fuzz/fuzz_targets/image_f2fs.rs",
    image_nilfs2: "../../../../fuzz/fuzz_targets/image_nilfs2.rs",
    image_nova: "../../../../fuzz/fuzz_targets/image_nova.rs",
    image_pmfs: "../../../../fuzz/fuzz_targets/image_pmfs.rs",
    image_orchfs: "../../../../fuzz/fuzz_targets/image_orchfs.rs",
    image_devfs: "../../../../fuzz/fuzz_targets/image_devfs.rs",
    image_spfs_ext4: "../../../../fuzz/fuzz_targets/image_spfs_ext4.rs",
    image_spfs_f2fs: "../../../../fuzz/fuzz_targets/image_spfs_f2fs.rs",
}

#[test]
fn every_target_takes_an_input() {
    for (_, run) in TARGETS {
        run(b"");
    }
}

/// A target that runs another kind would pass for both.
#[test]
fn every_kind_has_a_target_of_its_own() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let read = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    let manifest = read("Cargo.toml");
    for (kind, (target, _)) in Kind::all().zip(TARGETS) {
        let name = kind.name();
        assert_eq!(*target, name.replace(['-', '+'], "_"));
        let file = format!("fuzz_targets/{target}.rs");
        assert!(read(&file).contains(&format!("Kind::named(\"{name}\")")), "{file} runs another kind");
        let bin = format!("[[bin]]\nname = \"{target}\"\npath = \"{file}\"\n");
        assert!(manifest.contains(&bin), "fuzz/Cargo.toml has no {target}");
    }
    assert_eq!(Kind::all().count(), TARGETS.len());
}
