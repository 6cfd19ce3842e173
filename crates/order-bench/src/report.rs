//! What was measured, as text, as JSON and as pictures. A ratio of a run that left a difference isn't printed.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::numbers::median;

/// One rival in one round.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) rival: &'static str,
    /// Units per second.
    pub(crate) rate: f64,
    /// CPU time per unit by process, in microseconds.
    pub(crate) cpu: Vec<(&'static str, f64)>,
    /// How the result differs from the ledger, and what the audit found.
    pub(crate) differences: Vec<String>,
}

/// A figure that isn't compared with a rival.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

/// One measurement on one database.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    /// As `postgres.payments`.
    pub(crate) name: String,
    /// What is counted.
    pub(crate) unit: &'static str,
    /// Every rival in every round.
    pub(crate) rounds: Vec<Vec<Run>>,
    /// Which rivals are compared, the first one by the second one.
    pub(crate) compared: Vec<(&'static str, &'static str)>,
    pub(crate) figures: Vec<Figure>,
    /// Of runs that have no rate.
    pub(crate) differences: Vec<String>,
}

impl Section {
    /// An empty section.
    pub(crate) fn new(name: String, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            rounds: Vec::new(),
            compared: Vec::new(),
            figures: Vec::new(),
            differences: Vec::new(),
        }
    }

    /// Adds a figure; one that is added in every round is shown as its median.
    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figures.push(Figure {
            name: name.into(),
            value,
            unit,
        });
    }

    /// The median of each figure, in the order in which they were added first.
    pub(crate) fn medians(&self) -> Vec<Figure> {
        let mut medians: Vec<Figure> = Vec::new();
        for figure in &self.figures {
            if medians.iter().any(|known| known.name == figure.name) {
                continue;
            }
            let all = self.figures.iter().filter(|same| same.name == figure.name);
            let value = median(all.map(|same| same.value).collect()).unwrap_or(figure.value);
            medians.push(Figure {
                value,
                ..figure.clone()
            });
        }
        medians
    }

    fn runs(&self, rival: &str) -> impl Iterator<Item = &Run> {
        self.rounds
            .iter()
            .flatten()
            .filter(move |run| run.rival == rival)
    }

    /// The rivals, as they ran.
    fn rivals(&self) -> Vec<&'static str> {
        let first = self.rounds.first().into_iter().flatten();
        first.map(|run| run.rival).collect()
    }

    /// The median of its rates.
    pub(crate) fn rate(&self, rival: &str) -> Option<f64> {
        median(self.runs(rival).map(|run| run.rate).collect())
    }

    fn cpu(&self, rival: &str) -> Vec<(&'static str, f64)> {
        let Some(first) = self.runs(rival).next() else {
            return Vec::new();
        };
        let of = |name: &str| {
            let all = self.runs(rival).flat_map(|run| &run.cpu);
            median(
                all.filter(|(of, _)| *of == name)
                    .map(|(_, cpu)| *cpu)
                    .collect(),
            )
        };
        first
            .cpu
            .iter()
            .filter_map(|(name, _)| Some((*name, of(name)?)))
            .collect()
    }

    /// Every difference.
    fn all_differences(&self) -> impl Iterator<Item = &String> {
        let of_runs = self
            .rounds
            .iter()
            .flatten()
            .flat_map(|run| &run.differences);
        of_runs.chain(&self.differences)
    }

    /// The median over the rounds of one rival's rate by another one's; none if a run of theirs left a difference.
    fn ratio(&self, over: &str, under: &str) -> Option<f64> {
        let of = |round: &[Run], rival: &str| {
            let run = round.iter().find(|run| run.rival == rival)?;
            run.differences.is_empty().then_some(run.rate)
        };
        let ratios = self
            .rounds
            .iter()
            .map(|round| Some(of(round, over)? / of(round, under)?));
        median(ratios.collect::<Option<Vec<f64>>>()?)
    }
}

/// All sections of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// What it was measured on.
    pub(crate) machine: Vec<(&'static str, String)>,
    pub(crate) sections: Vec<Section>,
}

impl Report {
    /// The ratios by name, and the names of those that are refused.
    pub(crate) fn ratios(&self) -> (Vec<(String, f64)>, Vec<String>) {
        let mut ratios = Vec::new();
        let mut refused = Vec::new();
        for section in &self.sections {
            for (over, under) in &section.compared {
                let name = format!("{}.{over}/{under}", section.name);
                match section.ratio(over, under) {
                    Some(ratio) => ratios.push((name, ratio)),
                    None => refused.push(name),
                }
            }
        }
        (ratios, refused)
    }

