//! [`Place`] and [`Path`]: where the power failed, as text that finds it again.
//!
//! ```text
//!   l812+.0/r3-.1
//!   |         `-- then in the recovery from that: before its 3rd command; the second way in which the
//!   |             writes in flight survive
//!   `------------ in the load: after the drive has its 812th command; the first such way
//!   lt40512.x2    in the load, 40,512 ns after it began; the third in the list of all such ways
//! ```

use granary_units::Nanos;
use std::fmt;
use std::str::FromStr;

/// The part of a life that instants and commands are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// From power-on until the recovered file system was verified.
    Recovery,
    /// The load, and the unmount behind it. Of a new file system: its first mount, too.
    Load,
    /// The mount behind that unmount, until all is compared.
    Remount,
    /// While the file system is made.
    Making,
    /// None: the power stays on, and media are damaged; places are numbers of damages.
    Damaged,
    /// While damaged media are repaired.
    Repair,
    /// None, too: commands for metadata fail; places are numbers of tries.
    Erring,
}

/// When, from the beginning of the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// Before a drive gets the n-th command (1 is the first).
    Before(u64),
    /// After it has it; the host has not heard of it.
    After(u64),
    /// After so much time.
    Instant(Nanos),
}

/// One power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// In this phase.
    pub phase: Phase,
    /// Then.
    pub at: At,
    /// Which of the states that the drives may be left in.
    pub draw: u32,
    /// Of a list of all of them, else of those that are drawn.
    pub listed: bool,
}

/// One power failure after the other; each but the first in the life that the one before began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Box<[Place]>);

impl Path {
    /// The same and one more.
    pub fn then(&self, place: Place) -> Path {
        Path(self.0.iter().copied().chain([place]).collect())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.phase {
            Phase::Making => "m",
            Phase::Damaged => "d",
            Phase::Repair => "f",
            Phase::Erring => "i",
            Phase::Recovery => "r",
            Phase::Load => "l",
            Phase::Remount => "c",
        })?;
        match self.at {
            At::Before(n) => write!(f, "{n}-")?,
            At::After(n) => write!(f, "{n}+")?,
            At::Instant(after) => write!(f, "t{}", after.0)?,
        }
        write!(f, ".{}{}", if self.listed { "x" } else { "" }, self.draw)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, place) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("/")?;
            }
            write!(f, "{place}")?;
        }
        Ok(())
    }
}

fn place(text: &str) -> Option<Place> {
    let (phase, rest) = match text.split_at_checked(1)? {
        ("r", rest) => (Phase::Recovery, rest),
        ("l", rest) => (Phase::Load, rest),
        ("c", rest) => (Phase::Remount, rest),
        ("m", rest) => (Phase::Making, rest),
        ("d", rest) => (Phase::Damaged, rest),
        ("f", rest) => (Phase::Repair, rest),
        ("i", rest) => (Phase::Erring, rest),
        _ => return None,
    };
    let (at, draw) = rest.split_once('.')?;
    let at = if let Some(n) = at.strip_suffix('-') {
        At::Before(n.parse().ok()?)
    } else if let Some(n) = at.strip_suffix('+') {
        At::After(n.parse().ok()?)
    } else {
        At::Instant(Nanos(at.strip_prefix('t')?.parse().ok()?))
    };
    let (listed, draw) = draw.strip_prefix('x').map_or((false, draw), |draw| (true, draw));
    Some(Place { phase, at, draw: draw.parse().ok()?, listed })
}

impl FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Path, String> {
        if text.is_empty() {
            return Ok(Path::default());
        }
        let wrong = || format!("'{text}' is no place of a power failure: one looks like l812+.0/r3-.1");
        text.split('/').map(place).collect::<Option<_>>().map(Path).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_back_from_its_text() {
        for text in [
            "",
            "l812+.0",
            "lt40512.3",
            "l9+.x12",
            "l1-.0/r3+.1/l9+.2",
            "m3+.1",
            "c7-.0",
            "d7-.0/f3+.1",
            "i7-.0",
        ] {
            assert_eq!(text.parse::<Path>().expect("a path").to_string(), text);
        }
        for wrong in ["x1+.0", "l1+", "l+.0", "l1*.0", "r", "l1+.0/", "lt.0", "é"] {
            assert!(wrong.parse::<Path>().is_err(), "{wrong}");
        }
    }
}
