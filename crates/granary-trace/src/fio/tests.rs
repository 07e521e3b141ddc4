//! Meaning of job files, and messages about wrong ones.

use super::*;
use granary_units::{Bytes, Nanos};

fn good(text: &str) -> JobFile {
    parse("f", text).unwrap_or_else(|e| panic!("{e}"))
}

fn why(text: &str) -> String {
    parse("f.fio", text).expect_err("bad").to_string()
}

fn fixed(size: u64) -> Blocks {
    Blocks::Fixed(Bytes(size))
}

#[test]
fn jobs_take_over_what_global_says() {
    let text = "; a comment\n[global]\nbs=16k\nsize=1g\nruntime=500ms\n[a]\nrw=randread\niodepth=32\n\n[b]\nrw=randrw\nrwmixread=70\nnumjobs=2\nnorandommap\ntime_based=1\noffset=1m\n";
    let jobs = good(text).jobs;
    assert_eq!(jobs.len(), 2);
    let (a, b) = (&jobs[0], &jobs[1]);
    assert_eq!((a.name.as_str(), a.depth, a.size), ("a", 32, Some(Amount::Bytes(Bytes::gib(1)))));
    assert_eq!(a.blocks, [fixed(16384), fixed(16384), fixed(16384)]);
    assert_eq!((a.random_map, a.runtime), (true, Some(Nanos::from_millis(500))));
    assert_eq!((a.time_based, b.time_based), (false, true));
    assert_eq!((b.read_percent, b.clients, b.random_map), (70, 2, false));
    assert_eq!(b.offset, Amount::Bytes(Bytes::mib(1)));
}

/// Each honoured option, with fio's meaning.
#[test]
fn what_shapes_a_job_is_in_the_job() {
    let of = |lines: &str| good(&format!("[a]\n{lines}\n")).jobs.remove(0);
    assert_eq!(of("bs=4k,8k").blocks, [fixed(4096), fixed(8192), fixed(8192)]);
    assert_eq!(of("bs=8k,32k,").blocks, [fixed(8192), fixed(32768), fixed(4096)]);
    assert_eq!(of("bs=,8k").blocks, [fixed(4096), fixed(8192), fixed(8192)]);
    assert_eq!(of("bs=,8k,").blocks, [fixed(4096), fixed(8192), fixed(4096)]);
    let range = |a, b| Blocks::Range(Bytes::kib(a), Bytes::kib(b));
    assert_eq!(of("bsrange=4k-16k,8k:32k").blocks, [range(4, 16), range(8, 32), range(8, 32)]);
    let split =
        |all: &[(u64, u32)]| Blocks::Split(all.iter().map(|&(k, share)| (Bytes::kib(k), share)).collect());
    assert_eq!(of("bssplit=64k/50:4k/10:32k/40").blocks[0], split(&[(4, 10), (32, 40), (64, 50)]));
    assert_eq!(of("bssplit=4k/50:8k/:32k").blocks[0], split(&[(4, 50), (8, 25), (32, 25)]));
    let both = of("bssplit=4k/50:8k/50,4k/90:8k/10").blocks;
    assert_eq!((&both[0], &both[1]), (&split(&[(4, 50), (8, 50)]), &split(&[(4, 90), (8, 10)])));
    assert_eq!(of("size=50%\nio_size=200%").size, Some(Amount::Percent(50)));
    assert_eq!(Amount::Percent(50).of(1 << 40), 1 << 39);
    assert_eq!(of("rate=1m,500k").rate, [Some(1 << 20), Some(500 << 10), Some(500 << 10)]);
    assert_eq!(of("rate=,500k").rate, [None, Some(500 << 10), Some(500 << 10)]);
    assert_eq!(of("rate=500k,").rate, [Some(500 << 10), None, None]);
    let limited = of("rw=randrw\nrate_iops=100\nbssplit=4k/50:8k/50");
    assert_eq!(limited.bytes_per_s(Access::Write), Some(100 * 4096), "of the smallest block");
    let think = of("thinktime=50\nthinktime_blocks=4");
    assert_eq!((think.think, think.think_blocks), (Nanos(50_000), 4));
    assert_eq!(of("thinktime=2ms").think, Nanos::from_millis(2));
    assert_eq!(of("fdatasync=32").flush_every, 32);
    assert_eq!(of("ramp_time=2").ramp, Nanos::from_millis(2000));
    assert_eq!(of("startdelay=1-3").start_delay, (Nanos::from_millis(1000), Nanos::from_millis(3000)));
    assert_eq!(of("loops=3\nnumber_ios=7").loops, 3);
    assert_eq!(of("rwmixwrite=30").read_percent, 70);
    assert!(of("rw=randtrim").pattern.accesses().all(|a| a == Access::Trim));
    assert!(of("wait_for_previous").stonewall);
    let sync = of("ioengine=psync\niodepth=32");
    assert_eq!((sync.depth, sync.in_flight()), (32, 1));
}

