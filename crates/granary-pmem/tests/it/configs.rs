//! Configurations: the kinds are valid, files say what they mean, and what makes no DIMM is refused with a
//! reason.

use granary_pmem::{Dimm, DimmConfig, Domain, Kind, RamMedium};
use granary_units::{Bytes, Nanos};

#[test]
fn the_kinds_are_valid_and_survive_a_file() {
    for kind in [Kind::OptaneDcpmm, Kind::NvdimmN, Kind::DramSpeed] {
        let config = DimmConfig::of(kind);
        config.validate().expect("valid");
        let text = toml::to_string(&config).expect("writes");
        assert_eq!(toml::from_str::<DimmConfig>(&text).expect("reads"), config, "{text}");
    }
    assert_eq!(DimmConfig::optane_dcpmm().pages(), 31_250_000);
    assert_eq!(DimmConfig::optane_dcpmm().interleaved(2).pages(), 62_500_000);
}

#[test]
fn a_key_that_does_not_exist_is_refused() {
    let text = toml::to_string(&DimmConfig::nvdimm_n()).expect("writes");
    let e = toml::from_str::<DimmConfig>(&format!("dims = 1\n{text}")).expect_err("an unknown key");
    assert!(e.to_string().contains("dims"), "{e}");
    let text = text.replace("\"adr\"", "\"eadr\"");
    assert_eq!(toml::from_str::<DimmConfig>(&text).expect("reads").domain, Domain::Eadr);
}

#[test]
fn what_makes_no_dimm_is_refused_by_its_field() {
    type Change = fn(&mut DimmConfig);
    let changes: [(&str, Change); 15] = [
        ("dimms", |c| c.dimms = 0),
        ("stripe", |c| c.stripe = Bytes(1000)),
        ("capacity", |c| c.capacity = Bytes(4097)),
        ("capacity", |c| c.capacity = Bytes(1 << 60)),
        ("read_bandwidth", |c| c.read_bandwidth = Bytes(0)),
        ("core_nt", |c| c.core_nt = Bytes(1)),
        ("nt_store", |c| c.nt_store = Nanos::from_secs(2)),
        ("read_sequential", |c| c.read_sequential = Nanos(400)),
        ("read_sequential", |c| c.read_sequential = Nanos(70)),
        ("readers", |c| c.readers = vec![]),
        ("nt_writers", |c| c.nt_writers = vec![1000, 0]),
        ("queue", |c| c.queue = 0),
        ("granule", |c| c.granule = Bytes(100)),
        ("buffer", |c| c.buffer = Bytes(0)),
        ("caches", |c| c.caches = Bytes(0)),
    ];
    for (field, change) in changes {
        let mut config = DimmConfig::optane_dcpmm();
        change(&mut config);
        let e = config.validate().expect_err(field);
        assert_eq!(e.field, field, "{e}");
        assert!(Dimm::new(&config).is_err());
    }
}

#[test]
fn a_medium_of_another_size_is_refused() {
    let e = Dimm::over(&DimmConfig::nvdimm_n(), RamMedium::new(5)).err().expect("too small");
    assert!(e.to_string().contains("5"), "{e}");
}
