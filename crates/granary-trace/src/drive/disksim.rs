//! DiskSim's ASCII traces, which many converters write.
//!
//! ```text
//!   time device block count flags
//!   13.191135 30 576560 6 1
//!   ms since the trace's start, --device 30, sectors of 512 B, flags in hex: bit 0 is a read
//! ```
//!
//! Source: Bucy, Schindler, Schlosser, Ganger, "The DiskSim Simulation Environment Version 4.0 Reference
//! Manual", CMU-PDL-08-101, "Traces", "ascii".

use super::lines::decimal;
use super::rows::{Between, Layout, Row, number, sectors};

pub(super) static LAYOUT: Layout = Layout {
    columns: &["time", "device", "block", "count", "flags"],
    between: Between::Blanks,
    more: false,
    empty: false,
    row,
};

fn row(columns: &[&str]) -> Result<Row, String> {
    let at = decimal(columns[0], 1_000_000)
        .ok_or_else(|| format!("time '{}' is no number of ms: mend or remove the line", columns[0]))?;
    let device = number("device", columns[1])?.to_string();
    let (offset, len) = (sectors("block", columns[2])?, sectors("count", columns[3])?);
    let flags = columns[4].trim_start_matches("0x");
    let flags = u64::from_str_radix(flags, 16)
        .map_err(|_| format!("flags '{}' are no hexadecimal number: mend or remove the line", columns[4]))?;
    Ok(Row { device, at, writes: flags & 1 == 0, offset, len })
}

#[cfg(test)]
mod tests {
    use super::super::tests::events;
    use super::super::{Choice, Format, Op, Written};
    use granary_device::Structure::Data;
    use granary_units::{Lpa, Nanos};

    #[test]
    fn times_are_milliseconds_and_bit_0_of_the_flags_is_a_read() {
        let (read, _) = events("13.191135 30 16 8 0\n13.5 30 8 16 1\n14.0 30 0 8 41\n", &Choice::default())
            .expect("good");
        assert_eq!(
            (read[0].at, &read[0].op),
            (Nanos(13_191_135), &Op::Write(Lpa(2), Written::Unknown(1), Data))
        );
        assert_eq!((read[1].at, &read[1].op), (Nanos(13_500_000), &Op::Read(Lpa(1), 2, Data)));
        assert_eq!(read[2].op, Op::Read(Lpa(0), 1, Data));
    }

    #[test]
    fn a_bad_line_is_named_with_what_to_do() {
        let choice = Choice { format: Some(Format::Disksim), ..Choice::default() };
        for (bad, word) in [
            ("1.0 0 8 8\n", "4 fields instead of the 5"),
            ("soon 0 8 8 1\n", "time 'soon'"),
            ("1.0 0 8 8 z\n", "flags 'z'"),
            ("1.0 1 8 8 1\n", "--device 1"),
        ] {
            let said = events(&format!("0.5 0 8 8 1\n{bad}"), &choice).expect_err("refused");
            assert!(said.starts_with("t:2: ") && said.contains(word), "{word}: {said}");
        }
    }
}
