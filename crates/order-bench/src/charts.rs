//! A picture of each section: one bar per rival or figure.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::numbers::{count, figure};
use crate::report::{Report, Section};

const WIDTH: u64 = 720;
const LABELS: u64 = 220;
const VALUES: u64 = 130;
const ROW: u64 = 28;

/// Writes `<section>.svg` for every section with something to show.
pub(crate) fn write(report: &Report, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
    for section in &report.sections {
        for (kind, bars) in groups(section) {
            let title = format!("{}, {kind}", section.name);
            let file = format!(
                "{}-{}.svg",
                section.name.replace('.', "-"),
                kind.replace(['/', ' '], "-")
            );
            let file = folder.join(file);
            fs::write(&file, draw(&title, &bars))
                .with_context(|| format!("{} can't be written", file.display()))?;
        }
    }
    Ok(())
}

type Bars = Vec<(String, f64)>;

/// Bars of one unit share a picture.
fn groups(section: &Section) -> Vec<(String, Bars)> {
    let mut groups: Vec<(String, Bars)> = Vec::new();
    let mut add = |kind: String, name: String, value: f64| match groups
        .iter_mut()
        .find(|(of, _)| *of == kind)
    {
        Some((_, bars)) => bars.push((name, value)),
        None => groups.push((kind, vec![(name, value)])),
    };
    for run in section.rounds.first().into_iter().flatten() {
        let rate = section.rate(run.rival).unwrap_or_default();
        add(
            format!("{} per second", section.unit),
            run.rival.to_owned(),
            rate,
        );
    }
    for shown in section.medians() {
        add(shown.unit.to_owned(), shown.name, shown.value);
    }
    groups
}

fn draw(title: &str, bars: &[(String, f64)]) -> String {
    let most = bars.iter().map(|(_, value)| *value).fold(1e-9, f64::max);
    let height = (count(bars.len()) + 1) * ROW + 16;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13"><rect width="{WIDTH}" height="{height}" fill="#fff"/><text x="8" y="20" font-weight="bold">{}</text>"##,
        escape(title)
    );
    let room = figure(WIDTH - LABELS - VALUES);
    for (number, (name, value)) in bars.iter().enumerate() {
        let y = (count(number) + 1) * ROW + 8;
        let length = (room * value / most).max(1.0);
        let end = figure(LABELS) + length + 6.0;
        let shown = if *value < 100.0 {
            format!("{value:.2}")
        } else {
            format!("{value:.0}")
        };
        // Writing to a string doesn't fail.
        let _ = write!(
            svg,
            r##"<text x="{}" y="{}" text-anchor="end">{}</text><rect x="{LABELS}" y="{y}" width="{length:.1}" height="18" fill="#3b6ea5"/><text x="{end:.1}" y="{}">{shown}</text>"##,
            LABELS - 6,
            y + 14,
            escape(name),
            y + 14,
        );
    }
    svg + "</svg>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_room() {
        let svg = draw(
            "a < b",
            &[("one".to_owned(), 50.0), ("two".to_owned(), 100.0)],
        );
        assert!(svg.contains("a &lt; b"), "{svg}");
        assert!(
            svg.contains(r#"width="185.0""#) && svg.contains(r#"width="370.0""#),
            "{svg}"
        );
    }
}