    /// Whether every run had the result of its ledger.
    pub(crate) fn is_clean(&self) -> bool {
        self.sections
            .iter()
            .all(|section| section.all_differences().next().is_none())
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let (ratios, refused) = self.ratios();
        let sections = self.sections.iter().map(|section| {
            let rivals = section.rivals().into_iter().map(|rival| {
                json!({
                    "rival": rival,
                    "per_second": section.rate(rival),
                    "rounds": section.runs(rival).map(|run| run.rate).collect::<Vec<_>>(),
                    "cpu_us": section.cpu(rival).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
                })
            });
            let figures = section.medians().into_iter();
            json!({
                "name": section.name,
                "unit": section.unit,
                "rivals": rivals.collect::<Vec<_>>(),
                "figures": figures.map(|f| json!({"name": f.name, "value": f.value, "unit": f.unit})).collect::<Vec<_>>(),
                "differences": section.all_differences().collect::<Vec<_>>(),
            })
        });
        let ratios: Map<String, Value> = ratios
            .into_iter()
            .map(|(name, ratio)| (name, json!(ratio)))
            .collect();
        let machine: Map<String, Value> = self
            .machine
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        json!({"machine": machine, "sections": sections.collect::<Vec<_>>(), "ratios": ratios, "refused": refused})
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.machine {
            line(&mut text, format_args!("{name:<12} {value}"));
        }
        for section in &self.sections {
            line(
                &mut text,
                format_args!("\n{} ({})", section.name, section.unit),
            );
            for rival in section.rivals() {
                let rate = section.rate(rival).unwrap_or_default();
                let cpu = section
                    .cpu(rival)
                    .into_iter()
                    .map(|(name, cpu)| format!("{name} {cpu:.0}"));
                let cpu = cpu.collect::<Vec<_>>().join(", ");
                let cpu = if cpu.is_empty() {
                    cpu
                } else {
                    format!("   CPU µs each: {cpu}")
                };
                line(&mut text, format_args!("  {rival:<26} {rate:>10.0}/s{cpu}"));
            }
            for Figure { name, value, unit } in section.medians() {
                line(&mut text, format_args!("  {name:<26} {value:>10.2} {unit}"));
            }
            for difference in section.all_differences() {
                line(&mut text, format_args!("  WRONG: {difference}"));
            }
        }
        let (ratios, refused) = self.ratios();
        if !ratios.is_empty() {
            line(&mut text, format_args!("\nratios"));
        }
        for (name, ratio) in ratios {
            line(&mut text, format_args!("  {name:<52} {ratio:>8.2}"));
        }
        for name in refused {
            line(
                &mut text,
                format_args!("  {name:<52}  refused: a run got a payment wrong"),
            );
        }
        text
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string doesn't fail.
    let _ = writeln!(text, "{arguments}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rival: &'static str, rate: f64, differences: &[&str]) -> Run {
        Run {
            rival,
            rate,
            cpu: vec![("orderd", rate)],
            differences: differences.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    fn report(last: Run) -> Report {
        let mut section = Section::new("postgres.payments".to_owned(), "payments");
        section.compared = vec![("ours", "theirs")];
        section.rounds = vec![
            vec![run("ours", 10.0, &[]), run("theirs", 1.0, &[])],
            vec![run("ours", 30.0, &[]), run("theirs", 10.0, &[])],
            vec![run("ours", 40.0, &[]), last],
        ];
        Report {
            machine: Vec::new(),
            sections: vec![section],
        }
    }

    #[test]
    fn a_ratio_is_the_median_of_the_ratios_of_each_round() {
        let report = report(run("theirs", 8.0, &[]));
        assert!(report.is_clean());
        assert_eq!(
            report.ratios(),
            (
                vec![("postgres.payments.ours/theirs".to_owned(), 5.0)],
                vec![]
            )
        );
        assert_eq!(
            report.json()["ratios"]["postgres.payments.ours/theirs"],
            5.0
        );
        assert_eq!(
            report.json()["sections"][0]["rivals"][0]["cpu_us"]["orderd"],
            30.0
        );
    }

    #[test]
    fn a_ratio_is_refused_if_one_run_got_a_payment_wrong() {
        let report = report(run("theirs", 8.0, &["OD-1 is NOT_PAID"]));
        assert!(!report.is_clean());
        assert_eq!(
            report.ratios(),
            (vec![], vec!["postgres.payments.ours/theirs".to_owned()])
        );
        assert_eq!(report.json()["ratios"], json!({}));
        let text = report.text();
        assert!(
            text.contains("refused") && text.contains("WRONG: OD-1 is NOT_PAID"),
            "{text}"
        );
    }
}
