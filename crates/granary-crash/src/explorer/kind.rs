//! When two failures are of one kind: a sentence of both says the same, but for numbers and names.

use super::Failure;

/// A sentence without its numbers, names of files and what explains it.
fn shape(sentence: &str) -> String {
    let end = sentence.find(['(', ',', ';', '[']).unwrap_or(sentence.len());
    let words = sentence[..end].split_whitespace().map(|word| {
        let bare = word.trim_end_matches(':');
        let byte = bare.len() == 2 && bare.chars().all(|c| c.is_ascii_hexdigit());
        let named = bare.starts_with(['/', '"', '\'']) || bare.contains(|c: char| c.is_ascii_digit());
        if byte || named { "_" } else { bare }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether `other` says somewhere what `failure` says first.
pub(super) fn same(failure: &Failure, other: &Failure) -> bool {
    let first = failure.evidence.first().map(|sentence| shape(sentence));
    other.evidence.iter().any(|sentence| Some(shape(sentence)) == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_make_no_other_kind_and_words_do() {
        let same = |a, b| shape(a) == shape(b);
        assert!(same(
            "/d1/c2n2: byte 0x8000 is 83 (then 83 00), it may be 00; certain: 0 bytes",
            "/shared0: byte 0x0 is ff, it may be 12"
        ));
        assert!(same("mount: block 920 is used twice; run fsck", "mount: block 7 is used twice"));
        assert!(same("inode 4: \"c2n2\" leads to inode 9, which is free", "inode 5: \"x\" leads to inode 7"));
        assert!(!same("/a: lost name, promised: File with 4", "/a: has 5 bytes, may have 4 to 4"));
        assert!(!same("mount: block 920 is used twice", "mount: block 920 is free"));
    }
}
