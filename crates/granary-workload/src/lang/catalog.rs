//! Which flowops and attributes the language has, and which belong together.
//!
//! Filebench's grammar accepts every flowop attribute on every flowop and ignores those without a meaning.
//! Here each flowop has its own list: an attribute outside the language is an error, one that this flowop has
//! no use for is a warning.
//!
//! It does *not* say what an attribute means; `lower` and `flowops` do.
//!
//! Source: the attribute lists of the Filebench 1.5-alpha3 grammar, and for each flowop the attributes that
//! its implementation reads.

/// The attributes of an entity or a flowop. All names are canonical (see [`canonical`]).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes {
    /// In a message: "`entries` is not an attribute of *a fileset*".
    pub(crate) of: &'static str,
    /// Attributes that it needs.
    pub(crate) required: &'static [&'static str],
    /// Attributes that it takes besides.
    pub(crate) optional: &'static [&'static str],
    /// Attributes that Filebench understands and that have no effect here, with the reason.
    pub(crate) ignored: &'static [(&'static str, &'static str)],
}

impl Attributes {
    /// All names that are not refused, the required first.
    pub(crate) fn known(&self) -> impl Iterator<Item = &'static str> {
        let ignored = self.ignored.iter().map(|&(name, _)| name);
        self.required.iter().copied().chain(self.optional.iter().copied()).chain(ignored)
    }
}

/// The one name of an attribute that has two.
pub(crate) fn canonical(name: &str) -> &str {
    match name {
        "filename" => "filesetname",
        "filesize" => "size",
        other => other,
    }
}

/// Whether any entity or flowop has this attribute.
pub(crate) fn is_attribute(name: &str) -> bool {
    let name = canonical(name);
    let entities = [&FILE, &FILESET, &PROCESS, &THREAD, &EVENTGEN, &COMPOSITE];
    entities.iter().any(|set| set.known().any(|known| known == name)) || FLOWOP_ATTRIBUTES.contains(&name)
}

const CACHED: (&str, &str) = (
    "cached",
    "Filebench 1.5 dropped it; write `system \"echo 3 > /proc/sys/vm/drop_caches\"` for cold caches",
);

pub(crate) const FILE: Attributes = Attributes {
    of: "a file",
    required: &["name", "path"],
    optional: &[
        "size",
        "filesizegamma",
        "prealloc",
        "paralloc",
        "reuse",
        "readonly",
        "writeonly",
        "trusttree",
    ],
    ignored: &[CACHED],
};

pub(crate) const FILESET: Attributes = Attributes {
    of: "a fileset",
    required: &["name", "path"],
    optional: &[
        "dirwidth",
        "entries",
        "leafdirs",
        "size",
        "filesizegamma",
        "dirgamma",
        "dirdepthrv",
        "prealloc",
        "paralloc",
        "reuse",
        "readonly",
        "writeonly",
        "trusttree",
    ],
    ignored: &[CACHED],
};

pub(crate) const PROCESS: Attributes = Attributes {
    of: "a process",
    required: &["name"],
    optional: &["instances"],
    ignored: &[("nice", "all tasks have the same priority here")],
};

pub(crate) const THREAD: Attributes = Attributes {
    of: "a thread",
    required: &["name"],
    optional: &["instances", "memsize"],
    ignored: &[
        ("ioprio", "all I/O has the same priority here"),
        ("useism", "where a thread's buffer lies costs nothing here"),
    ],
};

pub(crate) const EVENTGEN: Attributes =
    Attributes { of: "`eventgen`", required: &["rate"], optional: &[], ignored: &[] };

/// Of the definition and of each use of a composite flowop; its local variables come on top.
pub(crate) const COMPOSITE: Attributes =
    Attributes { of: "a composite flowop", required: &["name"], optional: &["iters"], ignored: &[] };

const SEED: (&str, &str) = ("seed", "random streams derive from the seed of the run");
const SOURCE: (&str, &str) = ("randsrc", "random streams derive from the seed of the run");

pub(crate) const RANDVAR: Attributes = Attributes {
    of: "a `randvar`",
    required: &[],
    optional: &["name", "type", "mean", "gamma", "min", "round", "randtable"],
    ignored: &[SEED, SOURCE],
};

pub(crate) const CVAR: Attributes = Attributes {
    of: "a `cvar`",
    required: &["type"],
    optional: &["parameters", "min", "max", "round"],
    ignored: &[],
};

/// Every attribute that Filebench accepts on a flowop.
const FLOWOP_ATTRIBUTES: &[&str] = &[
    "name",
    "iters",
    "filesetname",
    "fd",
    "srcfd",
    "opennext",
    "indexed",
    "iosize",
    "workingset",
    "random",
    "dsync",
    "directio",
    "noreadahead",
    "target",
    "value",
    "blocking",
    "highwater",
];

/// A flowop type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowopType {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Needs these besides `name`.
    pub(crate) required: &'static [&'static str],
    /// Has a use for these; `name` and `iters` go without saying.
    pub(crate) optional: &'static [&'static str],
}

impl FlowopType {
    pub(crate) fn takes(&self, attribute: &str) -> bool {
        matches!(attribute, "name" | "iters")
            || self.required.contains(&attribute)
            || self.optional.contains(&attribute)
    }

    /// Whether Filebench would accept the attribute, with or without a use for it.
    pub(crate) fn tolerates(attribute: &str) -> bool {
        FLOWOP_ATTRIBUTES.contains(&attribute)
    }

    /// All attributes that it has a use for.
    pub(crate) fn known(&self) -> impl Iterator<Item = &'static str> {
        ["name", "iters"]
            .into_iter()
            .chain(self.required.iter().copied())
            .chain(self.optional.iter().copied())
    }
}

