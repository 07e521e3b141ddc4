//! Tencent's block traces: 5,584 cloud volumes in ten days of October 2018.
//!
//! ```text
//!   Timestamp,Offset,Size,IOType,VolumeID
//!   1538323200,12910952,128,0,1063
//!   seconds since 1970, sectors of 512 B, 0 read and 1 write, --device 1063
//! ```
//!
//! All accesses of a second bear the same stamp: as stamped they are issued together.
//!
//! Source: the README of the traces (SNIA IOTTA 27917; Zhang et al., "OSCA", USENIX ATC 2020).

use super::lines::decimal;
use super::rows::{Between, Layout, Row, number, sectors, writes};

pub(super) static LAYOUT: Layout = Layout {
    columns: &["Timestamp", "Offset", "Size", "IOType", "VolumeID"],
    between: Between::Commas,
    more: false,
    empty: true,
    row,
};

fn row(columns: &[&str]) -> Result<Row, String> {
    let at = decimal(columns[0], 1_000_000_000).ok_or_else(|| {
        format!("Timestamp '{}' is no number of seconds: mend or remove the line", columns[0])
    })?;
    let (offset, len) = (sectors("Offset", columns[1])?, sectors("Size", columns[2])?);
    let writes = writes("IOType", columns[3], ["0", "1"])?;
    let device = number("VolumeID", columns[4])?.to_string();
    Ok(Row { device, at, writes, offset, len })
}

#[cfg(test)]
mod tests {
    use super::super::tests::events;
    use super::super::{Choice, Op, Written};
    use granary_device::Structure::Data;
    use granary_units::{Lpa, Nanos};

    #[test]
    fn offsets_and_sizes_are_sectors() {
        let (read, _) =
            events("1538323200,16,8,1,1063\n1538323201,8,16,0,1063\n", &Choice::default()).expect("good");
        assert_eq!(read[0].op, Op::Write(Lpa(2), Written::Unknown(1), Data));
        assert_eq!(read[1].op, Op::Read(Lpa(1), 2, Data));
        assert_eq!(read[1].at - read[0].at, Nanos(1_000_000_000));
    }
}
