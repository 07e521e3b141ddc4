//! Kind of each option of a job file: honoured, without effect on the accesses, a matter of files, or
//! refused.
//!
//! Invariant: an option in none of the lists is refused with its name, and with the nearest name that is
//! known.

use super::job::{Blocks, Job, Pattern};
use super::value::{amount, flag, number, range, size, split, three, time_in};
use crate::suggest::nearest;
use granary_units::Bytes;

/// Kinds of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is in the job now.
    Honoured,
    /// It changes no access: it says how to report, by which engine, with which content.
    WithoutEffect,
    /// It matters where the storage is files.
    Other,
}

/// Honoured ones, with fio's aliases.
#[rustfmt::skip]
const HONOURED: &[&str] = &[
    "rw", "readwrite", "bs", "blocksize", "bsrange", "blocksize_range", "bssplit", "iodepth", "ioengine", "size", "io_size",
    "io_limit", "numjobs", "rwmixread", "rwmixwrite", "offset", "offset_increment", "runtime", "timeout", "time_based",
    "norandommap", "number_ios", "loops", "stonewall", "wait_for_previous", "startdelay", "ramp_time", "rate", "rate_iops",
    "rate_process", "thinktime", "thinktime_blocks", "thinktime_blocks_type", "fsync", "fdatasync", "random_distribution",
    "bs_unaligned", "blocksize_unaligned", "blockalign", "ba",
];

/// Those that change no access: reports and logs, the engine and its processes, the content of buffers.
#[rustfmt::skip]
const WITHOUT_EFFECT: &[&str] = &[
    // Reports.
    "group_reporting", "new_group", "description", "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log",
    "log_avg_msec", "log_window_value", "log_hist_msec", "log_hist_coarseness", "log_max_value", "log_offset", "log_prio",
    "log_issue_time", "log_compression", "log_compression_cpus", "log_store_compressed", "log_unix_epoch", "log_entries",
    "log_alternate_epoch", "log_alternate_epoch_clock_id", "per_job_logs", "bwavgtime", "iopsavgtime", "lat_percentiles",
    "clat_percentiles", "slat_percentiles", "percentile_list", "significant_figures", "disk_util", "unified_rw_reporting",
    "disable_lat", "disable_clat", "disable_slat", "disable_bw", "disable_bw_measurement", "steadystate_log", "unit_base",
    "stats", "write_iolog",
    // The engine, its processes and its clock.
    "thread", "cpus_allowed", "cpus_allowed_policy", "cpumask", "numa_cpu_nodes",
    "numa_mem_policy", "nice", "prio", "prioclass", "cmdprio", "cmdprio_percentage", "cmdprio_class", "ioscheduler", "gtod_reduce",
    "gtod_cpu", "clocksource", "clocksource_cpu", "hipri", "hipri_percentage", "registerfiles", "fixedbufs", "sqthread_poll",
    "sqthread_poll_cpu", "nonvectored", "userspace_reap", "force_async", "uncached", "nowait", "cmd_type", "thinktime_spin",
    "exitall_on_error", "continue_on_error", "ignore_error", "error_dump", "max_latency", "uid", "gid", "mem", "iomem",
    "iomem_align", "mem_align", "hugepage-size", "hugepage_size", "lockmem", "loop_overhead",
    // Seeds: here there is one, --seed.
    "randrepeat", "allrandrepeat", "randseed", "random_generator", "softrandommap", "use_os_rand",
    // Content.
    "refill_buffers", "scramble_buffers", "zero_buffers", "buffer_pattern", "buffer_compress_percentage", "buffer_compress_chunk",
    "dedupe_percentage", "dedupe_mode",
];

/// Those that say which files, and how they are made and opened.
#[rustfmt::skip]
const OF_FILES: &[&str] = &[
    "direct", "buffered", "invalidate", "sync", "verify", "do_verify", "filename", "directory", "filename_format", "unique_filename", "filesize", "nrfiles", "openfiles", "file_service_type",
    "unlink", "unlink_each_loop", "fallocate", "fadvise_hint", "create_serialize", "create_fsync", "create_on_open",
    "create_only", "overwrite", "pre_read", "end_fsync", "fsync_on_close", "file_append", "lockfile", "opendir", "allow_file_create",
    "allow_mounted_write", "fill_fs", "mode", "ftruncate",
];

