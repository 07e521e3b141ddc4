//! Traces of MSR-Cambridge: the block accesses of 36 volumes of servers in one week, one access a line.
//!
//! ```text
//!   Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//!   128166372003061629,hm,1,Read,383496192,32768,59
//!   ticks of 100 ns       --device hm.1   bytes    not used: it is that of the drive which was traced
//! ```
//!
//! Time stamps are those of Windows: since 1601. The lines are nearly in order of time; the replay sorts them
//! within a window.
//!
//! Source: Narayanan, Donnelly, Rowstron, "Write off-loading", FAST 2008; the README of the traces (SNIA
//! IOTTA 388).

use super::rows::{Between, Layout, Row, number, writes};
use granary_units::Nanos;

pub(super) static LAYOUT: Layout = Layout {
    columns: &["Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime"],
    between: Between::Commas,
    more: false,
    empty: false,
    row,
};

fn row(columns: &[&str]) -> Result<Row, String> {
    let ticks = number("Timestamp", columns[0])?;
    let at = ticks
        .checked_mul(100)
        .map(Nanos)
        .ok_or_else(|| format!("Timestamp {ticks} is beyond the year 2185: it counts 100 ns since 1601"))?;
    let writes = writes("Type", columns[3], ["Read", "Write"])?;
    let (offset, len) = (number("Offset", columns[4])?, number("Size", columns[5])?);
    Ok(Row { device: format!("{}.{}", columns[1], columns[2]), at, writes, offset, len })
}

#[cfg(test)]
mod tests {
    use super::super::tests::events;
    use super::super::{Choice, Format, Op, Written};
    use granary_device::Structure::Data;
    use granary_units::{Lpa, Nanos};

    const FIELDS: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
    const LINE: &str = "128166372003061629,hm,1,Read,383496192,32768,59\n";

    #[test]
    fn offsets_become_pages_and_ticks_nanoseconds() {
        let text = format!("{FIELDS}\n{LINE}128166372003061630,hm,1,Write,512,4096,59\n");
        let (events, seen) = events(&text, &Choice::default()).expect("good");
        assert_eq!(events[0].op, Op::Read(Lpa(93627), 8, Data));
        assert_eq!(events[1].op, Op::Write(Lpa(0), Written::Unknown(2), Data));
        assert_eq!((events[1].at - events[0].at, events[1].nth), (Nanos(100), 3));
        assert_eq!((seen.unaligned, seen.position), (1, text.len() as u64));
    }

    /// As spreadsheets, scripts and editors hand them on.
    #[test]
    fn marks_quotes_tabs_and_letters_make_no_difference() {
        let as_is = events(LINE, &Choice::default()).expect("good").0;
        let quoted = LINE.trim().split(',').map(|c| format!("\"{c}\"")).collect::<Vec<_>>().join(",");
        for (what, text) in [
            ("byte order mark", format!("\u{feff}{LINE}")),
            ("byte order mark and header", format!("\u{feff}{FIELDS}\r\n{LINE}")),
            ("header in lower case", format!("{}\n{LINE}", FIELDS.to_lowercase())),
            ("header of other names", format!("time,host,disk,op,off,len,lat\n{LINE}")),
            ("lower case", LINE.to_lowercase()),
            ("upper case", LINE.replace("Read", "READ")),
            ("quotes", quoted),
            ("tabs", LINE.replace(',', "\t")),
            ("blanks", LINE.replace(',', " , ")),
            ("carriage returns", LINE.replace('\n', "\r\n")),
        ] {
            let (mut read, _) = events(&text, &Choice::default()).unwrap_or_else(|e| panic!("{what}: {e}"));
            read.iter_mut().for_each(|e| e.nth = 1);
            assert_eq!(read, as_is, "{what}");
        }
    }

    #[test]
    fn a_bad_line_is_named_with_what_to_do() {
        let choice = Choice { format: Some(Format::Msr), ..Choice::default() };
        for (bad, word) in [
            ("128166372003061629,hm,1,Read,383496192,32768\n", "6 fields instead of the 7"),
            ("x,hm,1,Read,383496192,32768,59\n", "Timestamp 'x'"),
            ("1,hm,1,Peek,383496192,32768,59\n", "there are Read and Write"),
            ("1,hm,1,Read,-1,32768,59\n", "Offset '-1'"),
            ("1,hm,1,Read,0,0,59\n", "Size 0"),
            ("1,hm,1,Read,18446744073709551615,512,59\n", "lies on no drive"),
            ("999999999999999999,hm,1,Read,0,512,59\n", "year 2185"),
            ("1,hm,2,Read,0,512,59\n", "--device hm.2"),
        ] {
            let said = events(&format!("{LINE}{bad}"), &choice).expect_err("refused");
            assert!(said.starts_with("t:2: ") && said.contains(word), "{word}: {said}");
        }
    }

    #[test]
    fn one_device_of_several_can_be_chosen() {
        let choice = Choice { device: Some("usr.0".into()), ..Choice::default() };
        let (events, seen) = events(&format!("{LINE}1,usr,0,Write,0,4096,59\n"), &choice).expect("good");
        assert_eq!((events.len(), seen.skipped), (1, 1));
    }
}
