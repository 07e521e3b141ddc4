//! SPC traces: those of the UMass Trace Repository (Financial1, WebSearch2, ...).
//!
//! ```text
//!   ASU,LBA,Size,Opcode,Timestamp[,more]
//!   0,303567,3584,w,0.000000
//!   |  |     bytes    seconds since the trace's start
//!   |  blocks of 512 B
//!   application storage unit: --device 0
//! ```
//!
//! The size of a block stands in the description of a trace, not in it: 512 B in the repository's. A size of
//! 0 is legal and moves nothing.
//!
//! Source: Storage Performance Council, "SPC Trace File Format Specification", revision 1.0.1, 2002.

use super::lines::decimal;
use super::rows::{Between, Layout, Row, number, sectors, writes};

pub(super) static LAYOUT: Layout = Layout {
    columns: &["ASU", "LBA", "Size", "Opcode", "Timestamp"],
    between: Between::Commas,
    more: true,
    empty: true,
    row,
};

fn row(columns: &[&str]) -> Result<Row, String> {
    let device = number("ASU", columns[0])?.to_string();
    let (offset, len) = (sectors("LBA", columns[1])?, number("Size", columns[2])?);
    let writes = writes("Opcode", columns[3], ["R", "W"])?;
    let at = decimal(columns[4], 1_000_000_000).ok_or_else(|| {
        format!("Timestamp '{}' is no number of seconds: mend or remove the line", columns[4])
    })?;
    Ok(Row { device, at, writes, offset, len })
}

#[cfg(test)]
mod tests {
    use super::super::tests::events;
    use super::super::{Choice, Format, Op, Written};
    use granary_device::Structure::Data;
    use granary_units::Lpa;

    #[test]
    fn blocks_are_sectors_and_sizes_bytes() {
        let text = "0,303568,4096,w,0.000000\n0,1,512,R,0.026214,x\n0,8,0,r,0.03\n";
        let (events, seen) = events(text, &Choice::default()).expect("good");
        let ops: Vec<_> = events.into_iter().map(|e| (e.at.0, e.op)).collect();
        assert_eq!(
            ops,
            [(0, Op::Write(Lpa(37946), Written::Unknown(1), Data)), (26_214_000, Op::Read(Lpa(0), 1, Data))]
        );
        assert_eq!((seen.unaligned, seen.skipped), (1, 1));
    }

    #[test]
    fn a_bad_line_is_named_with_what_to_do() {
        let choice = Choice { format: Some(Format::Spc), ..Choice::default() };
        for (bad, word) in [
            ("0,1,512,R\n", "4 fields instead of the 5"),
            ("x,1,512,R,0.1\n", "ASU 'x'"),
            ("0,1,512,T,0.1\n", "there are R and W"),
            ("0,1,512,R,later\n", "Timestamp 'later'"),
            ("0,99999999999999999,512,R,0.1\n", "lies on no drive"),
            ("1,1,512,R,0.1\n", "--device 1"),
        ] {
            let said = events(&format!("0,8,4096,w,0.0\n{bad}"), &choice).expect_err("refused");
            assert!(said.starts_with("t:2: ") && said.contains(word), "{word}: {said}");
        }
    }
}