/// Engines that have one access under way, whatever `iodepth` says (fio's HOWTO, "iodepth").
const SYNCHRONOUS: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];
/// Engines that queue accesses, and those that hand them to a device or library of their own.
const QUEUING: &[&str] = &[
    "libaio",
    "io_uring",
    "io_uring_cmd",
    "posixaio",
    "solarisaio",
    "windowsaio",
    "sg",
    "xnvme",
    "libblkio",
];

/// Longest of what is counted in these.
const MOST_LOOPS: u64 = 1 << 32;

/// Sets what the line says; the option's own name, and what it is.
pub(super) fn set(job: &mut Job, key: &str, value: Option<&str>) -> Result<(&'static str, Kind), String> {
    let lists = [(HONOURED, Kind::Honoured), (WITHOUT_EFFECT, Kind::WithoutEffect), (OF_FILES, Kind::Other)];
    let found = lists.iter().find_map(|(list, kind)| Some((*list.iter().find(|k| **k == key)?, *kind)));
    let Some((name, kind)) = found else {
        let known = lists.iter().flat_map(|(list, _)| list.iter().copied());
        let meant = nearest(key, known).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
        return Err(format!(
            "'{key}' is not supported and may change the job{meant}: remove it, if the job is meant without it"
        ));
    };
    if let Some(v) = value.filter(|v| v.contains("${")) {
        return Err(format!("{key}={v}: variables of the environment are not read: write the value"));
    }
    if kind != Kind::Honoured {
        return Ok((name, kind));
    }
    honour(job, name, value).map(|name| (name, Kind::Honoured))
}

