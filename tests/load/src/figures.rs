//! From times to the few numbers that are reported.

use std::time::Duration;

use serde_json::{Value as Json, json};

/// One phase: the same kind of call from all clients at once.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// From the start of the first call to the end of the last.
    pub wall: Duration,
    /// Processor time that the server spent, in nanoseconds.
    pub processor_ns: u64,
    /// What each call took.
    pub calls: Vec<Duration>,
}

/// The phases of one kind of call, round by round, at the hub and at the bare object.
#[derive(Clone, Debug, Default)]
pub struct Pairs(Vec<(Phase, Phase)>);

impl Pairs {
    /// Adds a round.
    pub fn push(&mut self, hub: Phase, bare: Phase) {
        self.0.push((hub, bare));
    }

    /// The figures. A round is short and its two halves follow one another, so that a machine that is busy with something
    /// else slows both; `ratio` is the median over the rounds.
    pub fn report(&self) -> Json {
        let ratios: Vec<f64> = self.0.iter().map(|(hub, bare)| per_second(hub) / per_second(bare)).collect();
        let processor: Vec<f64> = self.0.iter().map(|(hub, bare)| processor_us(bare) / processor_us(hub)).collect();
        json!({
            "hub": side(self.0.iter().map(|(hub, _)| hub)),
            "bare": side(self.0.iter().map(|(_, bare)| bare)),
            "ratio": round(median(&ratios), 3),
            "ratio_lowest": round(ratios.iter().copied().fold(f64::INFINITY, f64::min), 3),
            "ratio_highest": round(ratios.iter().copied().fold(0.0, f64::max), 3),
            "processor_ratio": round(median(&processor), 3),
        })
    }
}

fn side<'p>(phases: impl Iterator<Item = &'p Phase> + Clone) -> Json {
    let rates: Vec<f64> = phases.clone().map(per_second).collect();
    let processor: Vec<f64> = phases.clone().map(processor_us).collect();
    let mut times: Vec<Duration> = phases.flat_map(|phase| phase.calls.iter().copied()).collect();
    times.sort_unstable();
    json!({
        "per_second": round(median(&rates), 1),
        "p50_ms": milliseconds(percentile(&times, 50)),
        "p99_ms": milliseconds(percentile(&times, 99)),
        "processor_us": round(median(&processor), 0),
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn per_second(phase: &Phase) -> f64 {
    phase.calls.len() as f64 / phase.wall.as_secs_f64().max(1e-9)
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn processor_us(phase: &Phase) -> f64 {
    phase.processor_ns as f64 / 1_000.0 / (phase.calls.len() as f64).max(1.0)
}

fn milliseconds(time: Duration) -> f64 {
    round(time.as_secs_f64() * 1_000.0, 3)
}

fn round(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// The figures of a probe's answers, sorted. `undisturbed` is the longest but for the time in which hub or client stood in
/// line for a processor, because something else ran.
pub fn probe(times: &[Duration], undisturbed: Duration) -> Json {
    json!({
        "calls": times.len(),
        "p50_ms": milliseconds(percentile(times, 50)),
        "p99_ms": milliseconds(percentile(times, 99)),
        "longest_ms": milliseconds(times.last().copied().unwrap_or_default()),
        "longest_undisturbed_ms": milliseconds(undisturbed),
    })
}

/// The middle one, or the mean of the two in the middle; 0 if there is none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (length, middle) if length % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The time that this share of the sorted times does not exceed.
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Pairs, Phase, median, percentile};

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), Duration::from_millis(100));
        assert_eq!(percentile(&times, 99), Duration::from_millis(198));
        assert_eq!(percentile(&times[..1], 99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn a_ratio_is_of_one_round_and_the_middle_one_counts() {
        let phase = |milliseconds| Phase {
            wall: Duration::from_millis(milliseconds),
            processor_ns: 1_000_000 * milliseconds,
            calls: vec![Duration::from_millis(milliseconds); 10],
        };
        let mut pairs = Pairs::default();
        // The machine is three times slower in the second round, for both; the third has a hiccup at the hub.
        for (hub, bare) in [(200, 100), (600, 300), (5_000, 100)] {
            pairs.push(phase(hub), phase(bare));
        }
        let report = pairs.report();
        assert_eq!(report["ratio"], 0.5);
        assert_eq!(report["ratio_lowest"], 0.02);
        assert_eq!(report["processor_ratio"], 0.5);
        assert_eq!(report["hub"]["per_second"], 16.7);
        assert_eq!(report["bare"]["p50_ms"], 100.0);
    }
}