#[test]
fn options_that_change_no_access_are_left_out_and_named_once() {
    let text = "[global]\nioengine=libaio\ndirect=1\nfilename=/dev/nvme0n1\ngroup_reporting\n[first]\nrw=write\nbs=128k\ndirect=1\n\
                [second]\nstonewall\nrw=randread\n";
    let file = good(text);
    assert_eq!(file.without_effect, ["group_reporting"]);
    assert_eq!(
        file.jobs[0].other.iter().map(|s| (&s.key[..], &s.value[..])).collect::<Vec<_>>(),
        [("filename", "/dev/nvme0n1"), ("direct", "1")]
    );
    assert_eq!((file.jobs[0].stonewall, file.jobs[1].stonewall), (false, true));
}

#[test]
fn errors_name_the_line_and_what_would_be_right() {
    for (text, word) in [
        ("[a]\nrw=read\nzonemode=zbd\n", "f.fio, line 3: 'zonemode' is not supported and may change the job"),
        ("[a]\nrw=read\nnumjob=4\n", "did you mean numjobs?"),
        ("[a]\nrw=reed\n", "line 2: rw=reed: there are read, write"),
        ("[a]\nrw=randread:8\n", "line 2: rw=randread:8: a number behind the pattern"),
        ("bs=4k\n", "line 1: 'bs' stands before the first section"),
        ("[a]\nbs=four\n", "not a size"),
        ("[a]\nbs=4KiB\n", "line 2: bs=4KiB: fio takes"),
        ("[a]\nsize=1Gi\n", "write size=1g"),
        ("[a]\nbs=1k,2k,3k,4k\n", "at most three values"),
        ("[a]\nbsrange=8k-4k\n", "the second value is below the first"),
        ("[a]\nbsrange=0-4k\n", "at least 1 byte"),
        ("[a]\nbssplit=4k/50:8k/60\n", "add up to 110"),
        ("[a]\nbssplit=4k/50:8k/40\n", "add up to 90"),
        ("[a]\nsize=120%\n", "1% to 100%"),
        ("[a]\nsize=${SIZE}\n", "variables of the environment"),
        ("[a]\nrandom_distribution=zipf:1.2\n", "only random is supported"),
        ("[a]\nioengine=rados\n", "known are sync, psync"),
        ("[a]\nthinktime=soon\n", "line 2: thinktime=soon: not a time"),
        ("[a\n", "no section"),
        ("[global]\nbs=4k\n", "there is no job"),
        ("[a]\niodepth=0\n", "line 2"),
        ("[a]\nsize\n", "needs a value"),
        ("[a]\nnorandommap=false\n", "line 2: norandommap=false: write norandommap"),
    ] {
        let said = why(text);
        assert!(said.contains(word), "{text}: {said}");
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let said = why("[a]\nrw=reed\nbs=4k\nzonemode=zbd\n[b]\nsize=x\nrw=read\n");
    assert!(said.starts_with("f.fio: 3 lines cannot be taken\n  line 2: rw=reed"), "{said}");
    assert!(said.contains("\n  line 4: 'zonemode'") && said.contains("\n  line 6: size=x"), "{said}");
}

#[test]
fn sizes_are_drawn_as_often_as_they_are_asked_for() {
    let blocks = Blocks::Split(vec![(Bytes(1), 10), (Bytes(2), 90)]);
    let draws: Vec<u64> = (0..100).map(|n| blocks.draw(|below| n % below)).collect();
    assert_eq!(draws.iter().filter(|d| **d == 1).count(), 10);
    let range = Blocks::Range(Bytes(4096), Bytes(16384));
    let draws: Vec<u64> = (0..4).map(|n| range.draw(|below| n % below)).collect();
    assert_eq!(draws, [4096, 8192, 12288, 16384]);
}

#[test]
fn any_text_is_read_or_refused() {
    let words = [
        "[a]",
        "[global]",
        "rw=randrw",
        "bs=4k,",
        "bsrange=1-2",
        "bssplit=4k/:8k/",
        "=",
        "size=5%",
        "rate=,1",
        "[",
        "x",
    ];
    let mut random = granary_sim::rng::Stream::new(1, "fio text");
    for _ in 0..3000 {
        let text: Vec<&str> =
            (0..random.below(8)).map(|_| words[random.below(words.len() as u64) as usize]).collect();
        // The result does not matter, but nothing may panic.
        let _ = parse("f", &text.join("\n"));
    }
}

#[test]
fn times_that_the_virtual_clock_does_not_hold_are_refused() {
    for line in ["startdelay=200000d", "ramp_time=200000d", "runtime=9999999h", "thinktime=200000d"] {
        let said = parse("f", &format!("[a]\nrw=read\n{line}\n")).expect_err("too long").to_string();
        assert!(said.contains("a hundred years"), "{line}: {said}");
    }
}
