//! Meaning of the language: variables, random variables, composites, and the commands around a run.

use granary_workload::Workload;
use granary_workload::spec::{Distribution, FlowopSpec, Op, QuitMode, RunSpec, Step, TableRow, Value};

/// A workload with a fileset and a thread, so that a test can add the commands that it is about.
fn with(commands: &str) -> Workload {
    parse(&format!(
        "{commands}\n\
         define fileset name=set,path=/data,entries=100,dirwidth=20\n\
         define process name=p {{ thread name=t {{ flowop statfile name=s,filesetname=set }} }}\n"
    ))
}

/// The same with the commands after the definitions.
fn ending(commands: &str) -> Workload {
    parse(&format!(
        "define fileset name=set,path=/data,entries=100,dirwidth=20\n\
         define process name=p {{ thread name=t {{ flowop statfile name=s,filesetname=set }} }}\n{commands}\n"
    ))
}

fn parse(text: &str) -> Workload {
    Workload::parse("test.f", text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn parse_with(text: &str, overrides: &[(&str, &str)]) -> Result<Workload, String> {
    let overrides: Vec<_> = overrides.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    Workload::parse("test.f", text, &overrides).map_err(|error| error.to_string())
}

fn flowops(workload: &Workload) -> &[FlowopSpec] {
    &workload.processes[0].threads[0].flowops
}

#[test]
fn attributes_take_the_value_that_a_variable_has_at_the_run() {
    let workload = parse(
        "set $n=10\n\
         define fileset name=set,path=$dir,entries=$n,dirwidth=20,size=$size\n\
         define process name=p { thread name=t,instances=$threads { flowop statfile name=s,filesetname=set } }\n\
         set $copy=$n\n\
         set $n=20\n\
         set $dir=\"/mnt/$copy\"\n\
         set $size=4k\n\
         set $threads=3\n\
         echo \"n is $n, it was $copy\"\n\
         run 5\n\
         set $n=30\n",
    );
    let set = &workload.filesets[0];
    assert_eq!((set.entries, set.path.as_str(), set.size), (20, "/mnt/10", Value::Const(4096)));
    assert_eq!(workload.threads(), 3);
    assert_eq!(workload.messages, ["n is 20, it was 10"]);
    assert_eq!(workload.run.seconds, Some(5));
    let [warning] = &workload.warnings[..] else { panic!("{:?}", workload.warnings) };
    assert_eq!((warning.line, warning.column), (11, 1), "what follows `run` is ignored: {}", warning.message);
}

#[test]
fn arithmetic_has_one_operator() {
    let workload = parse(
        "set $a=6\nset $b=4\nset $sum=$a + $b\nset $product=$a * 3\nset $difference=$a - $b\nset $ratio=$a / 4\n\
         define fileset name=set,path=/d,entries=$product,leafdirs=$sum,dirwidth=$difference,size=$ratio\n\
         define process name=p { thread name=t { flowop statfile name=s,filesetname=set } }\nrun",
    );
    let set = &workload.filesets[0];
    assert_eq!(
        (set.entries, set.leafdirs, set.dirwidth, set.size),
        (18, 10, Value::Const(2), Value::Const(1))
    );
}

#[test]
fn overrides_win_over_every_set() {
    let text = "set $n=10\nset $twice=$n * 2\nset $n=11\n\
                define fileset name=set,path=$dir,entries=$n,leafdirs=$twice,dirwidth=20,size=$size\n\
                define process name=p { thread name=t { flowop statfile name=s,filesetname=set } }\nrun";
    let overrides =
        [("n", "7"), ("$dir", "/mnt/x-1"), ("size", "cvar(type=cvar-gamma,parameters=mean:100;gamma:2)")];
    let workload = parse_with(text, &overrides).unwrap();
    let set = &workload.filesets[0];
    assert_eq!((set.entries, set.leafdirs, set.path.as_str()), (7, 14, "/mnt/x-1"));
    assert_eq!(set.size.mean(&workload.randoms), 100.0);

    let quoted = parse_with(text, &[("dir", "\"/with blank\""), ("size", "1m")]).unwrap();
    assert_eq!(quoted.filesets[0].path, "/with blank");
    assert_eq!(quoted.filesets[0].entries, 11);

    let refused = |overrides| parse_with(text, overrides).unwrap_err();
    assert!(refused(&[("sise", "1m")]).contains("did you mean `$size`?"));
    assert!(refused(&[("size", "12x")]).starts_with("--var size: `12x` is not a number"));
    assert!(refused(&[("size", "1m\nrun")]).contains("an override is one value"));
    assert!(refused(&[("size", "")]).contains("a value is expected here"));
    assert!(
        refused(&[("dir", "/d"), ("size", "big")]).contains("needs a number, but this is the text `big`")
    );
    assert!(refused(&[("size", "1m")]).contains("the variable `$dir` is never set"));
    assert!(refused(&[("", "1")]).contains("the workload has no variable"));
}

#[test]
fn random_variables_become_distributions() {
    let workload = parse(
        "set $u = randvar(type=uniform, mean=6k, min=4k, round=1k)\n\
         set $g = random(type=gamma, mean=10k, gamma=2500, min=1k)\n\
         set $i = randvar(type=gamma, min=0, gamma=100)\n\
         set $t = randvar(type=tabular, min=1k, randtable = {{ 0, 1k, 7k}, {50, 9k, 15k}, {50, 17k, 23k}})\n\
         set $c = cvar(type=cvar-uniform, parameters=lower:4096;upper:8192, min=5000, max=6000, round=16)\n\
         set $l = cvar(type=cvar-lognormal, parameters=shape:0.5)\n\
         set $e = cvar(type=cvar-erlang, parameters=shape:3;rate:50)\n\
         set $w = cvar(type=cvar-weibull, parameters=\"shape:2; scale:9\")\n\
         set $x = cvar(type=cvar-triangular, parameters=lower:1;upper:5;mode:2)\n\
         set $n = cvar(type=cvar-normal, parameters=mean:10;sigma:3)\n\
         set $p = cvar(type=cvar-exponential)\n\
         define randvar name=$old, type=gamma, mean=3k, gamma=1500\n\
         set $u = 5\n\
         set $u = randvar(type=uniform, mean=8)\n\
         define fileset name=set,path=/d,entries=5,dirwidth=20,size=$g\n\
         define process name=p { thread name=t { flowop statfile name=s,filesetname=set,indexed=$i } }\nrun",
    );
    let by_name = |name: &str| {
        workload.randoms.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    let kind = |name: &str| by_name(name).distribution;
    assert_eq!(kind("u"), Distribution::Uniform { lower: 4096.0, upper: 8192.0 });
    assert_eq!(by_name("u").round, 1024);
    assert_eq!(kind("g"), Distribution::Gamma { mean: 10240.0, shape: 2.5, offset: 1024.0 });
    assert_eq!(kind("i"), Distribution::Gamma { mean: 0.1, shape: 0.1, offset: 0.0 });
    let row =
        |percent, lower: u64, upper: u64| TableRow { percent, lower: lower as f64, upper: upper as f64 };
    assert_eq!(kind("t"), Distribution::Table(vec![row(50, 9 << 10, 15 << 10), row(50, 17 << 10, 23 << 10)]));
    let c = by_name("c");
    assert_eq!(c.distribution, Distribution::Uniform { lower: 4096.0, upper: 8192.0 });
    assert_eq!((c.min, c.max, c.round), (5000.0, 6000.0, 16));
    assert_eq!(kind("l"), Distribution::LogNormal { shape: 0.5, scale: 1.0 });
    assert_eq!(kind("e"), Distribution::Erlang { order: 3, mean: 50.0 });
    assert_eq!(kind("w"), Distribution::Weibull { shape: 2.0, scale: 9.0 });
    assert_eq!(kind("x"), Distribution::Triangular { lower: 1.0, upper: 5.0, mode: 2.0 });
    assert_eq!(kind("n"), Distribution::Normal { mean: 10.0, sigma: 3.0 });
    assert_eq!(kind("p"), Distribution::Exponential { mean: 1.0 });
    assert_eq!(kind("old"), Distribution::Gamma { mean: 3072.0, shape: 1.5, offset: 0.0 });
    assert_eq!(
        kind("u#12"),
        Distribution::Uniform { lower: 0.0, upper: 16.0 },
        "a second `$u` has its own stream"
    );
    let Op::Stat(file) = &flowops(&workload)[0].op else { panic!() };
    let Some(Value::Random(index)) = file.index else { panic!() };
    assert_eq!(workload.randoms[index.0].name, "i");
}

#[test]
fn a_table_is_stretched_to_the_mean_and_minimum_that_are_asked_for() {
    // Rows 0..10 and 10..20 have mean 10 and minimum 0; mean 110 and minimum 10 stretch them by 10 and shift
    // by 10.
    let workload = with("set $t = randvar(type=tabular,mean=110,min=10,randtable={{50,0,10},{50,10,20}})");
    let rows = [(50, 10.0, 110.0), (50, 110.0, 210.0)];
    let rows = rows.map(|(percent, lower, upper)| TableRow { percent, lower, upper }).to_vec();
    assert_eq!(workload.randoms[0].distribution, Distribution::Table(rows));
    assert_eq!(workload.randoms[0].distribution.mean(), 110.0);
}

#[test]
fn composites_are_expanded_with_their_variables() {
    let workload = parse(
        "set $iosize=16k\n\
         define fileset name=one,path=/d,entries=9,dirwidth=20\n\
         define fileset name=two,path=/d,entries=9,dirwidth=20\n\
         define flowop name=copy, $from, $size=4k {\n\
           flowop openfile name=open,filesetname=$from,fd=1\n\
           flowop readwholefile name=read,fd=1,iosize=$size\n\
           flowop closefile name=close,fd=1\n\
         }\n\
         define flowop name=work, $where, $times, iters=7 {\n\
           flowop copy name=c1, iters=$times, $from=$where, $size=$iosize\n\
           flowop copy name=c2, $from=one\n\
         }\n\
         define process name=p { thread name=t {\n\
           flowop work name=w, iters=3, $times=5, $where=two\n\
           flowop work name=v, $times=1, $where=one\n\
           flowop finishoncount name=f, value=10, target=w\n\
         } }\nrun",
    );
    let ops = flowops(&workload);
    assert_eq!(ops.iter().map(|f| f.iters).collect::<Vec<_>>(), [3, 7, 1].map(Value::Const));
    let Op::Composite(w) = &ops[0].op else { panic!() };
    assert_eq!(w.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["w.c1", "w.c2"]);
    assert_eq!(w[0].iters, Value::Const(5));
    let Op::Composite(c1) = &w[0].op else { panic!() };
    let Op::Composite(c2) = &w[1].op else { panic!() };
    assert_eq!(c1[0].name, "w.c1.open");
    let fileset = |op: &Op| match op {
        Op::Open(file) => workload.fileset(file.fileset.unwrap()).name.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((fileset(&c1[0].op), fileset(&c2[0].op)), ("two".into(), "one".into()));
    let size = |op: &Op| match op {
        Op::ReadWhole(_, io) => io.size,
        other => panic!("{other:?}"),
    };
    assert_eq!((size(&c1[1].op), size(&c2[1].op)), (Value::Const(16384), Value::Const(4096)));
    assert_eq!(ops[2].op, Op::FinishOnCount { value: 10, target: Some(0) });
}

#[test]
fn the_end_of_a_run_follows_its_mode() {
    let run = |commands: &str| {
        let text = with("").name; // the fixture parses
        assert_eq!(text, "test.f");
        parse(&format!(
            "define fileset name=set,path=/d,entries=9,dirwidth=20\n\
             define process name=p {{ thread name=t {{ flowop deletefile name=d,filesetname=set }} }}\n{commands}"
        ))
    };
    let spec = |seconds, period, reset_each_period| RunSpec { seconds, period, reset_each_period };
    assert_eq!(run("run").run, spec(Some(60), None, false), "Filebench's default");
    assert_eq!(run("run 0").run, spec(Some(60), None, false));
    assert_eq!(run("set mode quit alldone\nrun").run, spec(None, None, false));
    assert_eq!(run("set mode quit firstdone\nrun 7").run, spec(Some(7), None, false));
    assert_eq!(run("set $t=9\nrun $t").run, spec(Some(9), None, false));
    assert_eq!(run("psrun").run, spec(Some(60), Some(10), false));
    assert_eq!(run("psrun -5 30").run, spec(Some(30), Some(5), true));
    assert_eq!(run("psrun 5 30").run, spec(Some(30), Some(5), false));
    assert_eq!(run("set mode quit firstdone\nrun").mode, QuitMode::FirstDone);
    assert_eq!(run("run").warnings, [], "files run out");
    let bare = ending("run");
    assert!(bare.warnings[0].message.contains("but Filebench's default of 60"), "{:?}", bare.warnings);
    assert_eq!(ending("run 60").warnings, []);
    let without = run("");
    assert_eq!(without.run.seconds, Some(60));
    assert!(without.warnings[0].message.contains("no `run`"));
    assert!(without.warnings[0].message.contains("Filebench would run nothing"));
    let endless = with("set mode quit alldone");
    assert!(endless.warnings.iter().any(|w| w.message.starts_with("nothing ends this run")));
}

/// Filebench before 1.5 starts the threads, sleeps while they run, and ends them.
#[test]
fn processes_that_are_created_run_as_long_as_the_file_sleeps() {
    let steps = |end: &str| ending(&format!("create files\nsleep 2\nsystem \"sync\"\n{end}"));
    let before = [Step::CreateFilesets, Step::Sleep { seconds: 2 }, Step::Sync];
    for end in [
        "create processes\nsleep 5\nshutdown processes",
        "create processes\nsleep 2\nstats clear\nsleep 3\nstats snap\nshutdown processes\nstats dump \"x\"\nquit",
        "create processes\nsleep 5",
        "create processes\nsleep 5\nquit",
    ] {
        let workload = steps(end);
        assert_eq!((workload.run.seconds, &workload.prologue[..]), (Some(5), &before[..]), "{end}");
        let mut others = workload.warnings.iter().filter(|w| !w.message.starts_with("`stats` has no effect"));
        assert_eq!(others.next(), None, "{end}");
    }
    let run = steps("create processes\nsleep 5\nrun 7");
    assert_eq!((run.run.seconds, run.prologue.len()), (Some(7), 4), "a `run` is the run");
    let late = steps("create processes\nsleep 5\nsystem \"sync\"\nsleep 1\nshutdown processes\nsleep 9");
    assert_eq!((late.run.seconds, &late.prologue[..]), (Some(6), &before[..]));
    let said: Vec<&str> = late.warnings.iter().map(|w| w.message.as_str()).collect();
    assert!(said.iter().any(|w| w.contains("put it before `create processes`")), "{said:?}");
    assert!(said.iter().any(|w| w.contains("were shut down before")), "{said:?}");
    let none = steps("create processes\nshutdown processes");
    assert_eq!(none.run.seconds, Some(60));
    assert!(none.warnings.iter().any(|w| w.message.contains("no `run`")), "{:?}", none.warnings);
    let endless = steps("create processes\nsleep 0\nshutdown processes");
    assert!(endless.warnings.iter().any(|w| w.message.starts_with("nothing ends this run: ")));
}

#[test]
fn what_stands_before_the_run_becomes_its_prologue() {
    let workload = with(
        "create filesets\nsystem \"sync; echo 3 > /proc/sys/vm/drop_caches\"\nsleep 2\nset $s=3\nsleep $s\n\
         create processes\nenable lathist\neventgen rate = 500\nversion\nlist fileset",
    );
    let sleep = |seconds| Step::Sleep { seconds };
    assert_eq!(workload.prologue, [Step::CreateFilesets, Step::Sync, Step::DropCaches, sleep(2), sleep(3)]);
    assert!(workload.latency_histogram);
    assert_eq!(workload.event_rate, 500);
}

#[test]
fn what_filebench_ignores_is_a_warning() {
    let workload = parse(
        "debug 1\nstats clear\nset $cached=false\n\
         define file name=f,path=/d,size=2m,prealloc,reuse,paralloc,cached=$cached\n\
         define process name=p,nice=3 { thread name=t,memsize=1m,useism,ioprio=4 {\n\
         flowop write name=w,filename=f,iosize=8k,random,dsync,directio,iters=10\n\
         flowop fsync name=s,filename=f,highwater=3\n\
         } }\nusage \"run 60\"\nrun 1",
    );
    let set = &workload.filesets[0];
    assert!(set.single_file && set.reuse && set.parallel_prealloc);
    assert_eq!((set.entries, set.prealloc_percent, set.size), (1, 100, Value::Const(2 << 20)));
    let places: Vec<_> = workload.warnings.iter().map(|w| (w.line, w.column)).collect();
    assert_eq!(places, [(1, 1), (2, 1), (4, 60), (5, 23), (5, 57), (5, 64), (7, 21), (7, 32)]);
    let Op::Write(file, io) = &flowops(&workload)[0].op else { panic!() };
    assert!(file.flags.dsync && file.flags.direct && io.random);
}

#[test]
fn old_personalities_are_still_understood() {
    let workload = parse(
        "set $dir=/tmp\nset $nfiles=1000\nset $meandirwidth=$nfiles\n\
         define fileset name=many,\n\t path=$dir,\n\t entries=$nfiles,\n\t size=500k, filesizegamma=1500,\n\
         \t dirwidth=$meandirwidth, dirgamma=0\n\
         define process name=maker { thread name=a {\n\
           flowop createfile name=c,filesetname=many,fd=1\n  flowop closefile name=x,fd=1\n\
           flowop wakeup name=wake,target=blocked\n } }\n\
         define process name=killer { thread name=b { flowop block name=blocked\n\
           flowop deletefile name=d,filesetname=many,iters=$nfiles } }\n\
         echo \"Version $Revision: 1.7 $ by $dir costs \\$5\\n\"\nrun 60",
    );
    let set = &workload.filesets[0];
    assert_eq!((set.dirwidth, set.dir_gamma), (Value::Const(1000), 0.0));
    assert_eq!(set.size.mean(&workload.randoms), 512_000.0);
    assert_eq!(workload.randoms[0].name, "many.filesizegamma");
    assert_eq!(workload.processes[0].threads[0].flowops[2].op, Op::Wakeup { target: "blocked".into() });
    assert_eq!(workload.processes[1].threads[0].flowops[1].iters, Value::Const(1000));
    assert_eq!(workload.messages, ["Version $Revision: 1.7 $ by /tmp costs $5\n"]);
    assert_eq!(workload.warnings, []);
}

#[test]
fn directories_have_the_mean_depth_that_their_width_asks_for() {
    let depth = |width: &str| {
        let text = format!(
            "define fileset name=set,path=/d,entries=8000{width}\n\
             define process name=p {{ thread name=t {{ flowop statfile name=s,filesetname=set }} }}\nrun 60"
        );
        let workload = parse(&text);
        (workload.filesets[0].mean_depth(&workload.randoms), workload.warnings.len())
    };
    let (three, warnings) = depth(",dirwidth=20"); // 20^3 = 8000
    assert!((three - 3.0).abs() < 1e-12 && warnings == 0, "{three}");
    assert_eq!(depth(",dirwidth=8000"), (1.0, 0));
    assert_eq!(depth(",dirwidth=1"), (1.0, 0));
    assert_eq!(depth(""), (1.0, 1), "no width at all deserves a warning");
}

#[test]
fn limits_and_counters_find_their_target() {
    let workload = parse(
        "define fileset name=set,path=/d,entries=9,dirwidth=20\neventgen rate=10\n\
         define process name=p { thread name=t {\n\
         flowop openfile name=o,filesetname=set,fd=1\nflowop readwholefile name=r,fd=1\nflowop closefile name=c,fd=1\n\
         flowop iopslimit name=i,target=r\nflowop bwlimit name=b,target=r\nflowop opslimit name=l,target=o\n\
         flowop finishonbytes name=f,value=1g,target=r\n} }\nrun",
    );
    let ops: Vec<_> = flowops(&workload)[3..].iter().map(|f| f.op.clone()).collect();
    assert_eq!(
        ops,
        [
            Op::IopsLimit { target: Some(1) },
            Op::BwLimit { target: Some(1) },
            Op::OpsLimit { target: Some(0) },
            Op::FinishOnBytes { value: 1 << 30, target: Some(1) },
        ]
    );
    let counted: Vec<_> = flowops(&workload).iter().map(|f| f.op.counts()).collect();
    assert_eq!(counted, [true, true, true, false, false, false, false]);
}

/// The warnings of a thread with these flowops, as `line: text`.
fn warnings_of(flowops: &str) -> Vec<String> {
    let workload = parse(&format!(
        "define fileset name=set,path=/d,size=1m,entries=9,dirwidth=20\n\
         define process name=p {{ thread name=t {{\n{flowops}\n}} }}\nrun 60"
    ));
    workload.warnings.iter().map(|w| format!("{}: {}", w.line, w.message)).collect()
}

/// How a file is open was decided when it was opened.
#[test]
fn dsync_and_directio_on_an_open_file_are_warned_of() {
    let open = "flowop openfile name=o,filesetname=set,fd=1";
    let close = "flowop closefile name=c,fd=1";
    let write = "flowop write name=w,iosize=4k,fd=1";
    for attribute in ["dsync", "directio"] {
        let no_effect = format!(
            "4: `{attribute}` has no effect here: fd 1 is open already, by `o` (line 3): give it there"
        );
        let on = |line: &str| format!("{line},{attribute}");
        assert_eq!(warnings_of(&format!("{open}\n{}\n{close}", on(write))), std::slice::from_ref(&no_effect));
        // A fileset changes nothing where the descriptor is open.
        assert_eq!(warnings_of(&format!("{open}\n{},filesetname=set\n{close}", on(write))), [no_effect]);
        // It was opened so.
        assert!(warnings_of(&format!("{}\n{}\n{close}", on(open), on(write))).is_empty());
        // It opens the file itself, and another one after the close.
        let by_name = "flowop write name=v,filesetname=set,iosize=4k,fd=1";
        assert!(warnings_of(&format!("{open}\n{close}\n{}\n{close}", on(by_name))).is_empty());
        assert!(warnings_of(&on("flowop write name=v,filesetname=set,iosize=4k")).is_empty());
        // An asynchronous writer opens the file with what its flowop says.
        let aio = "flowop aiowrite name=a,iosize=4k,fd=1,random";
        assert!(warnings_of(&format!("{open}\n{}\n{close}", on(aio))).is_empty());
    }
}

#[test]
fn direct_io_that_linux_would_refuse_is_warned_of() {
    let read =
        |size: &str| warnings_of(&format!("flowop read name=r,filesetname=set,iosize={size},directio"));
    assert_eq!(
        read("1000"),
        [
            "3: an I/O of 1000 bytes with `directio`: on Linux block file systems refuse what is no multiple of 512; here \
             they read and write the pages around it"
        ]
    );
    assert!(read("1536").is_empty() && read("4k").is_empty());
    // The warning depends on the flags with which the file was opened.
    let on = |opens: &str, reads: &str| {
        warnings_of(&format!(
            "flowop openfile name=o,filesetname=set,fd=1{opens}\nflowop read name=r,iosize=100,fd=1{reads}"
        ))
    };
    let [warning] = &on(",directio", "")[..] else { panic!("one warning") };
    assert!(warning.starts_with("4: an I/O of 100 bytes"), "{warning}");
    let [warning] = &on("", ",directio")[..] else { panic!("one warning") };
    assert!(warning.starts_with("4: `directio` has no effect"), "{warning}");
}

#[test]
fn a_tree_to_trust_is_warned_of() {
    let workload = parse(
        "define fileset name=set,path=/d,size=1m,entries=9,dirwidth=20,\n  trusttree\n\
         define fileset name=other,path=/d,size=1m,entries=9,dirwidth=20,trusttree=false\n\
         define process name=p { thread name=t { flowop statfile name=s,filesetname=set } }\nrun 60",
    );
    let [warning] = &workload.warnings[..] else { panic!("{:?}", workload.warnings) };
    assert_eq!(warning.line, 2);
    assert!(warning.message.contains("each run makes a drive of its own"), "{}", warning.message);
}
