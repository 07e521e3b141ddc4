//! `granary run WORKLOAD|FILE.f|FILE.fio|FILE.fiu`: the workload on each file system, side by side.

use crate::cli::RunArgs;
use crate::cmd::interrupt::{self, Stop};
use crate::cmd::results;
use crate::failure::Failure;
use crate::progress::Bars;
use crate::speed::Speed;
use granary_bench::memory::{Limits, Need};
use granary_lab::LabError;
use granary_lab::experiment::{Experiment, Origin};
use granary_lab::record::Record;
use granary_lab::report::{histograms, json_line, periods, table};
use granary_testbed::Testbed;
use granary_testbed::registry;
use granary_workload::lang::MAX_TEXT;
use granary_workload::{Workload, builtin};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Runs the command.
pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let (testbed, set) = testbed(args)?;
    for fs in &args.fs {
        registry::find(fs)?;
    }
    if args.record.is_some() && args.fs.len() > 1 {
        return Err(Failure::usage("--record takes one file system at a time: say for example --fs bytefs"));
    }
    let (workload, mut origin) = workload(args)?;
    for message in &workload.messages {
        say!("{message}");
    }
    // Before the run: it may take as long as what they warn of.
    for warning in &workload.warnings {
        let mark = if warning.line > 0 { ',' } else { ':' };
        say!("warning: {}{mark} {warning}", workload.name);
    }
    origin.testbed_file = Testbed::file(&args.testbed);
    origin.notes.extend(testbed.impostor(&args.testbed));
    let mut outputs = results::Outputs::open(&args.export, args.out.as_deref())?;
    args.record.as_deref().map(results::writable).transpose()?;
    let stop = Stop::watch()?;
    let experiments: Vec<Experiment> = args
        .fs
        .iter()
        .map(|fs| Experiment {
            workload: workload.clone(),
            scale: args.scale,
            fs: fs.clone(),
            testbed: testbed.clone(),
            set: set.clone(),
            origin: origin.clone(),
            seed: args.seed,
            commit: env!("GRANARY_COMMIT").to_owned(),
            record: args.record.clone(),
            changed_lines: args.changed_lines,
            then_clean: args.then_clean,
            then_overwrite: args.then_overwrite,
        })
        .collect();
    // A file system may be measured while another is still set up.
    stop.measuring();
    fit_together(&experiments, args.jobs)?;
    let (records, failed) = all_until(&experiments, args.jobs, Some(stop.flag()));
    let mut json = String::new();
    for r in &records {
        let _ = writeln!(json, "{}", json_line(r));
    }
    let view = results::view(args.latencies);
    let text: String = [table(&records, view), periods(&records, view), histograms(&records, view)]
        .iter()
        .filter(|part| !part.is_empty())
        .map(|part| format!("{}\n", part.trim_end()))
        .collect::<Vec<_>>()
        .join("\n");
    out!("{}", if args.json { &json } else { &text });
    if !records.is_empty() {
        outputs.write(&records, &json, &text)?;
    }
    match stop.signal() {
        None => ended(&failed),
        Some(signal) => {
            interrupt::end_records();
            failed.iter().for_each(|e| say!("{e}"));
            Err(Failure::stopped(signal))
        }
    }
}

/// The testbed, and the changes that made it.
fn testbed(args: &RunArgs) -> Result<(Testbed, Vec<String>), LabError> {
    let whole = Testbed::load(&args.testbed, &args.set)?;
    if !args.scale_memory {
        return Ok((whole, args.set.clone()));
    }
    let set = [whole.memory_sets(args.scale, &args.set), args.set.clone()].concat();
    Ok((Testbed::load(&args.testbed, &set)?, set))
}

/// The workload, with variables set, scaled, and with its threads; and where it comes from.
fn workload(args: &RunArgs) -> Result<(Workload, Origin), LabError> {
    let vars: Vec<(String, String)> = args
        .vars
        .iter()
        .map(|v| match v.split_once('=') {
            Some((name, value)) => Ok((name.trim_start_matches('$').to_owned(), value.to_owned())),
            None => {
                Err(LabError::Usage(format!("--var {v}: write NAME=VALUE, for example --var nfiles=1000")))
            }
        })
        .collect::<Result<_, _>>()?;
    if let Some((n, (name, _))) =
        vars.iter().enumerate().find(|(n, (name, _))| vars[..*n].iter().any(|(before, _)| before == name))
    {
        return Err(LabError::Usage(format!("--var {}: {name} is set already: leave one out", args.vars[n])));
    }
    let built_in = builtin(&args.workload).is_some();
    let mut origin = Origin { vars: args.vars.clone(), ..Origin::default() };
    let mut workload = if !built_in && Path::new(&args.workload).exists() {
        let kind = Path::new(&args.workload).extension().and_then(|e| e.to_str()).unwrap_or_default();
        let text = read(&args.workload, if kind == "fiu" { LONGEST_TRACE } else { MAX_TEXT as u64 + 1 })
            .map_err(|source| LabError::Io { what: format!("reading {}", args.workload), source })?;
        origin.workload_hash = Some(granary_testbed::hash(&text));
        match kind {
            "fio" => fio(&args.workload, &text, &vars)?,
            "fiu" => fiu(&args.workload, &text, &vars)?,
            _ => Workload::parse_bytes(&args.workload, &text, &vars)?,
        }
    } else {
        Workload::from_builtin(&args.workload, &vars).map_err(neither)?
    };
    workload.scale(args.scale)?;
    if let Some(n) = args.threads {
        workload.set_threads(n)?;
        let all = workload.threads();
        if all != u64::from(n) {
            origin.notes.push(format!(
                "--threads {n} is the number of threads of the kind of which there are most: with those of other kinds, and of all processes, {all} run"
            ));
        }
    }
    Ok((workload, origin))
}