/// Kinds of flowops; the front end's twin of [`crate::spec::Op`], without the attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    Open,
    Close,
    Delete,
    Stat,
    Fsync,
    FsyncSet,
    ReadWhole,
    WriteWhole,
    Read,
    Write,
    Append,
    AppendRandom,
    AioWrite,
    AioWait,
    MakeDir,
    RemoveDir,
    ListDir,
    Hog,
    Delay,
    EventLimit,
    OpsLimit,
    IopsLimit,
    BwLimit,
    FinishOnCount,
    FinishOnBytes,
    SemBlock,
    SemPost,
    Block,
    Wakeup,
    TestRandom,
    Print,
}

/// Picks or reuses a file, and can open it.
const OPENS: &[&str] = &["fd", "opennext", "indexed", "dsync", "directio", "noreadahead"];
/// The same where the fileset may be left out because the file is open.
const FILE_OR_FD: &[&str] = &["filesetname", "fd", "opennext", "indexed"];
const WHOLE: &[&str] =
    &["filesetname", "fd", "opennext", "indexed", "dsync", "directio", "noreadahead", "iosize", "workingset"];
const WHOLE_FROM: &[&str] = &[
    "filesetname",
    "fd",
    "srcfd",
    "opennext",
    "indexed",
    "dsync",
    "directio",
    "noreadahead",
    "iosize",
    "workingset",
];
const PART: &[&str] =
    &["filesetname", "fd", "opennext", "indexed", "dsync", "directio", "noreadahead", "random", "workingset"];
const AT_END: &[&str] = &["filesetname", "fd", "opennext", "indexed", "dsync", "directio", "noreadahead"];
const AIO: &[&str] =
    &["filesetname", "fd", "opennext", "indexed", "dsync", "directio", "noreadahead", "workingset"];

const fn flowop(
    name: &'static str,
    kind: Kind,
    required: &'static [&'static str],
    optional: &'static [&'static str],
) -> FlowopType {
    FlowopType { name, kind, required, optional }
}

/// Every flowop type.
pub(crate) const FLOWOPS: &[FlowopType] = &[
    flowop("createfile", Kind::Create, &["filesetname"], OPENS),
    flowop("openfile", Kind::Open, &["filesetname"], OPENS),
    flowop("closefile", Kind::Close, &[], &["fd"]),
    flowop("deletefile", Kind::Delete, &[], FILE_OR_FD),
    flowop("statfile", Kind::Stat, &[], FILE_OR_FD),
    flowop("fsync", Kind::Fsync, &[], &["fd"]),
    flowop("fsyncset", Kind::FsyncSet, &["filesetname"], &[]),
    flowop("readwholefile", Kind::ReadWhole, &[], WHOLE),
    flowop("writewholefile", Kind::WriteWhole, &[], WHOLE_FROM),
    flowop("read", Kind::Read, &["iosize"], PART),
    flowop("write", Kind::Write, &["iosize"], PART),
    flowop("appendfile", Kind::Append, &["iosize"], AT_END),
    flowop("appendfilerand", Kind::AppendRandom, &["iosize"], AT_END),
    flowop("aiowrite", Kind::AioWrite, &["iosize", "random"], AIO),
    flowop("aiowait", Kind::AioWait, &[], &[]),
    flowop("makedir", Kind::MakeDir, &["filesetname"], &["indexed"]),
    flowop("removedir", Kind::RemoveDir, &["filesetname"], &["indexed"]),
    flowop("listdir", Kind::ListDir, &["filesetname"], &[]),
    flowop("hog", Kind::Hog, &["value"], &[]),
    flowop("delay", Kind::Delay, &["value"], &[]),
    flowop("eventlimit", Kind::EventLimit, &[], &[]),
    flowop("opslimit", Kind::OpsLimit, &[], &["target"]),
    flowop("iopslimit", Kind::IopsLimit, &[], &["target"]),
    flowop("bwlimit", Kind::BwLimit, &[], &["target"]),
    flowop("finishoncount", Kind::FinishOnCount, &["value"], &["target"]),
    flowop("finishonbytes", Kind::FinishOnBytes, &["value"], &["target"]),
    flowop("semblock", Kind::SemBlock, &["value"], &["highwater"]),
    flowop("sempost", Kind::SemPost, &["value", "target"], &["blocking"]),
    flowop("block", Kind::Block, &[], &[]),
    flowop("wakeup", Kind::Wakeup, &["target"], &[]),
    flowop("testrandvar", Kind::TestRandom, &["value"], &[]),
    flowop("print", Kind::Print, &["value"], &[]),
];

/// The flowop type of this name.
pub(crate) fn flowop_type(name: &str) -> Option<&'static FlowopType> {
    FLOWOPS.iter().find(|flowop| flowop.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_of_a_flowop_is_one_that_filebench_accepts() {
        for flowop in FLOWOPS {
            for attribute in flowop.known() {
                assert!(FlowopType::tolerates(attribute), "{} of {}", attribute, flowop.name);
                assert_eq!(canonical(attribute), attribute);
            }
        }
    }

    #[test]
    fn no_name_stands_twice() {
        for set in [FILE, FILESET, PROCESS, THREAD, EVENTGEN, COMPOSITE, RANDVAR, CVAR] {
            let mut names: Vec<_> = set.known().collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count, "{}", set.of);
        }
        let mut names: Vec<_> = FLOWOPS.iter().map(|f| f.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FLOWOPS.len());
        for flowop in FLOWOPS {
            let mut names: Vec<_> = flowop.known().collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count, "{}", flowop.name);
        }
    }
}
