//! `granary run WORKLOAD|FILE.f`: the workload on each file system, side by side.

use crate::cli::RunArgs;
use crate::progress::Bars;
use crate::speed::Speed;
use granary_lab::LabError;
use granary_lab::experiment::Experiment;
use granary_lab::record::Record;
use granary_lab::registry;
use granary_lab::report::{json_line, table};
use granary_lab::testbed::Testbed;
use granary_workload::{Workload, builtin};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Runs the command.
pub fn run(args: &RunArgs) -> Result<(), LabError> {
    let testbed = Testbed::load(&args.testbed, &args.set)?;
    for fs in &args.fs {
        registry::find(fs)?;
    }
    if args.record.is_some() && args.fs.len() > 1 {
        return Err(LabError::Usage(
            "--record takes one file system at a time: say for example --fs bytefs".to_owned(),
        ));
    }
    let workload = workload(args)?;
    let experiments: Vec<Experiment> = args
        .fs
        .iter()
        .map(|fs| Experiment {
            workload: workload.clone(),
            scale: args.scale,
            fs: fs.clone(),
            testbed: testbed.clone(),
            set: args.set.clone(),
            seed: args.seed,
            commit: env!("GRANARY_COMMIT").to_owned(),
            record: args.record.clone(),
        })
        .collect();
    let records = all(&experiments, args.jobs)?;
    let mut json = String::new();
    for r in &records {
        let _ = writeln!(json, "{}", json_line(r));
    }
    let text = table(&records);
    out!("{}", if args.json { &json } else { &text });
    if let Some(dir) = &args.out {
        write(dir, "results.jsonl", &json)?;
        write(dir, "results.txt", &text)?;
    }
    Ok(())
}

/// The workload, with variables set, scaled, and with its threads.
fn workload(args: &RunArgs) -> Result<Workload, LabError> {
    let vars: Vec<(String, String)> = args
        .vars
        .iter()
        .map(|v| match v.split_once('=') {
            Some((name, value)) => Ok((name.trim_start_matches('$').to_owned(), value.to_owned())),
            None => {
                Err(LabError::BadSet { set: v.clone(), message: "write NAME=VALUE after --var".to_owned() })
            }
        })
        .collect::<Result<_, _>>()?;
    let built_in = builtin(&args.workload).is_some();
    let mut workload = if !built_in && Path::new(&args.workload).exists() {
        let text = std::fs::read_to_string(&args.workload)
            .map_err(|source| LabError::Io { what: format!("reading {}", args.workload), source })?;
        Workload::parse(&args.workload, &text, &vars)?
    } else {
        Workload::from_builtin(&args.workload, &vars)?
    };
    workload.scale(args.scale)?;
    if let Some(n) = args.threads {
        workload.set_threads(n)?;
    }
    Ok(workload)
}

/// How long the simulation took goes to stderr: records hold virtual time only.
fn tell(record: &Record, seconds: f64, speed: &Speed) {
    let (virtual_s, workload) = (record.virtual_s, &record.workload);
    say!(
        "{workload} on {}: {virtual_s:.3} virtual seconds measured; all phases took {seconds:.1} s{}",
        record.fs,
        speed.sentence()
    );
}

/// Runs all experiments, up to `jobs` at a time, each on its own OS thread; records in the order of the experiments.
pub(super) fn all(experiments: &[Experiment], jobs: usize) -> Result<Vec<Record>, LabError> {
    let bars = Bars::new();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<Record, LabError>>>> =
        Mutex::new(experiments.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, experiments.len()) {
            scope.spawn(|| {
                while let Some((i, e)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, experiments.get(i)?)))
                {
                    #[allow(clippy::disallowed_methods)]
                    // told to the person who waited; not part of a record
                    let started = Instant::now();
                    let name = format!("{} {}", e.workload.name, e.fs);
                    let speed = Speed::default();
                    let result = e.run(Some(speed.watch(bars.start(&name))));
                    bars.finish(&name);
                    if let Ok(record) = &result {
                        tell(record, started.elapsed().as_secs_f64(), &speed);
                    }
                    results.lock().expect("no panic while held")[i] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().expect("no panic while held");
    results.into_iter().map(|r| r.expect("every experiment was run")).collect()
}

pub(super) fn write(dir: &Path, name: &str, text: &str) -> Result<(), LabError> {
    let io = |source| LabError::Io { what: format!("writing {}", dir.join(name).display()), source };
    std::fs::create_dir_all(dir).map_err(io)?;
    std::fs::write(dir.join(name), text).map_err(io)
}
