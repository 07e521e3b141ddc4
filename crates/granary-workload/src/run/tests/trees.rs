use super::super::tree::{PathBuffer, Tree};
use super::{LATENCY, MemFs, one_thread, run_with, workload};
use crate::spec::RandomVar;
use std::collections::BTreeSet;
use std::sync::Arc;

fn tree(fileset: &str, seed: u64) -> Tree {
    let text = one_thread(fileset, "flowop statfile name=s,filesetname=set", 1);
    let workload =
        workload(&format!("set $gamma=cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)\n{text}"));
    let randoms: Arc<[RandomVar]> = workload.randoms.clone().into();
    Tree::new(&workload.filesets[0], &randoms, seed).expect("a tree")
}

fn files(tree: &Tree) -> Vec<String> {
    let mut path = PathBuffer::new();
    (0..tree.files() as u32)
        .map(|file| String::from_utf8(path.file(tree, file).to_vec()).expect("ASCII"))
        .collect()
}

fn depth(path: &str) -> usize {
    path.matches('/').count() - "/mnt/data/set".matches('/').count()
}

#[test]
fn exact_widths_give_the_exact_tree() {
    // Mean depth ln(1000) / ln(10) = 3 (in floating point just below): files lie two levels below the root.
    let tree = tree("size=1k,entries=1001,dirwidth=10,dirgamma=0", 1);
    let paths = files(&tree);
    assert_eq!(paths.len(), 1001);
    assert_eq!(paths[0], "/mnt/data/set/00000001/00000001/00000001");
    assert_eq!(paths[9], "/mnt/data/set/00000001/00000001/00000010");
    assert_eq!(paths[10], "/mnt/data/set/00000001/00000002/00000001");
    assert_eq!(paths[999], "/mnt/data/set/00000010/00000010/00000010");
    assert_eq!(paths[1000], "/mnt/data/set/00000011/00000001/00000001");
    assert_eq!(tree.dirs(), 1 + 10 * 11 + 2);
}

#[test]
fn gamma_widths_keep_their_mean_and_every_path_is_unique() {
    for (entries, width) in [(20_000, 20), (50_000, 100), (3_000, 3)] {
        let tree = tree(&format!("size=1k,entries={entries},dirwidth={width}"), 7);
        let paths: BTreeSet<String> = files(&tree).into_iter().collect();
        assert_eq!(paths.len(), entries);
        let holders: BTreeSet<&str> = paths.iter().map(|p| p.rsplit_once('/').expect("a path").0).collect();
        let mean = entries as f64 / holders.len() as f64;
        // Widths are rounded up, so their mean is half an entry more.
        let expected = f64::from(width) + 0.5;
        assert!((mean / expected - 1.0).abs() < 0.1, "{mean} files per directory, width {width}");
        assert!(paths.iter().all(|p| depth(p) >= 2));
    }
}

#[test]
fn a_width_above_all_entries_gives_a_few_directories_right_below_the_root() {
    let tree = tree("size=1k,entries=10000,dirwidth=10000", 3);
    assert!((2..40).contains(&tree.dirs()), "{} directories", tree.dirs());
}

#[test]
fn a_width_of_one_gives_each_file_a_directory() {
    let tree = tree("size=1k,entries=50,dirwidth=1,dirgamma=0", 3);
    assert_eq!(tree.dirs(), 51);
    assert!(files(&tree).iter().all(|p| depth(p) == 2));
}

#[test]
fn leaf_directories_never_share_a_name_with_files() {
    let tree = tree("size=1k,entries=500,leafdirs=700,dirwidth=8", 5);
    let mut paths: BTreeSet<String> = files(&tree).into_iter().collect();
    let mut path = PathBuffer::new();
    for leaf in 0..tree.leaves() as u32 {
        assert!(paths.insert(String::from_utf8(path.leaf(&tree, leaf).to_vec()).expect("ASCII")));
    }
    for dir in 0..tree.dirs() as u32 {
        assert!(paths.insert(String::from_utf8(path.dir(&tree, dir).to_vec()).expect("ASCII")));
    }
    assert_eq!(paths.len(), 500 + 700 + tree.dirs());
}

