//! Every mistake is found at its place, and the message says what to do.

use granary_workload::{Diagnostic, Error, Workload};

fn diagnostic(text: &str) -> Diagnostic {
    match Workload::parse("bad.f", text, &[]) {
        Err(Error::Script(diagnostic)) => *diagnostic,
        other => panic!("{text}\ngave {other:?}"),
    }
}

/// A mistake, marked by `«` before it (which is not part of the file), what is said, and what is advised.
type Case = (&'static str, &'static str, &'static str);

fn check(cases: &[Case], before: &str, after: &str) {
    for &(marked, message, help) in cases {
        let text = format!("{before}{marked}{after}");
        let at = text.find('«').unwrap_or_else(|| panic!("no mark in {marked}"));
        let line = text[..at].matches('\n').count() as u32 + 1;
        let column = text[..at].rsplit('\n').next().unwrap_or("").chars().count() as u32 + 1;
        let found = diagnostic(&text.replace('«', ""));
        let shown = format!("{found}");
        assert_eq!((found.line, found.column), (line, column), "{shown}");
        assert!(found.message.contains(message), "wanted `{message}` in\n{shown}");
        assert!(found.help.contains(help), "wanted the help `{help}` in\n{shown}");
    }
}

#[test]
fn words_that_are_no_commands() {
    check(
        &[
            ("«defin fileset name=x", "there is no command `defin`", "did you mean `define`?"),
            ("\n\n  «Run 60", "there is no command `Run`", "did you mean `run`?"),
            ("«blah", "there is no command `blah`", "a comment begins with `#`"),
            ("define fileset name=x,path=/d «entries=5", "`entries` is an attribute", "is there one missing"),
            ("«60", "a command is expected here, but there is `60`", "commands begin with a word"),
            ("«foreach $x in 1,2", "`foreach` is not supported", "overriding the variable"),
            ("«domultisync value=1", "`domultisync` is not supported", "one client"),
            ("define «thread name=x", "threads are defined inside their process", "define process"),
            ("define «filset name=x", "a `filset` cannot be defined", "did you mean `fileset`?"),
            ("define«", "what to define is expected here, but the file ends", "`define` makes"),
            ("set «nfiles=5", "a variable is expected here, but there is `nfiles`", "`set $nfiles=...`"),
            ("set $x «5", "`=` is expected here", "`set $x=value`"),
            ("set $x=«", "a value is expected here, but the file ends", "a value is a number"),
            ("set $x«.mean=5", "single parameters", "set the whole variable"),
            ("set mode quit «never", "`alldone`, `firstdone` or `timeout` is expected", "the modes are"),
            ("set mode «fast", "a mode is expected", "the modes are"),
            ("create «chaos", "`files`, `filesets` or `processes` is expected", "create filesets"),
            ("enable «multi master=a", "`enable multi` is not supported", "one client"),
            ("echo «hello", "a message is expected here", "echo \"...\""),
            ("sleep «", "the seconds to sleep is expected", "sleep 5"),
            ("system «\"rm -rf /\"", "`system` cannot run `rm -rf /`", "virtual time"),
            ("stats «flush", "is expected here", "`stats` has no effect"),
        ],
        "",
        "",
    );
}

#[test]
fn numbers_strings_and_characters() {
    check(
        &[
            ("run «60s", "`60s` is not a number", "the suffixes are k, m and g"),
            ("set $x=«1t", "`1t` is not a number", "the suffixes are"),
            ("set $x=«1.5", "`1.5` is not a number", "thousandths"),
            ("set $x=«99999999999999999999", "too large a number", "numbers go up to"),
            ("set $x=«9999999999g", "too large a number", "numbers go up to"),
            ("set $x=«4files", "`4files` is not a number", "a name starts with a letter"),
            ("echo «\"open", "this string never ends", "close it"),
            ("set $x=«'a'", "unexpected character", "straight double quotes"),
            ("set «$=5", "a `$` without a variable's name", "write `$name`"),
            ("set $d=«$(HOME)", "environment variables are not read", "override it"),
            ("set $d=«${date}", "internal variables", "without braces"),
        ],
        "",
        "",
    );
    // `;` belongs to words, as in `mean:1;gamma:2`; alone it is a stray character.
    check(&[("run 5 «;", "unexpected character `;`", "there is no `;`")], "", "");
}

#[test]
fn variables_and_arithmetic() {
    check(
        &[
            (
                "set $nfiles=5\nset $x=«$nfile",
                "the variable `$nfile` is never set",
                "did you mean `$nfiles`?",
            ),
            ("set $x=«$nothing", "the variable `$nothing` is never set", "set it first"),
            (
                "set $a=word\nset $x=«$a * 2",
                "arithmetic needs numbers, but this is the text `word`",
                "whole number",
            ),
            ("set $x=«1 - 2", "the difference is below zero", "the operands are 1 and 2"),
            ("set $x=«8 / 0", "divides by zero", "8 and 0"),
            ("set $x=«9223372036854775807 * 2", "the product is too large", "operands"),
            ("set $x=1 + 2 «+ 3", "the end of the command is expected", "one operator"),
            ("set $x=«-5", "the value -5 is below zero", "psrun"),
            ("run «$t", "the variable `$t` is never set", "set it first"),
            ("set $t=soon\nrun «$t", "seconds are a whole number", "run 60"),
            ("run «9000000000", "9000000000 seconds are too long", "at most"),
            ("system «\"echo $oops\"", "the variable `$oops` is never set", "set it first"),
        ],
        "",
        "",
    );
}

#[test]
fn random_variables() {
    check(
        &[
            ("set $x=«rnd(type=gamma)", "`rnd` makes no value", "randvar(type=...)"),
            (
                "set $x=randvar(type=«unform,mean=1)",
                "there is no `randvar` of type `unform`",
                "did you mean `uniform`?",
            ),
            ("set $x=randvar(type=«uniform)", "needs a `mean`", "add `mean=...`"),
            ("set $x=randvar(type=«tabular)", "needs a `randtable`", "randtable"),
            ("set $x=randvar(mean=1k,min=«2k)", "the mean 1024 is below the minimum 2048", "larger `mean`"),
            ("set $x=randvar(mean=1k,gamma=«0)", "`gamma` cannot be 0", "from 1"),
            ("set $x=randvar(«maen=1k)", "a `randvar` has no attribute `maen`", "did you mean `mean`?"),
            ("set $x=randvar(type=gamma,mean=1,«mean=2)", "`mean` is given twice", "it was given at 1:27"),
            ("set $x=randvar(type=gamma «mean=1)", "`,` or `)` is expected", "still open"),
            ("set $x=randvar(randtable=«{{50,1,2}})", "the percentages add up to 50", "100"),
            ("set $x=randvar(randtable={{100,«2,1}})", "the wrong way round", "{percent, lower, upper}"),
            ("set $x=randvar(randtable={{100,2«}})", "`,` is expected", "a table is written"),
            ("set $x=randvar(randtable={{«101,1,2}})", "101 is not a percentage", "0 to 100"),
            ("set $x=randvar(type=gamma,«randtable=5)", "only a tabular", "tabular"),
            (
                "set $x=cvar(type=«cvar-gama)",
                "there is no `cvar` of type `cvar-gama`",
                "did you mean `cvar-gamma`?",
            ),
            ("set $x=«cvar(parameters=mean:5)", "needs the attribute `type`", "add `type=...`"),
            (
                "set $x=cvar(type=cvar-gamma,parameters=«maen:5)",
                "no parameter `maen`",
                "did you mean `mean`?",
            ),
            ("set $x=cvar(type=cvar-gamma,parameters=«mean:16k)", "`16k` is not a number", "k, m and g"),
            ("set $x=cvar(type=cvar-gamma,parameters=«mean:nan)", "`nan` is not a number", "plain number"),
            ("set $x=cvar(type=cvar-gamma,parameters=«mean:1;mean:2)", "`mean` is given twice", "remove"),
            ("set $x=cvar(type=cvar-gamma,parameters=«mean)", "`mean` is not a parameter", "key:number"),
            ("set $x=cvar(type=cvar-gamma,parameters=«mean:5;gamma:0)", "`gamma` must be above 0", "larger"),
            (
                "set $x=cvar(type=cvar-uniform,parameters=«lower:5;upper:1)",
                "`lower` is above `upper`",
                "swap",
            ),
            ("set $x=cvar(type=cvar-triangular,parameters=«mode:7)", "`mode` is not between", "move"),
            ("set $x=cvar(type=cvar-uniform,min=«5,max=1)", "minimum 5 is above the maximum 1", "swap"),
            ("define randvar name=«x,type=gamma", "named like a variable", "name=$variable"),
        ],
        "",
        "",
    );
}

const SET: &str = "define fileset name=set,path=/data,entries=100,dirwidth=20\n";

#[test]
fn filesets() {
    let after = "\ndefine process name=p { thread name=t { flowop statfile name=s,filesetname=set } }\nrun";
    check(
        &[
            ("define «fileset path=/d,entries=5,dirwidth=20", "needs the attribute `name`", "add `name=...`"),
            (
                "define «fileset name=set,entries=5,dirwidth=20",
                "needs the attribute `path`",
                "add `path=...`",
            ),
            ("define «fileset name=set,path=/d,dirwidth=20", "the fileset `set` is empty", "entries"),
            ("define fileset name=set,path=/d,«entires=5,dirwidth=20", "no attribute `entires`", "`entries`"),
            (
                "define fileset name=set,path=/d,entries=«many,dirwidth=20",
                "needs a whole number, but this is the text `many`",
                "`$`",
            ),
            (
                "define fileset name=set,path=/d,«entries,dirwidth=20",
                "`entries` needs a value",
                "entries=...",
            ),
            (
                "define fileset name=set,path=/d,entries=«9999999999,dirwidth=20",
                "cannot be 9999999999",
                "from 0",
            ),
            (
                "define fileset name=set,path=/d,entries=5,dirwidth=20,prealloc=«120",
                "cannot be 120",
                "0 to 100",
            ),
            (
                "define fileset name=set,path=/d,entries=5,dirwidth=20,reuse=«maybe",
                "needs `true` or `false`",
                "`$`",
            ),
            (
                "define fileset name=set,path=/d,entries=5,dirwidth=20,readonly,«writeonly",
                "read-only and write-only",
                "remove",
            ),
            (
                "define fileset name=set,path=/d,size=1,entries=5,dirwidth=20,«filesize=2",
                "`filesize` is given twice",
                "it was given at 1:33",
            ),
            (
                "define fileset name=set,path=/d,entries=5,dirwidth=20,dirdepthrv=«3",
                "needs a random variable",
                "dirgamma=0",
            ),
            (
                "define fileset name=«a/b,path=/d,entries=5,dirwidth=20",
                "becomes a directory's name",
                "`path`",
            ),
            (
                "define fileset name=set,path=/d,«$entries=5,dirwidth=20",
                "a fileset has no variables",
                "without `$`",
            ),
            (
                "define fileset name=set,path=/d,«,dirwidth=20",
                "an attribute is expected here, but there is `,`",
                "name=value",
            ),
            (
                "set $r=randvar(mean=5)\ndefine fileset name=set,path=/d,entries=«$r,dirwidth=20",
                "but this is a random variable",
                "cannot be used here",
            ),
            (
                "define fileset name=set,path=/d,entries=5,dirwidth=20\ndefine file name=«set,path=/d",
                "defined twice",
                "another name",
            ),
        ],
        "",
        after,
    );
    let long = format!("define fileset name={},path=/d,entries=1,dirwidth=20{after}", "n".repeat(200));
    assert!(diagnostic(&long).message.contains("a name has 1 to 127 bytes"));
}

#[test]
fn processes_and_threads() {
    check(
        &[
            (
                "define process name=p {«",
                "`}` is expected here, but the file ends",
                "the `{` at 2:23 has no `}`",
            ),
            (
                "define «process instances=2 { thread name=t { flowop statfile name=s,filesetname=set } }",
                "needs the attribute `name`",
                "name",
            ),
            (
                "define process name=p «thread name=t",
                "`{` is expected here, but there is `thread`",
                "stand between",
            ),
            ("define process name=p {«}", "a `thread` is expected", "at least one thread"),
            ("define process name=p { thread name=t {«} }", "a `flowop` is expected", "at least one flowop"),
            (
                "define process name=p { thread name=t { «read name=r } }",
                "`flowop` or `}` is expected",
                "holds flowops",
            ),
            (
                "define process name=p { thread name=t «instances=5 { } }",
                "`{` is expected",
                "is there one missing before `instances`?",
            ),
            (
                "define process name=p { thread name=t,«intances=5 { flowop statfile name=s,filesetname=set } }",
                "a thread has no attribute `intances`",
                "`instances`",
            ),
            (
                "define process name=p { thread name=t,instances=«70000 { flowop statfile name=s,filesetname=set } }",
                "cannot be 70000",
                "65536",
            ),
            (
                "define process name=p { thread name=t { flowop statfile name=s,filesetname=set }«",
                "`}` is expected here, but the file ends",
                "the `{` at 2:23 has no `}`",
            ),
            (
                "define process name=p { thread name=t { flowop statfile name=s,filesetname=set«",
                "`}` is expected here, but the file ends",
                "the `{` at 2:39 has no `}`",
            ),
            (
                "«define process name=p,instances=60000 { thread name=t,instances=2 { flowop statfile name=s,filesetname=set } }",
                "more than 65536 threads",
                "fewer",
            ),
        ],
        SET,
        "",
    );
    let none = diagnostic(&format!("{SET}run"));
    assert!(none.message.contains("no thread"), "{none}");
}

#[test]
fn flowops() {
    let before = format!(
        "{SET}define process name=p {{ thread name=t {{\nflowop openfile name=o,filesetname=set,fd=1\n"
    );
    check(
        &[
            ("flowop «opnfile name=x", "there is no flowop `opnfile`", "did you mean `openfile`?"),
            ("flowop «frobnicate name=x", "there is no flowop `frobnicate`", "the flowops are `createfile`"),
            ("flowop «createfile filesetname=set,fd=2", "needs the attribute `name`", "name"),
            (
                "flowop «createfile name=c,fd=2",
                "the flowop `createfile` needs the attribute `filesetname`",
                "add",
            ),
            ("flowop «read name=r,fd=1", "the flowop `read` needs the attribute `iosize`", "iosize"),
            ("flowop read name=r,fd=1,«iosise=4k", "no attribute `iosise`", "did you mean `iosize`?"),
            ("flowop read name=r,fd=1,iosize=«0", "transfers nothing", "iosize=4k"),
            ("flowop read name=r,fd=1,iosize=4k,«fd=2", "`fd` is given twice", "it was given at 4:20"),
            ("flowop read name=r,fd=1,iosize=«big", "needs a number, but this is the text `big`", "`$`"),
            ("flowop read name=r,fd=«5000,iosize=4k", "`fd` cannot be 5000", "0 to 1023"),
            (
                "flowop read name=r,fd=«2,iosize=4k",
                "nothing in this thread opens a file on descriptor 2",
                "did you mean `fd=1`?",
            ),
            ("flowop «fsync name=s", "opens a file on descriptor 0", "fd=1"),
            ("flowop writewholefile name=w,fd=1,srcfd=«3", "opens a file on descriptor 3", "fd=1"),
            ("flowop statfile name=s,filesetname=«sett", "there is no fileset `sett`", "did you mean `set`?"),
            (
                "flowop statfile name=s,filesetname=«other",
                "there is no fileset `other`",
                "the filesets are `set`",
            ),
            (
                "flowop «aiowrite name=a,filesetname=set,iosize=4k",
                "needs the attribute `random`",
                "add `random`",
            ),
            (
                "flowop aiowrite name=a,filesetname=set,iosize=4k,random=«false",
                "random offsets only",
                "use `write`",
            ),
            (
                "flowop read name=r,fd=1,iosize=8k,random,workingset=«4k",
                "working set of 4096 bytes is smaller",
                "larger",
            ),
            ("flowop «sempost name=s,value=1", "needs the attribute `target`", "target"),
            (
                "flowop sempost name=s,value=1,target=«nobody",
                "there is no flowop named `nobody`",
                "`semblock`",
            ),
            (
                "flowop sempost name=s,value=1,target=«o",
                "the flowop `o` is no `semblock`",
                "of type `semblock`",
            ),
            (
                "flowop semblock name=lock,value=1\nflowop sempost name=s,value=1,target=«lokc",
                "no flowop named `lokc`",
                "did you mean `lock`?",
            ),
            ("flowop opslimit name=l,target=«oo", "no flowop named `oo` in this thread", "did you mean `o`?"),
            ("flowop bwlimit name=l,target=«o", "`o` reads and writes nothing", "reads or writes"),
            ("flowop finishoncount name=f,value=«lots", "needs a whole number", "`$`"),
            ("flowop closefile name=c,fd=1,«$x=1", "has no variables", "define flowop"),
            (
                "flowop closefile name=c «fd=1",
                "`flowop` or `}` is expected",
                "is there one missing before `fd`?",
            ),
            ("flowop closefile name=c,fd=1«;", "unexpected character `;`", "there is no `;`"),
            ("flowop read name=«\"\",fd=1,iosize=1", "a name has 1 to 127 bytes", "choose another"),
        ],
        &before,
        "\n} }\nrun",
    );
}

#[test]
fn composite_flowops() {
    let after = "\ndefine process name=p { thread name=t { flowop statfile name=s,filesetname=set } }\nrun";
    let body = "{ flowop statfile name=s,filesetname=$set }";
    let cases = [
        (format!("define «flowop $set {body}"), "needs the attribute `name`", "name"),
        (format!("define flowop name=«read,$set {body}"), "is a flowop of the language", "another name"),
        (
            format!("define flowop name=a,$set {body}\ndefine flowop name=«a,$set {body}"),
            "is defined twice",
            "another",
        ),
        ("define flowop name=a { flowop «a name=x }".to_owned(), "there is no flowop `a`", "the flowops are"),
        (
            "define flowop name=a { flowop statfile name=x,«fielset=set }".to_owned(),
            "no attribute `fielset`",
            "its attributes are",
        ),
        (
            format!("define flowop name=a,«target=x,$set {body}"),
            "no attribute `target`",
            "`name` and `iters`",
        ),
        (
            format!(
                "define flowop name=a,$set {body}\ndefine flowop name=b {{ flowop a name=x,«$sett=set }}"
            ),
            "has no variable `$sett`",
            "did you mean `$set`?",
        ),
        (
            format!("define flowop name=a,$set {body}\ndefine flowop name=b {{ flowop a name=x,«$set }}"),
            "needs a value where the flowop is used",
            "$set=...",
        ),
        (format!("define flowop name=«$x,$set {body}"), "named by a plain word", "name=word"),
        (
            "define flowop name=a,$set { flowop statfile name=s,filesetname=«$set }\n\
             define process name=q { thread name=t { flowop a name=x } }"
                .to_owned(),
            "`$set` of the flowop `a` has no value here",
            "pass one where it is used",
        ),
    ];
    for (marked, message, help) in cases {
        let leaked: &'static str = Box::leak(marked.into_boxed_str());
        check(&[(leaked, message, help)], SET, after);
    }
}

#[test]
fn nesting_and_expansion_are_bounded() {
    let mut text = String::from(SET);
    text.push_str("define flowop name=c0 { flowop statfile name=s,filesetname=set }\n");
    for level in 1..=10 {
        let inner = level - 1;
        text.push_str(&format!(
            "define flowop name=c{level} {{ flowop c{inner} name=a flowop c{inner} name=b }}\n"
        ));
    }
    let using = |level: usize| {
        format!("{text}define process name=p {{ thread name=t {{ flowop c{level} name=x }} }}\nrun")
    };
    assert!(Workload::parse("deep.f", &using(7), &[]).is_ok());
    assert!(diagnostic(&using(9)).message.contains("nested more than 8 deep"));

    let wide = "flowop c7 name=y\n".repeat(200);
    let wide = format!("{text}define process name=p {{ thread name=t {{ {wide} }} }}\nrun");
    assert!(diagnostic(&wide).message.contains("more than 16384 flowops"));

    let attributes = format!("define fileset {}name=x", "a=1,".repeat(100));
    assert!(diagnostic(&attributes).help.contains("there can be 64"));

    let long = format!("# {}", "x".repeat(1 << 20));
    assert!(diagnostic(&long).message.contains("at most 1048576 bytes"));
    let doubling: String = (1..40).map(|i| format!("set $a{i}=\"$a{0}$a{0}\"\n", i - 1)).collect();
    assert!(diagnostic(&format!("set $a0=xy\n{doubling}")).message.contains("at most 4096 bytes"));
}

#[test]
fn an_error_is_shown_with_its_line_and_a_caret() {
    let text = "# mine\nset $n=5\ndefine fileset name=set,path=/d,entires=$n,dirwidth=20\n";
    assert_eq!(
        diagnostic(text).to_string(),
        "bad.f:3:33: a fileset has no attribute `entires`\n\
         \x20 |\n\
         3 | define fileset name=set,path=/d,entires=$n,dirwidth=20\n\
         \x20 |                                 ^^^^^^^\n\
         \x20 = help: did you mean `entries`?"
    );
}

#[test]
fn a_file_that_is_no_utf8_is_refused_at_its_first_wrong_byte() {
    let parse = |bytes: &[u8]| Workload::parse_bytes("bad.f", bytes, &[]);
    let Err(Error::Script(found)) = parse(b"set $a=1\nset $b=\"gr\xc3\xbc\xdfe\"\nrun\n") else {
        panic!("refused")
    };
    assert_eq!((found.line, found.column), (2, 12), "{found}");
    assert!(found.message.contains("0xdf is no UTF-8") && found.help.contains("iconv"), "{found}");
    assert_eq!(found.source_line, "set $b=\"gr\u{fc}\u{fffd}e\"");
    let Err(Error::Script(found)) = parse(&[0xff]) else { panic!("refused") };
    assert_eq!((found.line, found.column), (1, 1));
    // A byte order mark is none.
    let Err(Error::Script(found)) = parse(b"\xef\xbb\xbfdefin") else { panic!("refused") };
    assert!(found.message.contains("`defin`"), "{found}");
}
