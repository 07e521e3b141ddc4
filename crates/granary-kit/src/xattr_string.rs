//! Extended attributes as one string of bytes, which file systems store in an inode or a block.
//!
//! ```text
//!   | name length 2 | value length 4 | name | value | name length 2 | ...       little endian
//! ```
//!
//! Entries lie in the order in which their names came; a value of the same length is replaced in its place.
//! Functions take any bytes: an entry that runs over the end is not there ([`is_sound`] tells).

/// Bytes of an entry besides name and value.
const ENTRY: usize = 6;

/// The entries of a string: where each begins, name, value. `None` once one runs over the end.
fn entries(string: &[u8]) -> impl Iterator<Item = Option<(usize, &[u8], &[u8])>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= string.len() {
            return None;
        }
        let begin = at;
        let rest = &string[at..];
        let lens = (rest.len() >= ENTRY).then(|| {
            let name = u16::from_le_bytes([rest[0], rest[1]]) as usize;
            (name, u32::from_le_bytes(rest[2..6].try_into().expect("four bytes")) as usize)
        });
        let end = lens.and_then(|(name, value)| ENTRY.checked_add(name)?.checked_add(value));
        match (lens, end) {
            (Some((name, _)), Some(end)) if name > 0 && end <= rest.len() => {
                at += end;
                Some(Some((begin, &rest[ENTRY..ENTRY + name], &rest[ENTRY + name..end])))
            }
            _ => {
                at = string.len();
                Some(None)
            }
        }
    })
}

/// Whether the string consists of whole entries.
pub fn is_sound(string: &[u8]) -> bool {
    entries(string).all(|e| e.is_some())
}

/// The bytes that an entry takes.
pub fn entry_len(name: &[u8], value: &[u8]) -> usize {
    ENTRY + name.len() + value.len()
}

/// The names, in order.
pub fn names(string: &[u8]) -> Vec<Vec<u8>> {
    entries(string).flatten().map(|(_, name, _)| name.to_vec()).collect()
}

/// The value of `name`.
pub fn get<'a>(string: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    entries(string).flatten().find(|e| e.1 == name).map(|e| e.2)
}

/// The string in which `name` has `value` (`None`: is not there).
pub fn set(string: &[u8], name: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let mut new = string.to_vec();
    let old = entries(string).flatten().find(|e| e.1 == name);
    if let Some((begin, _, was)) = old {
        let at = begin + ENTRY + name.len();
        match value {
            Some(v) if v.len() == was.len() => {
                new[at..at + v.len()].copy_from_slice(v);
                return new;
            }
            _ => drop(new.drain(begin..at + was.len())),
        }
    }
    if let Some(v) = value {
        new.extend_from_slice(&(name.len() as u16).to_le_bytes());
        new.extend_from_slice(&(v.len() as u32).to_le_bytes());
        new.extend_from_slice(name);
        new.extend_from_slice(v);
    }
    new
}

/// The same entries, ordered by their names: two strings with the same attributes become equal.
pub fn ordered(string: &[u8]) -> Vec<u8> {
    let mut list: Vec<(usize, &[u8], &[u8])> = entries(string).flatten().collect();
    list.sort_by_key(|(_, name, _)| *name);
    list.into_iter().flat_map(|(at, name, value)| &string[at..at + entry_len(name, value)]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use granary_sim::rng::Stream;

    #[test]
    fn any_bytes_are_entries_or_end() {
        let mut s = Stream::new(4, "xattr");
        for _ in 0..5000 {
            let bytes: Vec<u8> = (0..s.below(200)).map(|_| (s.below(6) * s.below(50)) as u8).collect();
            let found = names(&bytes);
            assert!(found.iter().map(|n| n.len() + ENTRY).sum::<usize>() <= bytes.len());
            assert!(is_sound(&set(b"", b"user.a", Some(&bytes))));
        }
    }

    #[test]
    fn the_order_in_which_attributes_came_can_be_forgotten() {
        let three = |names: [&[u8]; 3]| {
            names.iter().fold(Vec::new(), |string, name| set(&string, name, Some(&name.repeat(3))))
        };
        let (one, other) =
            (three([b"user.b", b"user.a", b"user.ab"]), three([b"user.ab", b"user.b", b"user.a"]));
        assert_ne!(one, other);
        assert_eq!(ordered(&one), ordered(&other));
        assert_eq!(names(&ordered(&one)), [&b"user.a"[..], b"user.ab", b"user.b"]);
        assert_eq!(get(&ordered(&one), b"user.ab"), Some(&b"user.abuser.abuser.ab"[..]));
    }
}
