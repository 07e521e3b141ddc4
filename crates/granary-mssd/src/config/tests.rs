//! Tests of this module.

use super::*;

#[test]
fn the_papers_emulator_and_the_tiny_drives_are_valid() {
    let paper = DriveConfig::bytefs_emulator();
    paper.validate().expect("valid");
    assert!(paper.pages() >= Bytes::gib(32).0 / 4096);
    for mode in [Mode::Log, Mode::Cache] {
        DriveConfig::tiny(mode).validate().expect("valid");
    }
}

#[test]
fn a_testbed_file_says_what_the_constructor_says() {
    let paper = DriveConfig::bytefs_emulator();
    let text = toml::to_string(&paper).expect("serialises");
    assert_eq!(toml::from_str::<DriveConfig>(&text).expect("parses"), paper);
    assert!(toml::from_str::<DriveConfig>(&text.replace("line_read", "lien_read")).is_err());
}

#[test]
fn a_drive_of_before_there_was_a_choice_acknowledges_from_its_buffer() {
    let mut c = DriveConfig::bytefs_emulator();
    let text = toml::to_string(&c).expect("serialises").replace("write_ack = \"buffer\"\n", "");
    assert!(!text.contains("write_ack"));
    assert_eq!(toml::from_str::<DriveConfig>(&text).expect("parses"), c);
    c.firmware.write_ack = WriteAck::Program;
    let text = toml::to_string(&c).expect("serialises");
    assert!(text.contains("write_ack = \"program\""), "{text}");
    assert_eq!(toml::from_str::<DriveConfig>(&text).expect("parses"), c);
}

#[test]
fn impossible_drives_are_refused_with_the_field() {
    let refusal = |change: fn(&mut DriveConfig)| {
        let mut c = DriveConfig::bytefs_emulator();
        change(&mut c);
        c.validate().expect_err("refused").to_string()
    };
    for (change, word) in [
        ((|c| c.link.read_bandwidth = Bytes(3)) as fn(&mut DriveConfig), "link.read_bandwidth"),
        (|c| c.link.wc_buffers = 0, "link.wc_buffers"),
        (|c| c.link.posted_lines = 0, "link.posted_lines"),
        (|c| c.firmware.log_region = Bytes(1000), "firmware.log_region"),
        (|c| c.firmware.clean_threshold_permille = 85, "clean_threshold"),
        (|c| c.firmware.cores = 0, "firmware.cores"),
        (
            |c| c.firmware.bam = Some(BamConfig { memory: Bytes::mib(300), ..BamConfig::default() }),
            "firmware.bam",
        ),
        (|c| c.firmware.write_buffer = Bytes(0), "firmware.write_buffer"),
        (|c| c.flash.geometry.channels = 0, "channels"),
    ] {
        let text = refusal(change);
        assert!(text.contains(word), "{text}");
    }
}
