//! [`Striping`]: the order in which consecutive writes visit channels, ways, dies and planes.
//!
//! ```text
//!   CWDP, 2 channels, 2 ways, 2 planes      write    0   1   2   3   4   5   6   7
//!                                           channel  0   1   0   1   0   1   0   1     first letter: fastest
//!                                           way      0   0   1   1   0   0   1   1
//!                                           plane    0   0   0   0   1   1   1   1     last letter: slowest
//! ```
//!
//! Channels first spreads a large request over all buses; planes first lets multi-plane programs find each
//! other.
//!
//! Source: the page allocation schemes of Hu et al., "Performance impact and interplay of SSD parallelism
//! through advanced commands, allocation strategy and data granularity", ICS 2011; the four-letter names as
//! in MQSim (FAST 2018).

use super::Geometry;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One level of the array's parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Channel,
    Way,
    Die,
    Plane,
}

impl Axis {
    const ALL: [Axis; 4] = [Axis::Channel, Axis::Way, Axis::Die, Axis::Plane];

    fn letter(self) -> char {
        match self {
            Axis::Channel => 'C',
            Axis::Way => 'W',
            Axis::Die => 'D',
            Axis::Plane => 'P',
        }
    }
}

/// Order of the axes, fastest first; in files a word of the four letters C, W, D and P, such as `"CWDP"`.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Striping([Axis; 4]);

impl Default for Striping {
    /// CWDP, the first order of MQSim's and of Hu et al.'s lists.
    fn default() -> Striping {
        Striping(Axis::ALL)
    }
}

impl Striping {
    /// All 24 orders.
    pub fn all() -> impl Iterator<Item = Striping> {
        (0..24).map(|i: usize| {
            let mut rest = Axis::ALL.to_vec();
            let picks = [i / 6, i / 2 % 3, i % 2, 0];
            Striping(picks.map(|at| rest.remove(at)))
        })
    }

    /// The plane numbers in the order in which consecutive writes visit them.
    pub fn order(&self, g: &Geometry) -> Vec<u32> {
        // Of each axis: its size, and how far apart its neighbours are in plane numbers.
        let axis = |a: Axis| match a {
            Axis::Channel => (g.channels, 1),
            Axis::Way => (g.ways, g.channels),
            Axis::Die => (g.dies, g.channels * g.ways),
            Axis::Plane => (g.planes, g.channels * g.ways * g.dies),
        };
        let axes = self.0.map(axis);
        let position = |i: u32| {
            let (_, plane) =
                axes.iter().fold((i, 0), |(i, p), &(size, step)| (i / size, p + i % size * step));
            plane
        };
        (0..g.plane_count()).map(position).collect()
    }
}

impl TryFrom<String> for Striping {
    type Error = String;

    fn try_from(text: String) -> Result<Striping, String> {
        Striping::all().find(|s| s.to_string() == text).ok_or_else(|| {
            format!("striping \"{text}\" is no order of the letters C, W, D and P, such as \"CWDP\"")
        })
    }
}

impl From<Striping> for String {
    fn from(s: Striping) -> String {
        s.to_string()
    }
}

impl fmt::Display for Striping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|a| write!(f, "{}", a.letter()))
    }
}

impl fmt::Debug for Striping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_visits_every_plane_once_and_its_first_axis_fastest() {
        let g =
            Geometry { channels: 3, ways: 2, dies: 4, planes: 2, blocks_per_plane: 1, pages_per_block: 1 };
        let names: std::collections::BTreeSet<String> = Striping::all().map(String::from).collect();
        assert_eq!(names.len(), 24);
        for s in Striping::all() {
            assert_eq!(Striping::try_from(s.to_string()), Ok(s));
            let order = s.order(&g);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..48), "{s}");
            // The coordinates of write i, counted by hand: the first axis turns at each write, the next when
            // it is round.
            let mut count = [0u32; 4];
            for &p in &order {
                let at = [p % 3, p / 3 % 2, p / 6 % 4, p / 24];
                let size = [3, 2, 4, 2];
                let axes = s.0.map(|a| Axis::ALL.iter().position(|&b| a == b).expect("an axis"));
                assert_eq!(axes.map(|a| at[a]), count, "{s}");
                for (digit, a) in count.iter_mut().zip(axes) {
                    *digit = (*digit + 1) % size[a];
                    if *digit > 0 {
                        break;
                    }
                }
            }
        }
        assert!(Striping::try_from("CWDD".to_owned()).is_err());
        assert!(Striping::try_from("cwdp".to_owned()).is_err());
    }
}
