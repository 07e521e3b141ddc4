//! The statements as CSV, JSON and a page.

use super::study::Results;
use super::verdict::Judged;
use granary_lab::report::{escape, html_with, json_line};
use serde_json::{Value, json};
use std::fmt::Write as _;

fn row(j: &Judged) -> [String; 8] {
    let number = |v: Option<f64>| v.map_or_else(String::new, |v| format!("{v:.4}"));
    let holds = j.holds().map_or("", |holds| if holds { "yes" } else { "no" });
    [
        j.figure.to_owned(),
        j.on.to_owned(),
        j.what.to_owned(),
        j.paper.text(),
        number(j.ours),
        number(j.ratio()),
        holds.to_owned(),
        j.reason().to_owned(),
    ]
}

const COLUMNS: [&str; 8] = ["figure", "on", "what", "paper", "ours", "ratio", "holds", "why"];

/// Columns of words, which are read from the left.
const PROSE: [&str; 3] = ["on", "what", "why"];

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
            json!({
                "figure": j.figure, "on": j.on, "what": j.what, "paper": j.paper.text(), "ours": j.ours,
                "ratio": j.ratio(), "holds": j.holds(), "why": j.reason(),
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

/// One page: the statements, then every run.
pub fn claims_page(title: &str, judged: &[Judged], results: &Results) -> String {
    let mut table = String::from("<div class=\"wide\"><table>\n<thead><tr>");
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
    use crate::reproduce::verdict::Paper;
    use granary_lab::record::Record;

    #[test]
    fn every_export_has_paper_ours_ratio_and_why() {
        let judged = [Judged {
            figure: "6",
            on: "create",
            what: "throughput ByteFS/ext4",
            paper: Paper::Number(6.0),
            factor: true,
            ours: Some(3.0),
            why: "the drive's ways",
        }];
        let runs = vec![("main".to_owned(), Record { workload: "create".to_owned(), ..Record::default() })];
        let results = Results { runs, ..Results::default() };
        assert_eq!(
            claims_csv(&judged),
            "figure,on,what,paper,ours,ratio,holds,why\n6,create,throughput ByteFS/ext4,6,3.0000,0.5000,yes,the drive's ways\n"
        );
        let json: Value = serde_json::from_str(&claims_json(&judged, &results)).expect("JSON");
        assert_eq!(json["claims"][0]["ratio"], 0.5);
        assert_eq!(json["runs"][0]["record"]["workload"], "create");
        let page = claims_page("ByteFS (ASPLOS'25)", &judged, &results);
        assert!(page.contains("<td data-of=\"ratio\">0.5000</td>"), "{page}");
        assert!(page.contains("<td class=\"prose\" data-of=\"why\">the drive&#39;s ways</td>"), "{page}");
        let cells = page.matches("<td").count();
        assert_eq!(page.matches(" data-of=\"").count(), cells, "a cell without a label on a phone");
        let style = page.split("@media").next().expect("a style");
        assert!(style.contains(".prose{text-align:left"), "prose is read from the left");
    }
}
