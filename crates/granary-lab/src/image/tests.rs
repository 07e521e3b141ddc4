//! Tests of this module.

use super::open::host_of;
use super::*;

#[test]
fn an_old_image_whose_testbed_is_gone_says_whose_host_it_has() {
    let meta = |testbed: &str, host| ImageMeta { testbed: testbed.to_owned(), host, ..ImageMeta::default() };
    let (host, note) = host_of(&meta("no-such.toml", None)).expect("a host");
    let default = Testbed::load(DEFAULT_TESTBED, &[]).expect("built in");
    assert_eq!(host, default);
    let note = note.expect("told");
    assert!(note.contains("no-such.toml") && note.contains(DEFAULT_TESTBED), "{note}");
    assert_eq!(host_of(&meta("cxl", None)).expect("built in").1, None);
    let own = Some(default.host.table(&default.fs).expect("plain"));
    assert_eq!(host_of(&meta("no-such.toml", own)).expect("its own"), (default, None));
}