fn honour(job: &mut Job, key: &'static str, value: Option<&str>) -> Result<&'static str, String> {
    match key {
        "time_based" => {
            job.time_based = flag(key, value)?;
            return Ok(key);
        }
        "norandommap" => {
            job.random_map = !flag(key, value)?;
            return Ok(key);
        }
        "bs_unaligned" | "blocksize_unaligned" => {
            job.unaligned = flag(key, value)?;
            return Ok("bs_unaligned");
        }
        "stonewall" | "wait_for_previous" => {
            job.stonewall = flag(key, value)?;
            return Ok("stonewall");
        }
        _ => {}
    }
    let given = value.filter(|v| !v.is_empty()).ok_or_else(|| format!("'{key}' needs a value: {key}=..."))?;
    let refused = |why: &str| Err(format!("{key}={given}: {why}"));
    let limit = |v: &str| size(key, v).map(|b| Some(b.0).filter(|n| *n > 0));
    let blocks = |v: &str| size(key, v).map(Blocks::Fixed);
    Ok(match key {
        "rw" | "readwrite" => {
            job.pattern = match Pattern::named(given) {
                Some(pattern) => pattern,
                None if given.contains(':') => {
                    return refused(
                        "a number behind the pattern (several accesses at an offset, or gaps) is not supported",
                    );
                }
                None => return refused(&format!("there are {}", Pattern::NAMES.join(", "))),
            };
            "rw"
        }
        "bs" | "blocksize" => {
            three(key, given, &mut job.blocks, blocks)?;
            "bs"
        }
        "bsrange" | "blocksize_range" => {
            three(key, given, &mut job.blocks, |v| {
                let (least, most) = range(key, v, |v| size(key, v))?;
                match least {
                    Bytes(0) => Err(format!("{key}={v}: blocks have at least 1 byte")),
                    _ => Ok(Blocks::Range(least, most)),
                }
            })?;
            "bs"
        }
        "bssplit" => {
            three(key, given, &mut job.blocks, |v| split(key, v))?;
            "bs"
        }
        "size" => {
            job.size = Some(amount(key, given, 100)?);
            key
        }
        "io_size" | "io_limit" => {
            job.io_size = Some(amount(key, given, 1_000_000)?);
            "io_size"
        }
        "offset" => {
            job.offset = amount(key, given, 99)?;
            key
        }
        "offset_increment" => {
            job.offset_increment = amount(key, given, 99)?;
            key
        }
        "iodepth" => {
            job.depth = number(key, given, 1)?;
            key
        }
        "ioengine" => {
            if SYNCHRONOUS.contains(&given) {
                (job.synchronous, job.mapped) = (true, given == "mmap");
            } else if QUEUING.contains(&given) {
                job.synchronous = false;
            } else {
                let known = [SYNCHRONOUS, QUEUING].concat().join(", ");
                return refused(&format!(
                    "not an engine that reads and writes blocks of a drive; known are {known}"
                ));
            }
            key
        }
        "numjobs" => {
            job.clients = number(key, given, 1)?;
            key
        }
        "rwmixread" | "rwmixwrite" => {
            let percent = number(key, given, 0u32)?;
            if percent > 100 {
                return refused("a percentage");
            }
            job.read_percent = if key == "rwmixread" { percent } else { 100 - percent };
            "rwmixread"
        }
        "runtime" | "timeout" => {
            job.runtime = Some(time_in(given, "s").map_err(|m| format!("{key}={m}"))?);
            "runtime"
        }
        "number_ios" => {
            job.number_ios = Some(number(key, given, 1)?);
            key
        }
        "loops" => {
            job.loops = number(key, given, 1)?;
            if job.loops > MOST_LOOPS {
                return refused("too many");
            }
            key
        }
        "startdelay" => {
            job.start_delay = range(key, given, |v| time_in(v, "s").map_err(|m| format!("{key}={m}")))?;
            key
        }
        "ramp_time" => {
            job.ramp = time_in(given, "s").map_err(|m| format!("{key}={m}"))?;
            key
        }
        "rate" => {
            three(key, given, &mut job.rate, limit)?;
            key
        }
        "rate_iops" => {
            three(key, given, &mut job.rate_iops, limit)?;
            key
        }
        "rate_process" => match given {
            "linear" => key,
            _ => return refused("only linear is supported, fio's default"),
        },
        "thinktime" => {
            job.think = time_in(given, "us").map_err(|m| format!("{key}={m}"))?;
            key
        }
        "thinktime_blocks" => {
            job.think_blocks = number(key, given, 1)?;
            key
        }
        "thinktime_blocks_type" => match given {
            "complete" => key,
            _ => return refused("only complete is supported, fio's default"),
        },
        "fsync" | "fdatasync" => {
            job.flush_every = number(key, given, 0)?;
            job.flush_data_only = key == "fdatasync";
            "fsync"
        }
        "random_distribution" => match given {
            "random" => key,
            _ => return refused("only random is supported, fio's default"),
        },
        "blockalign" | "ba" => {
            let align = size(key, given)?.0;
            if align == 0 {
                return refused("at least 1 byte");
            }
            job.align = Some(align);
            "blockalign"
        }
        _ => unreachable!("{key} is among those that are honoured"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::job::Amount;
    use super::*;

    /// Every option that is said to be honoured is known to [`honour`], and no option has two kinds.
    #[test]
    fn each_option_is_of_one_kind_and_handled() {
        let mut all: Vec<&str> = [HONOURED, WITHOUT_EFFECT, OF_FILES].concat();
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n);
        for key in HONOURED {
            // Any result for this value will do, but no panic.
            let _ = set(&mut Job::default(), key, Some("1"));
        }
    }

    #[test]
    fn amounts_may_be_parts() {
        let mut job = Job::default();
        set(&mut job, "size", Some("50%")).expect("a part");
        assert_eq!(job.size, Some(Amount::Percent(50)));
        assert!(set(&mut job, "size", Some("101%")).is_err_and(|m| m.contains("1% to 100%")));
        assert!(set(&mut job, "size", Some("0%")).is_err());
    }
}