#[test]
fn sizes_follow_their_distribution_and_the_seed() {
    let size = "size=$gamma,entries=20000,dirwidth=20";
    let sizes = |seed| {
        let tree = tree(size, seed);
        (0..20_000).map(|file| tree.size(file)).collect::<Vec<_>>()
    };
    let first = sizes(1);
    let mean = first.iter().sum::<u64>() as f64 / 20_000.0;
    assert!((mean / 16_384.0 - 1.0).abs() < 0.03, "mean size {mean}");
    assert_eq!(first, sizes(1));
    assert_ne!(first, sizes(2));
}

#[test]
fn a_million_files_take_little_memory_and_time() {
    let tree = tree("size=4k,entries=1000000,dirwidth=100", 1);
    assert_eq!(tree.files(), 1_000_000);
    assert!((9_000..13_000).contains(&tree.dirs()), "{} directories", tree.dirs());
}

#[test]
fn setup_makes_all_directories_and_the_preallocated_share_of_the_files() {
    let fs = MemFs::new(LATENCY);
    let text = one_thread(
        "size=3000,entries=1000,leafdirs=400,dirwidth=10,prealloc=40",
        "flowop statfile name=s,filesetname=set",
        1,
    );
    run_with(&text, 1, &fs).expect("runs");
    let state = fs.state();
    assert!((340..460).contains(&state.files.len()), "{} of 1000 files", state.files.len());
    assert!(state.files.values().all(|&inode| state.data[inode].len() == 3000));
    let word = |inode: usize| u64::from_le_bytes(state.data[inode][..8].try_into().expect("8 bytes"));
    let words: BTreeSet<u64> = state.files.values().map(|&inode| word(inode)).collect();
    assert_eq!(words.len(), state.files.len(), "each file is full of its own word");
    assert!(!words.contains(&0));
    assert!(state.dirs.contains(&b"/mnt/data/set"[..]));
}

#[test]
fn parallel_preallocation_makes_the_same_files_sooner() {
    let make = |parallel: &str| {
        let fs = MemFs::new(LATENCY);
        let text = one_thread(
            &format!("size=8k,entries=500,dirwidth=10,prealloc=80{parallel}"),
            "flowop statfile name=s,filesetname=set",
            1,
        );
        let (text, inner) = (workload(&text), fs.clone());
        let took = granary_sim::World::default()
            .run(move || {
                let mut run =
                    super::Run::new(&text, |name: &str| inner.client(name), super::RunOptions::default());
                run.setup().expect("set up");
                granary_sim::now()
            })
            .expect("no deadlock");
        let names: Vec<Vec<u8>> = fs.state().files.keys().cloned().collect();
        (names, took)
    };
    let ((serial, slow), (parallel, fast)) = (make(""), make(",paralloc"));
    assert_eq!(serial, parallel);
    assert!(fast.0 * 2 < slow.0, "{fast} is not much sooner than {slow}");
}

#[test]
fn reuse_keeps_a_tree_and_mends_its_files_while_the_default_starts_anew() {
    let text = |reuse: &str, size: u64| {
        one_thread(
            &format!("size={size},entries=20,dirwidth=5,prealloc=100{reuse}"),
            "flowop statfile name=s,filesetname=set",
            1,
        )
    };
    for (reuse, size, kept, final_size) in [
        (",reuse", 1000, true, 1000),
        (",reuse", 400, true, 400),
        (",reuse", 2000, true, 2000),
        (",trusttree", 2000, true, 1000),
        ("", 1000, false, 1000),
    ] {
        let fs = MemFs::new(LATENCY);
        run_with(&text("", 1000), 1, &fs).expect("runs");
        let before: Vec<usize> = fs.state().files.values().copied().collect();
        run_with(&text(reuse, size), 1, &fs).expect("runs");
        let state = fs.state();
        let after: Vec<usize> = state.files.values().copied().collect();
        assert_eq!(before == after, kept, "{reuse} {size}");
        assert!(after.iter().all(|&inode| state.data[inode].len() == final_size), "{reuse} {size}");
    }
    // A tree to trust that is not there is made.
    let fs = MemFs::new(LATENCY);
    run_with(&text(",trusttree", 1000), 1, &fs).expect("runs");
    assert_eq!(fs.state().files.len(), 20);
}
