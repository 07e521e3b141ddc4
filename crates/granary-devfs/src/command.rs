//! [`Command`]: 64 bytes that a program writes and the drive copies once before it looks at them.
//!
//! ```text
//!   0    1       2     4    8     12       16       24       32        40       48    56 .. 64
//!   | op | flags | cpu | fd | seq | status | offset | length | address | result | tsc | aux |
//! ```
//!
//! The drive fills in `cpu` and ignores the program's value. It checks its copy of the command: the operation
//! exists, and the memory range lies within the memory that was pinned for the process. It does *not* check
//! descriptors and permissions: the file system does.
//!
//! Source: DevFS section 3.1 (fields); the layout is ours.

use granary_pm::bytes::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};
use std::ops::Range;

/// Bytes of a command.
pub const SIZE: usize = 64;
/// The offset of an append.
pub const APPEND: u64 = u64::MAX;
/// Most bytes of one transfer (DevFS: a command buffer has up to 4 MB).
pub const MOST: u64 = 4 << 20;

/// Operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Bytes of a file to the program.
    Read = 1,
    /// Bytes of the program into a file.
    Write,
    /// To storage what is not there.
    Fsync,
    /// The size, or other attributes.
    SetAttr,
    /// A name is looked for.
    Lookup,
    /// Names of a directory.
    ReadDir,
    /// A new inode under a name.
    Create,
    /// Another name.
    Link,
    /// A name less.
    Unlink,
    /// A name for another.
    Rename,
    /// Space.
    Space,
}

impl Op {
    const ALL: [Op; 11] = [
        Op::Read,
        Op::Write,
        Op::Fsync,
        Op::SetAttr,
        Op::Lookup,
        Op::ReadDir,
        Op::Create,
        Op::Link,
        Op::Unlink,
        Op::Rename,
        Op::Space,
    ];
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The operation.
    pub op: Op,
    /// The processor that rang.
    pub cpu: u16,
    /// The file, by descriptor.
    pub fd: u32,
    /// The program's count.
    pub seq: u32,
    /// Where in the file; [`APPEND`]: at its end.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Where in the program's memory.
    pub address: u64,
}

/// Why a command is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// There is no such operation (EINVAL).
    Op(u8),
    /// The range in the file has no end (EINVAL).
    Range,
    /// The memory is not pinned for the process (EFAULT).
    Memory,
}

impl Command {
    /// As the program writes it.
    pub fn bytes(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        b[0] = self.op as u8;
        put_u32(&mut b, 4, self.fd);
        put_u32(&mut b, 8, self.seq);
        put_u64(&mut b, 16, self.offset);
        put_u64(&mut b, 24, self.length);
        put_u64(&mut b, 32, self.address);
        put_u16(&mut b, 2, self.cpu);
        b
    }

    /// Reads the drive's copy, which `cpu` rang for, and checks it against the memory that is pinned for the
    /// process.
    ///
    /// # Errors
    /// Why it is none.
    pub fn admit(copy: &[u8; SIZE], cpu: u16, pinned: &Range<u64>) -> Result<Command, Bad> {
        let op = Op::ALL.into_iter().find(|op| *op as u8 == copy[0]).ok_or(Bad::Op(copy[0]))?;
        let c = Command {
            op,
            cpu,
            fd: u32_at(copy, 4),
            seq: u32_at(copy, 8),
            offset: u64_at(copy, 16),
            length: u64_at(copy, 24),
            address: u64_at(copy, 32),
        };
        debug_assert_eq!(u16_at(&c.bytes(), 2), cpu);
        let ends =
            c.offset == APPEND || c.offset.checked_add(c.length).is_some_and(|end| end <= i64::MAX as u64);
        if !ends || c.length > MOST {
            return Err(Bad::Range);
        }
        if matches!(c.op, Op::Read | Op::Write) {
            let end = c.address.checked_add(c.length).ok_or(Bad::Memory)?;
            if c.address < pinned.start || end > pinned.end {
                return Err(Bad::Memory);
            }
        }
        Ok(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PINNED: Range<u64> = 0x7000_0000..0x7040_0000;

    #[test]
    fn a_command_comes_back_with_the_processor_that_rang() {
        let c = Command {
            op: Op::Write,
            cpu: 9,
            fd: 3,
            seq: 77,
            offset: 4096,
            length: 512,
            address: PINNED.start,
        };
        assert_eq!(Command::admit(&c.bytes(), 2, &PINNED), Ok(Command { cpu: 2, ..c }));
    }

    /// Hostile buffers: whatever is admitted names an operation, a range that ends and memory of the process.
    #[test]
    fn random_bytes_are_refused_or_name_what_the_process_has() {
        let mut random = granary_sim::rng::Stream::new(1, "hostile");
        let (mut admitted, mut refused) = (0u32, 0u32);
        for n in 0..1_000_000u64 {
            let mut b = [0; SIZE];
            for word in b.chunks_exact_mut(8) {
                word.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
            }
            if n % 2 == 0 {
                // Nearly right ones: each field is in its range, or just beyond.
                b[0] = random.below(14) as u8;
                put_u64(&mut b, 16, [0, 4096, APPEND, i64::MAX as u64][random.below(4) as usize]);
                put_u64(&mut b, 24, [0, 1, MOST, MOST + 1, u64::MAX][random.below(5) as usize]);
                let end = [PINNED.start, PINNED.start - 1, PINNED.end, u64::MAX][random.below(4) as usize];
                put_u64(&mut b, 32, end);
            }
            match Command::admit(&b, 1, &PINNED) {
                Ok(c) => {
                    admitted += 1;
                    assert!(c.length <= MOST);
                    if matches!(c.op, Op::Read | Op::Write) {
                        assert!(c.address >= PINNED.start && c.address + c.length <= PINNED.end, "{c:?}");
                    }
                }
                Err(_) => refused += 1,
            }
        }
        assert!(admitted > 5_000 && refused > 500_000, "{admitted} {refused}");
    }
}
