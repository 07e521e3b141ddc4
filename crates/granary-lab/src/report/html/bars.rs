//! Horizontal bars as inline SVG: a row per file system, its parts one after the other.
//!
//! ```text
//!   bytefs  ████▒▒▒▒▒░░        12.5MiB          all rows have one scale; the longest takes the whole width
//!   ext4    ██████████▒▒▒▒▒    31.2MiB
//!           █ metadata  ▒ data                  legend (text), where there is more than one part
//! ```

use super::escape;
use std::fmt::Write as _;

/// A bar.
pub struct Row {
    /// The name of its file system.
    pub name: String,
    /// Lengths of its parts, none below 0.
    pub parts: Vec<f64>,
}

/// Told apart by colour-blind eyes too (Okabe and Ito's palette), the strongest first.
const COLOURS: [&str; 7] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];
/// Measures of the drawing, in its own units.
const NAME: f64 = 90.0;
const BAR: f64 = 500.0;
const VALUE: f64 = 130.0;
const LINE: f64 = 26.0;

/// The figure; nothing where all is 0. `parts` are their names, `show` says a value.
pub fn bars(caption: &str, parts: &[&str], rows: &[Row], show: &dyn Fn(f64) -> String) -> String {
    let total = |row: &Row| row.parts.iter().sum::<f64>();
    let most = rows.iter().map(total).fold(0.0, f64::max);
    if most <= 0.0 || !most.is_finite() {
        return String::new();
    }
    // Parts that nobody has need no place in the legend.
    let used: Vec<usize> = (0..parts.len()).filter(|&i| rows.iter().any(|r| r.parts[i] > 0.0)).collect();
    let legend = used.len() > 1 || parts.len() > 1;
    let mut svg = format!(
        "<figure><figcaption>{0}</figcaption>\n<svg viewBox=\"0 0 {1} {2}\" role=\"img\" aria-label=\"{0}\">\n",
        escape(caption),
        NAME + BAR + VALUE,
        LINE * rows.len() as f64
    );
    for (line, row) in rows.iter().enumerate() {
        let top = LINE * line as f64;
        let _ = writeln!(svg, "<text x=\"0\" y=\"{}\">{}</text>", top + 17.0, escape(&row.name));
        let mut x = NAME;
        for &i in &used {
            let width = BAR * row.parts[i] / most;
            let name = if parts[i].is_empty() { String::new() } else { format!("{}: ", parts[i]) };
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.2}\" y=\"{}\" width=\"{width:.2}\" height=\"18\" fill=\"{}\"><title>{}</title></rect>",
                top + 4.0,
                COLOURS[i % COLOURS.len()],
                escape(&format!("{name}{}", show(row.parts[i])))
            );
            x += width;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.2}\" y=\"{}\">{}</text>",
            x + 6.0,
            top + 17.0,
            escape(&show(total(row)))
        );
    }
    svg += "</svg>\n";
    if legend {
        // As text it goes on in the next line where the screen ends.
        svg += "<p class=\"key\">";
        for &i in &used {
            let colour = COLOURS[i % COLOURS.len()];
            let _ = write!(svg, "<span><i style=\"background:{colour}\"></i> {}</span> ", escape(parts[i]));
        }
        svg += "</p>\n";
    }
    svg += "</figure>\n";
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_shares_of_the_longest_bar() {
        let row = |name: &str, parts: &[f64]| Row { name: name.to_owned(), parts: parts.to_vec() };
        let show = |v: f64| format!("{v}");
        let rows = [row("a", &[1.0, 1.0, 0.0]), row("b", &[4.0, 0.0, 0.0])];
        let svg = bars("what", &["x", "y", "z"], &rows, &show);
        assert!(svg.contains("width=\"125.00\"") && svg.contains("width=\"500.00\""), "{svg}");
        assert!(svg.contains("<title>y: 1</title>") && !svg.contains(">z<"), "{svg}");
        assert_eq!(bars("nothing", &["x"], &[row("a", &[0.0])], &show), "");
        assert_eq!(bars("nobody", &["x"], &[], &show), "");
    }
}
