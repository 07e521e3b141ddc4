use granary_crash::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let (fs, load, runs): (String, String, String) =
        (args.next().unwrap(), args.next().unwrap(), args.next().unwrap());
    let t = target::by_name(granary_lab::registry::FILE_SYSTEMS, &fs).unwrap();
    let e = Explorer::new(t, load_by_name(&load).unwrap()).unwrap_or_else(|f| panic!("{f}"));
    if let Some((seed, path)) = runs.split_once(':') {
        let r = e.replay(seed.parse().unwrap(), &path.parse().unwrap());
        match r {
            Ok(()) => println!("ok"),
            Err(f) => println!("{f}"),
        }
        return;
    }
    let (from, to) = runs.split_once('-').unwrap_or(("0", &runs));
    let start = std::time::Instant::now();
    let mut report = Report::default();
    for seed in from.parse().unwrap()..to.parse().unwrap() {
        report.add(e.run(seed, &Effort::default()));
    }
    let s = start.elapsed().as_secs_f64();
    println!(
        "{fs} {load}: {} points in {s:.2} s = {:.0}/s; {} failures; {}",
        report.points,
        report.points as f64 / s,
        report.failures.len(),
        report.coverage
    );
    for s in &report.steps {
        println!("   {s:?}");
    }
    for f in report.failures.iter().take(3) {
        println!("{f}");
    }
}
