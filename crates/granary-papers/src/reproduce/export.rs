//! The statements as CSV, JSON and a page.

use super::claim::Judged;
use super::study::Results;
use super::table::summary;
use super::verdict::Ours;
use granary_lab::report::{escape, html_with, json_line};
use serde_json::{Value, json};
use std::fmt::Write as _;

fn row(j: &Judged) -> [String; 12] {
    let number = |v: Option<f64>| v.map_or_else(String::new, |v| format!("{v:.4}"));
    [
        j.figure.to_owned(),
        j.on.to_owned(),
        j.what.to_owned(),
        j.paper.text(),
        j.ours.map_or_else(String::new, |v| v.text(4)),
        number(j.ratio()),
        j.class().word().to_owned(),
        j.reason(),
        j.name.clone(),
        j.stat.word().to_owned(),
        j.set.to_owned(),
        j.scale_text(),
    ]
}

const COLUMNS: [&str; 12] =
    ["figure", "on", "what", "paper", "ours", "ours/paper", "class", "why", "row", "number", "set", "scale"];

/// Columns of words, which are read from the left.
const PROSE: [&str; 5] = ["on", "what", "class", "why", "set"];

/// One row per statement, the header first.
pub fn claims_csv(judged: &[Judged]) -> String {
    let mut out = ::csv::Writer::from_writer(Vec::new());
    out.write_record(COLUMNS).expect("memory takes it");
    for j in judged {
        out.write_record(row(j)).expect("all rows have the columns");
    }
    String::from_utf8(out.into_inner().expect("memory takes it")).expect("made of text")
}

/// `{"claims": [...], "alone": {...}, "runs": [{"setting": ..., "record": ...}]}`.
pub fn claims_json(judged: &[Judged], results: &Results) -> String {
    let claims: Vec<Value> = judged
        .iter()
        .map(|j| {
            // A range is two numbers.
            let ours = j.ours.map_or(Value::Null, |ours| match ours {
                Ours::One(v) => json!(v),
                Ours::Span(least, most) => json!([least, most]),
            });
            json!({
                "row": j.name, "figure": j.figure, "on": j.on, "what": j.what, "paper": j.paper.text(),
                "ours": ours, "ratio": j.ratio(), "class": j.class().word(), "why": j.reason(),
                "number": j.stat.word(), "set": j.set, "scale": (!j.whole).then_some(j.scale),
            })
        })
        .collect();
    let mut out =
        format!("{{\"claims\":{},\n\"alone\":{},\n\"runs\":[\n", Value::from(claims), json!(results.alone));
    for (i, (setting, record)) in results.runs.iter().enumerate() {
        let comma = if i + 1 < results.runs.len() { "," } else { "" };
        let _ = writeln!(out, "{{\"setting\":{},\"record\":{}}}{comma}", json!(setting), json_line(record));
    }
    out + "]}\n"
}

/// One page: the summary, the statements, then every run.
pub fn claims_page(title: &str, judged: &[Judged], results: &Results) -> String {
    let counted = escape(&summary(judged)).replace('\n', "<br>\n");
    let mut table = format!("<p>{counted}</p>\n<div class=\"wide\"><table>\n<thead><tr>");
    let head = |c: &&str| match PROSE.contains(c) {
        true => format!("<th class=\"prose\">{c}</th>"),
        false => format!("<th>{c}</th>"),
    };
    table.extend(COLUMNS.iter().map(head));
    table += "</tr></thead>\n";
    for j in judged {
        table += "<tr>";
        // On a narrow screen the header is gone: each cell says what it is.
        let cell = |(column, text): (&&str, &String)| {
            let kind = if PROSE.contains(column) { " class=\"prose\"" } else { "" };
            format!("<td{kind} data-of=\"{}\">{}</td>", escape(column), escape(text))
        };
        table.extend(COLUMNS.iter().zip(&row(j)).map(cell));
        table += "</tr>\n";
    }
    table += "</table></div>\n";
    html_with(&format!("{title} reproduced"), &table, &results.records())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::claim::row as stated;
    use crate::reproduce::verdict::{Paper, Stat};
    use granary_lab::record::Record;

    #[test]
    fn every_export_has_paper_ours_ratio_and_why() {
        let paper = Paper::Number(6.0);
        let factor = stated("6", "create-ext4", "create", "throughput ByteFS/ext4", paper).factor();
        let both = Some(vec![0.5, 2.0]);
        let range = stated("5", "split", "reads", "split/single", Paper::Range(1.0, 2.0)).factor();
        let judged =
            [Judged { scale: 0.02, ..factor.ours(Some(3.0)) }, range.over(Stat::Ends, "sizes", both).whole()];
        let runs = vec![("main".to_owned(), Record { workload: "create".to_owned(), ..Record::default() })];
        let results = Results { runs, ..Results::default() };
        assert_eq!(
            claims_csv(&judged),
            "figure,on,what,paper,ours,ours/paper,class,why,row,number,set,scale\n\
             6,create,throughput ByteFS/ext4,6,3.0000,0.5000,same direction,not explained,6-create-ext4,one,,0.02\n\
             5,reads,split/single,1-2,0.5000-2.0000,0.5000,differs,not explained,5-split,least and most,sizes,whole\n"
        );
        let json: Value = serde_json::from_str(&claims_json(&judged, &results)).expect("JSON");
        assert_eq!(json["claims"][0]["ratio"], 0.5);
        assert_eq!(json["claims"][0]["class"], "same direction");
        assert_eq!(json["claims"][1]["ours"], json!([0.5, 2.0]));
        assert_eq!((&json["claims"][0]["scale"], &json["claims"][1]["scale"]), (&json!(0.02), &Value::Null));
        assert_eq!(json["runs"][0]["record"]["workload"], "create");
        let page = claims_page("ByteFS (ASPLOS'25)", &judged, &results);
        assert!(page.contains("<td data-of=\"ours/paper\">0.5000</td>"), "{page}");
        assert!(page.contains("<td class=\"prose\" data-of=\"class\">same direction</td>"), "{page}");
        let cells = page.matches("<td").count();
        assert_eq!(page.matches(" data-of=\"").count(), cells, "a cell without a label on a phone");
        let style = page.split("@media").next().expect("a style");
        assert!(style.contains(".prose{text-align:left"), "prose is read from the left");
    }
}
