//! HTML: one page with everything in it (no scripts, no fonts, nothing to load), for mail and the web.
//!
//! ```text
//!   per workload:  bars (inline SVG)   operations per second, what went over the link, what the flash
//!                                      programmed
//!                  tables              the figures, the latencies of each flowop
//!                  warnings            what limits how far the numbers can be trusted
//! ```
//!
//! On a narrow screen a row's cells stand below each other, each with its file system: the page scrolls
//! nowhere sideways.
//!
//! Two equal sets of records give equal pages: no date is in them. All text is escaped.

mod bars;

use crate::record::{OpType, Record};
use bars::{Row, bars};
use granary_bench::columns::group;
use granary_bench::traffic::Host;
use granary_units::{Bytes, Nanos, PAGE_SIZE};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const STYLE: &str = "
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.5em}h2{font-size:1.25em;margin:2em 0 .2em;border-top:1px solid #ccc;padding-top:1em}
p.of{color:#555;margin:.2em 0}figure{margin:1.2em 0}figcaption,caption{font-weight:600;text-align:left;margin-bottom:.3em}
p.key{margin:.3em 0}p.key span{white-space:nowrap;margin-right:1em}p.key i{display:inline-block;width:.8em;height:.8em}
svg{width:100%;max-width:720px;display:block}svg text{font:13px system-ui,sans-serif;fill:#222}
table{border-collapse:collapse;margin:1.2em 0;font-variant-numeric:tabular-nums}
th,td{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:right;font-weight:400}
th,th.prose,.prose{text-align:left}thead th{font-weight:600;border-bottom:2px solid #999}thead th+th{text-align:right}thead th.prose{text-align:left}
td.prose{min-width:12em}.prose{text-align:left}
li,h1,h2,p{overflow-wrap:anywhere}
@media(max-width:48em){
body{margin:1em auto}svg{width:100%}svg text{font-size:19px}
table,tbody,tr,th,td,caption{display:block}thead{display:none}
tr{border-bottom:1px solid #999;padding:.3em 0}th,td{border:0;padding:.1em 0;overflow-wrap:anywhere}
tbody th{font-weight:600}td{display:flex;justify-content:space-between;gap:1em}td::before{content:attr(data-of);color:#555}
td.prose{display:block}td.prose::before{display:block}td.prose:empty{display:none}
}
li{margin:.2em 0}footer{color:#555;margin-top:3em;border-top:1px solid #ccc}
";

/// The page.
pub fn html(records: &[Record]) -> String {
    let mut workloads: Vec<&str> = Vec::new();
    for record in records {
        if !workloads.contains(&record.workload.as_str()) {
            workloads.push(&record.workload);
        }
    }
    html_with(&format!("Granary: {}", workloads.join(", ")), "", records)
}

/// The page with this title, and `first` before the runs.
pub fn html_with(title: &str, first: &str, records: &[Record]) -> String {
    let mut workloads: Vec<&str> = Vec::new();
    for record in records {
        if !workloads.contains(&record.workload.as_str()) {
            workloads.push(&record.workload);
        }
    }
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        escape(title)
    );
    out += first;
    for workload in workloads {
        let runs: Vec<&Record> = records.iter().filter(|r| r.workload == workload).collect();
        section(&mut out, &runs);
    }
    if let Some(first) = records.first() {
        let _ = writeln!(
            out,
            "<footer><p>granary {}, commit {}. What each number means: docs/RESULTS.md.</p></footer>",
            escape(&first.granary),
            escape(&first.commit)
        );
    }
    out += "</body>\n</html>\n";
    out
}

fn section(out: &mut String, runs: &[&Record]) {
    let first = runs[0];
    let of =
        [&first.set, &first.vars].into_iter().flatten().map(|said| format!(", {said}")).collect::<String>();
    let _ = writeln!(
        out,
        "<section>\n<h2>{}</h2>\n<p class=\"of\">scale {} on {}: {} threads, seed {}{}</p>",
        escape(&first.workload),
        first.scale,
        escape(&first.testbed),
        first.threads,
        first.seed,
        escape(&of)
    );
    let size = |v: f64| Bytes(v as u64).to_string();
    let rows = |values: &dyn Fn(&Record) -> Vec<f64>| -> Vec<Row> {
        runs.iter().map(|r| Row { name: r.fs.clone(), parts: values(r) }).collect()
    };
    let per_s = |v: f64| group(v.round() as u64);
    *out += &bars("Operations per second", &[""], &rows(&|r| vec![r.ops.per_s]), &per_s);
    let written = rows(&|r| sum(&link(&r.host, true), &link(&r.drain.host, true)));
    *out += &bars("Written over the host link, drain included", &LINK, &written, &size);
    *out += &bars("Read over the host link", &LINK, &rows(&|r| link(&r.host, false)), &size);
    let causes: BTreeSet<&str> = runs
        .iter()
        .flat_map(|r| r.flash.program_pages.keys().chain(r.drain.flash.program_pages.keys()))
        .map(String::as_str)
        .collect();
    let causes: Vec<&str> = causes.into_iter().collect();
    let programmed = |r: &Record| {
        let pages = |cause: &&str| {
            let of = |m: &std::collections::BTreeMap<String, u64>| m.get(*cause).copied().unwrap_or(0);
            ((of(&r.flash.program_pages) + of(&r.drain.flash.program_pages)) * PAGE_SIZE as u64) as f64
        };
        causes.iter().map(pages).collect()
    };
    *out += &bars("Programmed into flash, drain included", &causes, &rows(&programmed), &size);
    figures(out, runs);
    latencies(out, runs);
    let warnings: BTreeSet<&str> = runs.iter().flat_map(|r| &r.warnings).map(String::as_str).collect();
    if !warnings.is_empty() {
        *out += "<p>Warnings</p>\n<ul>\n";
        for warning in warnings {
            let on: Vec<&str> = runs
                .iter()
                .filter(|r| r.warnings.iter().any(|w| w == warning))
                .map(|r| r.fs.as_str())
                .collect();
            let _ = writeln!(out, "<li>{}: {}</li>", escape(&on.join(", ")), escape(warning));
        }
        *out += "</ul>\n";
    }
    *out += "</section>\n";
}

/// The parts of what goes over the link.
const LINK: [&str; 4] = ["metadata, byte", "metadata, block", "data, byte", "data, block"];

fn link(host: &Host, written: bool) -> Vec<f64> {
    let of = |data: bool, block: bool| {
        let interface = if block { &host.block } else { &host.byte };
        let map = if written { &interface.write_bytes } else { &interface.read_bytes };
        map.iter().filter(|(what, _)| (*what == "data") == data).map(|(_, bytes)| *bytes as f64).sum()
    };
    vec![of(false, false), of(false, true), of(true, false), of(true, true)]
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// The name of a figure, and a function that shows it.
type Figure = (&'static str, fn(&Record) -> String);

const FIGURES: [Figure; 9] = [
    ("operations", |r| group(r.ops.total)),
    ("operations per second", |r| group(r.ops.per_s.round() as u64)),
    ("virtual time", |r| format!("{:.3} s", r.virtual_s)),
    ("ended by", |r| r.ended_by.clone()),
    ("application wrote", |r| Bytes(r.app.write_bytes).to_string()),
    ("application read", |r| Bytes(r.app.read_bytes).to_string()),
    ("write amplification (host/app)", |r| factor(r.amplification.write)),
    ("read amplification (host/app)", |r| factor(r.amplification.read)),
    ("blocks erased", |r| group(r.flash.erases)),
];

fn factor(v: Option<f64>) -> String {
    v.map_or("-".to_owned(), |v| format!("{v:.2}x"))
}

fn figures(out: &mut String, runs: &[&Record]) {
    head(out, "Figures", "", runs);
    for (name, show) in FIGURES {
        row(out, name, runs, show);
    }
    *out += "</tbody>\n</table>\n";
}

fn latencies(out: &mut String, runs: &[&Record]) {
    let names: BTreeSet<&String> = runs.iter().flat_map(|r| r.ops.by_type.keys()).collect();
    if names.is_empty() {
        return;
    }
    head(out, "Latency: mean / p95 / p99 (in brackets: not counted as an operation)", "flowop", runs);
    for name in names {
        let counted = runs.iter().filter_map(|r| r.ops.by_type.get(name)).any(|op| op.counted);
        let shown = if counted { name.clone() } else { format!("({name})") };
        row(out, &shown, runs, |r| r.ops.by_type.get(name).map_or("-".to_owned(), latency));
    }
    *out += "</tbody>\n</table>\n";
}

fn latency(op: &OpType) -> String {
    if op.count == 0 {
        return "-".to_owned();
    }
    format!("{} / {} / {}", Nanos(op.mean_ns), Nanos(op.p95_ns), Nanos(op.p99_ns))
}

fn head(out: &mut String, caption: &str, first: &str, runs: &[&Record]) {
    let columns: String = runs.iter().map(|r| format!("<th scope=\"col\">{}</th>", escape(&r.fs))).collect();
    let _ = writeln!(
        out,
        "<table>\n<caption>{}</caption>\n<thead><tr><th scope=\"col\">{}</th>{columns}</tr></thead>\n<tbody>",
        escape(caption),
        escape(first)
    );
}

/// A row, whose cells say what they are of: on a narrow screen they stand below each other.
fn row(out: &mut String, name: &str, runs: &[&Record], show: impl Fn(&Record) -> String) {
    let cell = |r: &&Record| format!("<td data-of=\"{}\">{}</td>", escape(&r.fs), escape(&show(r)));
    let cells: String = runs.iter().map(cell).collect();
    let _ = writeln!(out, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escape(name));
}

/// Text as HTML shows it as it is.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(workload: &str, fs: &str) -> Record {
        let mut r = Record { workload: workload.to_owned(), fs: fs.to_owned(), ..Record::default() };
        r.ops.per_s = 12_345.0;
        r.ops.by_type.insert("read1".to_owned(), OpType { count: 3, mean_ns: 1500, ..OpType::default() });
        r.host.byte.write_bytes.insert("inode".to_owned(), 64);
        r.drain.host.block.write_bytes.insert("data".to_owned(), 8192);
        r.drain.flash.program_pages.insert("log_cleaning".to_owned(), 2);
        r.warnings.push("too short".to_owned());
        r
    }

    /// Every tag that is opened is closed again, in order.
    fn assert_balanced(page: &str) {
        let mut open = Vec::new();
        for tag in page.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').expect("a tag ends");
            let name = tag.split([' ', '/', '\n']).find(|part| !part.is_empty()).unwrap_or("");
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "{page}");
            } else if !tag.ends_with('/') && !["!doctype", "meta"].contains(&name) {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn a_page_holds_all_runs_and_loads_nothing() {
        let page = html(&[run("varmail", "bytefs"), run("varmail", "ext4"), run("oltp", "ext4")]);
        assert_balanced(&page);
        assert_eq!(page.matches("<section>").count(), 2);
        assert_eq!(page.matches("<svg").count(), 2 * 3, "nothing was read: three charts each");
        assert!(
            page.contains("12,345") && page.contains("(read1)") && page.contains("1.5us / 0ns"),
            "{page}"
        );
        assert!(page.contains("<li>bytefs, ext4: too short</li>"), "{page}");
        for outside in ["http", "src=", "url(", "<script", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_balanced(&html(&[]));
    }

    #[test]
    fn text_of_files_is_shown_as_it_is() {
        let mut r = run("<b>\"a\" & 'b'</b>.f", "bytefs");
        r.vars.push("x=<i>".to_owned());
        r.warnings.push("</section>".to_owned());
        let page = html(&[r]);
        assert_balanced(&page);
        assert!(page.contains("&lt;b&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/b&gt;.f"), "{page}");
    }
}
