//! ASCII traces of MQSim and SSDSim: DiskSim's columns, with whole nanoseconds.
//!
//! ```text
//!   time device sector count type
//!   1030530 0 16 8 0
//!   ns since the trace's start, --device 0, sectors of 512 B, 0 write and 1 read
//! ```
//!
//! MQSim can be told of another unit (`Time_Unit` in its workload file), which the trace does not say:
//! `--scale` makes up for it (microseconds: 1000). Such a trace differs from DiskSim's by its time without a
//! decimal point.
//!
//! Source: MQSim's README, "Trace-based workloads", and `ASCII_Trace_Definition.h`; SSDsim's README, "Note".

use super::rows::{Between, Layout, Row, number, sectors, writes};
use granary_units::Nanos;

pub(super) static LAYOUT: Layout = Layout {
    columns: &["time", "device", "sector", "count", "type"],
    between: Between::Blanks,
    more: false,
    empty: false,
    row,
};

fn row(columns: &[&str]) -> Result<Row, String> {
    let at = Nanos(number("time", columns[0])?);
    let device = number("device", columns[1])?.to_string();
    let (offset, len) = (sectors("sector", columns[2])?, sectors("count", columns[3])?);
    // The first word is a read's.
    let writes = writes("type", columns[4], ["1", "0"])?;
    Ok(Row { device, at, writes, offset, len })
}

#[cfg(test)]
mod tests {
    use super::super::tests::events;
    use super::super::{Choice, Op, Written};
    use granary_device::Structure::Data;
    use granary_units::{Lpa, Nanos};

    #[test]
    fn times_are_nanoseconds_and_0_is_a_write() {
        let (read, _) = events("0 0 16 8 0\n1030530\t0 8 16 1\n", &Choice::default()).expect("good");
        assert_eq!((read[0].at, &read[0].op), (Nanos(0), &Op::Write(Lpa(2), Written::Unknown(1), Data)));
        assert_eq!((read[1].at, &read[1].op), (Nanos(1_030_530), &Op::Read(Lpa(1), 2, Data)));
    }
}
