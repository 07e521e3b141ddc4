//! MOVE on built-in testbeds.

use granary_bench::moves::{MoveBench, MoveRecord, space};
use granary_testbed::Testbed;

fn bench(testbed: &Testbed, moves: u64) -> MoveBench<'_> {
    let ssd = testbed.ssd().expect("an SSD");
    MoveBench { testbed: &testbed.name, ssd, costs: &testbed.host.costs, moves, pages: 1, seed: 1 }
}

fn record(sets: &[&str]) -> MoveRecord {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    let mut testbed = Testbed::load("pebblessd", &sets).expect("built in");
    testbed.drive.as_mut().expect("an SSD").flash.geometry.blocks_per_plane = 30;
    bench(&testbed, 2000).run(|_| {}).expect("runs")
}

#[test]
fn remap_moves_pages_faster_and_without_flash_or_link() {
    let r = record(&[]);
    let [slow, fast, slow4, fast4] = &r.runs[..] else { panic!("four runs") };
    assert!(fast.per_s > slow.per_s && fast4.per_s > slow4.per_s);
    assert_eq!((fast.programs_per_page, fast.link_bytes_per_page), (0.0, 0.0));
    assert_eq!((slow.link_bytes_per_page, slow4.link_bytes_per_page), (8192.0, 8192.0));
    assert!(slow.programs_per_page >= 1.0);
    // The paper: 3.7 times and 87 %.
    assert!((3.0..5.0).contains(&r.throughput_gain), "{}", r.throughput_gain);
    assert!((0.82..0.92).contains(&r.latency_saved), "{}", r.latency_saved);
    assert!((r.throughput_gain - fast4.per_s / slow4.per_s).abs() < 1e-9);
    assert_eq!(r, record(&[]), "equal seeds, equal results");
}

#[test]
fn a_drive_without_bam_names_one_that_has_it() {
    let testbed = Testbed::load("cxl", &[]).expect("built in");
    assert!(bench(&testbed, 10).run(|_| {}).expect_err("refused").to_string().contains("pebblessd"));
    assert!(space(&testbed.name, testbed.ssd().expect("an SSD")).is_err());
    let testbed = Testbed::load("pebblessd", &[]).expect("built in");
    let table = space(&testbed.name, testbed.ssd().expect("an SSD")).expect("has BAM");
    assert!(table.contains("file-offset table") && table.contains("section 6.5"));
}
