//! FIU's traces: block accesses below the page cache of servers, with digests of what was written.
//!
//! ```text
//!   ts pid process lba size type major minor md5 [more digests]
//!   0 4892 syslogd 904265560 8 W 6 0 531e779e5cd8ea4ad6a5f2dd4e7ba9d1
//!   ns             sectors of 512 B  --device 6,0
//! ```
//!
//! The digests are not used: what is written repeats a word, as with the other formats.
//!
//! Source: the README of the traces (SNIA IOTTA 390 and 391; Koller, Rangaswami, "I/O Deduplication",
//! FAST 2010).

use super::lines::decimal;
use super::rows::{Between, Layout, Row, number, sectors, writes};

pub(super) static LAYOUT: Layout = Layout {
    columns: &["ts", "pid", "process", "lba", "size", "type", "major", "minor"],
    between: Between::Blanks,
    more: true,
    empty: true,
    row,
};

fn row(columns: &[&str]) -> Result<Row, String> {
    let at = decimal(columns[0], 1)
        .ok_or_else(|| format!("ts '{}' is no number of ns: mend or remove the line", columns[0]))?;
    number("pid", columns[1])?;
    let (offset, len) = (sectors("lba", columns[3])?, sectors("size", columns[4])?);
    let writes = writes("type", columns[5], ["R", "W"])?;
    let device = format!("{},{}", number("major", columns[6])?, number("minor", columns[7])?);
    Ok(Row { device, at, writes, offset, len })
}

#[cfg(test)]
mod tests {
    use super::super::tests::events;
    use super::super::{Choice, Op, Written};
    use granary_device::Structure::Data;
    use granary_units::{Lpa, Nanos};

    #[test]
    fn digests_are_passed_over() {
        let text = "0 4892 syslogd 16 8 W 6 0 531e779e5cd8ea4ad6a5f2dd4e7ba9d1\n70 4892 a 8 8 R 6 0 x\n";
        let (read, _) = events(text, &Choice::default()).expect("good");
        assert_eq!(read[0].op, Op::Write(Lpa(2), Written::Unknown(1), Data));
        assert_eq!((&read[1].op, read[1].at), (&Op::Read(Lpa(1), 1, Data), Nanos(70)));
    }
}
