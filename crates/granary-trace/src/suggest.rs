//! "Did you mean ...?": the nearest of the known names.
//!
//! It does *not* search: a handful of candidates are compared one by one.

/// Names longer than this are not compared; nobody mistypes them by two letters.
const MAX_COMPARED: usize = 40;

/// The candidate closest to `name` (letters changed, added, left out or swapped; case does not count), if one
/// is close enough to be meant. The first of several equally close ones.
pub fn nearest<'n>(name: &str, candidates: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let length = name.chars().count();
    if length == 0 || length > MAX_COMPARED {
        return None;
    }
    let wanted = lower(name);
    let allowed = (length / 3).clamp(1, 3);
    let distances = candidates.filter(|c| c.len() <= MAX_COMPARED).map(|c| (distance(&wanted, &lower(c)), c));
    distances
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, c)| c)
}

/// The known name that `name` may have been meant for, as a question with a blank behind it; nothing where
/// none is near.
pub fn meant<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    nearest(name, known).map_or(String::new(), |near| format!("did you mean `{near}`? "))
}

/// The names as a list for a message: `a, b and c`.
pub fn names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        None => String::from("none"),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

fn lower(name: &str) -> Vec<char> {
    name.chars().flat_map(char::to_lowercase).collect()
}

/// Optimal string alignment distance.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut current = Vec::with_capacity(b.len() + 1);
        current.push(i + 1);
        for (j, &y) in b.iter().enumerate() {
            let mut best = (previous[j] + usize::from(x != y)).min(previous[j + 1] + 1).min(current[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                best = best.min(before[j - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut previous, current);
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["openfile", "closefile", "createfile", "read", "write"];
        let near = |name| nearest(name, known.into_iter());
        assert_eq!(near("opnfile"), Some("openfile"));
        assert_eq!(near("OpenFile"), Some("openfile"));
        assert_eq!(near("raed"), Some("read"));
        assert_eq!(near("wriet"), Some("write"));
        assert_eq!(near("fsync"), None);
        assert_eq!(near(""), None);
        assert_eq!(near(&"x".repeat(100)), None);
    }

    #[test]
    fn lists_read_as_english() {
        assert_eq!(names(["a"].into_iter()), "`a`");
        assert_eq!(names(["a", "b", "c"].into_iter()), "`a`, `b` and `c`");
        assert_eq!(names([].into_iter()), "none");
    }
}