/// A fio job file.
fn fio(file: &str, text: &[u8], vars: &[(String, String)]) -> Result<Workload, LabError> {
    no_variables("job files of fio", file, vars)?;
    Workload::from_fio(file, &String::from_utf8_lossy(text)).map_err(LabError::BadJobFile)
}

/// A trace of FIU.
fn fiu(file: &str, text: &[u8], vars: &[(String, String)]) -> Result<Workload, LabError> {
    no_variables("traces", file, vars)?;
    if text.len() as u64 >= LONGEST_TRACE {
        return Err(LabError::Usage(format!("{file} has more than 16 GiB: split it into several traces")));
    }
    Workload::from_fiu(file, text).map_err(LabError::BadJobFile)
}

fn no_variables(kind: &str, file: &str, vars: &[(String, String)]) -> Result<(), LabError> {
    match vars.first() {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("--var {name}: {kind} have no variables: write the value into {file}");
            Err(LabError::Usage(message))
        }
    }
}

/// Bytes of a trace that are read.
const LONGEST_TRACE: u64 = 16 << 30;

/// The content of a workload file; of a longer one (a device, a disk image by mistake) as much as shows that
/// it is none.
fn read(path: &str, most: u64) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// The error of what is no built-in workload, where it could have been a file too.
fn neither(error: granary_workload::Error) -> LabError {
    let granary_workload::Error::UnknownWorkload { name, nearest } = error else { return error.into() };
    let meant = nearest.map_or(String::new(), |near| format!("did you mean `{near}`? "));
    let known = granary_workload::list().iter().map(|b| b.name).collect::<Vec<_>>().join(", ");
    LabError::Usage(format!(
        "there is no file `{name}` and no built-in workload of that name; {meant}The built-in ones are {known}"
    ))
}

/// How long the simulation took goes to stderr: records hold virtual time only.
fn tell(record: &Record, seconds: f64, speed: &Speed) {
    let (virtual_s, name) = (record.virtual_s, format!("{} on {}", record.workload, record.fs));
    for message in &record.messages {
        say!("{name}: {message}");
    }
    say!(
        "{name}: {virtual_s:.3} virtual seconds measured, ended by {}; all phases took {seconds:.1} s{}",
        record.ended_by,
        speed.sentence()
    );
}

/// Whether there is memory for the devices of those that begin at the same time. Each looks for its own, too,
/// when it makes them; but the others may not have taken theirs yet.
///
/// # Errors
/// There is not so much memory; what to do.
pub(super) fn fit_together(experiments: &[Experiment], jobs: usize) -> Result<(), LabError> {
    let need = |e: &Experiment| Ok(e.testbed.memory_for(registry::find(&e.fs)?)?);
    let needs = experiments.iter().take(jobs).map(need).collect::<Result<Vec<Need>, LabError>>()?;
    let limits = Limits::here()?;
    // One that does not fit alone says itself what to do.
    if needs.len() < 2 || !needs.iter().all(|need| need.fits(&limits)) {
        return Ok(());
    }
    let what = format!("running {} file systems at the same time", needs.len());
    let all = needs.into_iter().fold(Need::default(), Need::and);
    Ok(all.must_fit(&what, &limits, |_| "run fewer (--jobs 1)".to_owned())?)
}

/// Runs all experiments, up to `jobs` at a time, each on its own OS thread. Returns the records of those that
/// came to their end, in the order of the experiments, and the errors of the others. So one failure does not
/// throw away hours of work. `stop` ends those that run, and no other is begun.
pub(super) fn all_until(
    experiments: &[Experiment],
    jobs: usize,
    stop: Option<Arc<AtomicBool>>,
) -> (Vec<Record>, Vec<LabError>) {
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
                    let is_stopped = stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
                    let result = match is_stopped {
                        true => Err(LabError::Interrupted(format!("{} on {}", e.workload.name, e.fs))),
                        false => e.run_until(Some(speed.watch(bars.start(&name))), stop.clone()),
                    };
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
    let (mut records, mut failed) = (Vec::new(), Vec::new());
    for result in results {
        match result.expect("every experiment was run") {
            Ok(record) => records.push(record),
            Err(e) => failed.push(e),
        }
    }
    (records, failed)
}

/// The end of a command some of whose experiments failed: the records of the others have been printed.
///
/// # Errors
/// All of them, a line each; a finding where consistency checks found all of them.
pub(super) fn ended(failed: &[LabError]) -> Result<(), Failure> {
    if failed.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = failed.iter().map(LabError::to_string).collect();
    // An error that all of them share is printed once.
    lines.dedup();
    let found = failed.iter().all(LabError::is_finding);
    let lines = lines.join("\n");
    Err(if found { Failure::found(lines) } else { Failure::usage(lines) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_whose_checks_found_something_end_with_1_unless_another_could_not_be_run() {
        let failed = |phase| LabError::Run { fs: "ext4".to_owned(), phase, message: "why".to_owned() };
        let code = |phases: &[&'static str]| {
            ended(&phases.iter().map(|phase| failed(phase)).collect::<Vec<_>>()).expect_err("failed").code()
        };
        assert_eq!((code(&["check"]), code(&["check", "check"])), (1, 1));
        assert_eq!((code(&["run"]), code(&["check", "run"])), (2, 2));
        assert!(ended(&[]).is_ok());
    }
}
