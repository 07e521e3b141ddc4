//! Tests of this module.

use super::*;

/// Bytes of file data and of inodes that a workload reads, whose files were just written, with `prologue`.
fn reads(fs: &str, prologue: &str) -> (u64, u64) {
    let record = run(fs, prologue, &[]);
    let of = |what: &str| record.host.block.read_bytes.get(what).copied().unwrap_or(0);
    (of("data"), of("inode"))
}

/// A run of 150 reads on the changed testbed.
fn run(fs: &str, prologue: &str, sets: &[String]) -> Record {
    experiment(fs, prologue, sets).run(None).expect("runs")
}

fn experiment(fs: &str, prologue: &str, sets: &[String]) -> Experiment {
    let text = format!(
        "define fileset name=set,path=/d,size=16k,entries=50,dirwidth=10,prealloc=100\n\
         define process name=p,instances=1\n{{\nthread name=t,memsize=1m,instances=1\n{{\n\
         flowop openfile name=o,filesetname=set,fd=1\n\
         flowop readwholefile name=r,fd=1,iosize=1m\n\
         flowop closefile name=c,fd=1\n\
         flowop finishoncount name=f,value=150\n}}\n}}\n\
         create files\n{prologue}run 60\n"
    );
    Experiment {
        workload: Workload::parse("cold", &text, &[]).expect("a workload"),
        scale: 1.0,
        fs: fs.to_owned(),
        testbed: Testbed::load("bytefs-emulator", sets).expect("valid"),
        set: sets.to_vec(),
        origin: Origin::default(),
        seed: 1,
        commit: String::new(),
        record: None,
        changed_lines: 0.0,
        then_clean: None,
        then_overwrite: false,
    }
}

/// One drive write is every page once, and what gc copies is beside it.
#[test]
fn a_cleaned_drive_is_written_once_more() {
    let sets = ["drive.flash.geometry.channels=4", "drive.flash.geometry.ways=4"];
    let sets: Vec<String> =
        sets.into_iter().chain(["drive.flash.geometry.blocks_per_plane=40"]).map(str::to_owned).collect();
    let plain = experiment("f2fs", "", &sets);
    let pages = plain.testbed.ssd().expect("an SSD").pages();
    let cleaned = Experiment { then_clean: Some(Nanos::ZERO), then_overwrite: true, ..plain };
    let written = cleaned.run(None).expect("runs").cleaning.and_then(|c| c.overwrite).expect("written");
    assert_eq!(written.host.written(), pages * 4096);
    assert_eq!(written.flash.program_pages.get("host"), Some(&pages));
}

#[test]
fn who_has_no_log_to_clean_is_told_so() {
    let cleaned = Experiment { then_clean: Some(Nanos::from_secs(1)), ..experiment("ext4", "", &[]) };
    let said = cleaned.run(None).expect_err("ext4 has no log").to_string();
    assert!(said.contains("ext4 has no log to clean") && said.contains("f2fs"), "{said}");
}

#[test]
fn a_record_says_what_its_testbeds_values_contradict() {
    let sets = ["blocks_per_plane=110", "over_provisioning_permille=10"].map(str::to_owned);
    let said = run("ext4", "", &sets).warnings.join("\n");
    assert!(said.contains("over_provisioning_permille: 1 % are stated, 8.9 % it is"), "{said}");
    assert!(!run("ext4", "", &[]).warnings.join("\n").contains("drive."));
}

/// Threads of one instance are one process to the file system; another instance is another.
#[test]
fn threads_of_an_instance_share_its_process() {
    let told = World::default().run(|| {
        let fs = registry::find("ext4").expect("registered");
        let testbed = Testbed::load("bytefs-emulator", &[]).expect("valid");
        let devices = testbed.devices(fs).expect("devices");
        registry::mkfs(fs, &devices).expect("formats");
        let mounted = registry::mount(fs, &devices, &testbed, false).expect("mounts");
        let clients = Processes::new(Vfs::mount(mounted, testbed.host.vfs).expect("mounts"));
        let of = |name, instance, thread: &str| {
            clients.client(ProcessId { name, instance }, thread).caller().clone()
        };
        [of("p", 1, "p-1/t-1"), of("p", 1, "p-1/t-2"), of("p", 2, "p-2/t-1"), of("q", 1, "q-1/t-1")]
    });
    let told = told.expect("no deadlock");
    assert_eq!(told[0], told[1]);
    assert!(told.iter().all(|caller| caller.cred == Cred::ROOT && caller.process > 0));
    let numbers: std::collections::BTreeSet<u32> = told.iter().map(|caller| caller.process).collect();
    assert_eq!(numbers.len(), 3, "{told:?}");
}

#[test]
fn drop_caches_in_the_prologue_makes_the_run_begin_cold() {
    for fs in ["bytefs", "ext4", "f2fs"] {
        assert_eq!(reads(fs, "system \"sync\"\n"), (0, 0), "{fs} finds all in memory");
        let cold = "system \"sync\"\nsystem \"echo 3 > /proc/sys/vm/drop_caches\"\n";
        let (data, inodes) = reads(fs, cold);
        assert!(data >= 16 << 10 && inodes > 0, "{fs} reads {data} B of data, {inodes} B of inodes");
    }
}
