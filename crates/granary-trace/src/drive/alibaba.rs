//! Alibaba's block traces: 1,000 virtual disks of its cloud in January 2020.
//!
//! ```text
//!   device_id,opcode,offset,length,timestamp
//!   419,W,8792731648,16384,1577808144360767
//!   --device 419   bytes   microseconds since 1970
//! ```
//!
//! Source: the README of the traces (Li et al., "An In-Depth Analysis of Cloud Block Storage Workloads in
//! Large-Scale Production", IISWC 2020), "io_traces.csv".

use super::lines::decimal;
use super::rows::{Between, Layout, Row, number, writes};

pub(super) static LAYOUT: Layout = Layout {
    columns: &["device_id", "opcode", "offset", "length", "timestamp"],
    between: Between::Commas,
    more: false,
    empty: true,
    row,
};

fn row(columns: &[&str]) -> Result<Row, String> {
    let device = number("device_id", columns[0])?.to_string();
    let writes = writes("opcode", columns[1], ["R", "W"])?;
    let (offset, len) = (number("offset", columns[2])?, number("length", columns[3])?);
    let at = decimal(columns[4], 1_000).ok_or_else(|| {
        format!("timestamp '{}' is no number of microseconds: mend or remove the line", columns[4])
    })?;
    Ok(Row { device, at, writes, offset, len })
}

#[cfg(test)]
mod tests {
    use super::super::tests::events;
    use super::super::{Choice, Op, Written};
    use granary_device::Structure::Data;
    use granary_units::{Lpa, Nanos};

    #[test]
    fn one_virtual_disk_is_replayed_in_bytes_and_microseconds() {
        let text = "device_id,opcode,offset,length,timestamp\n419,W,8192,16384,1577808144360767\n\
                    7,R,0,4096,1577808144360768\n419,R,4096,4096,1577808144360769\n";
        let choice = Choice { device: Some("419".into()), ..Choice::default() };
        let (read, seen) = events(text, &choice).expect("good");
        assert_eq!(read[0].op, Op::Write(Lpa(2), Written::Unknown(4), Data));
        assert_eq!(read[1].op, Op::Read(Lpa(1), 1, Data));
        assert_eq!((read[1].at - read[0].at, seen.skipped), (Nanos(2000), 1));
        let said = events(text, &Choice::default()).expect_err("two disks");
        assert!(said.contains("--device 419 or --device 7"), "{said}");
    }
}
