//! Strips of state: what each breaker and each guard did over time, one band for each edge and policy.
//!
//! A band is as high as all callers of the edge (of a breaker) or all of their retries (of a guard). What is shut fills
//! it from below, what is being tried stands on that, and the rest flows. With a single caller a band is simply of one
//! kind at a time. Kinds differ by pattern and not only by colour, and the shares stand beside the band in words.

use std::fmt::Write as _;

use retryguard_sim::engine::{EdgeState, Moment, Shares};

use super::{
    Outcome,
    pictures::{ends, ticks},
};
use crate::chart::escaped;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 150.0;
const BAND: f64 = 500.0;
const HEIGHT: f64 = 18.0;
const ROW: f64 = 25.0;
const TITLE: f64 = 30.0;

/// No band has more cells than this: below two pixels they cannot be seen, and the file would only grow.
const MOST_CELLS: usize = 250;

/// The most bands of a picture; the others are counted.
const MOST_BANDS: usize = 60;

/// A part that has a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Breaker,
    Guard,
}

impl Part {
    fn of(self, edge: &EdgeState) -> Option<Shares> {
        match self {
            Self::Breaker => edge.breaker,
            Self::Guard => edge.guard,
        }
    }

    /// Its name, and what its two shares are called.
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Breaker => ("breaker", "open", "half-open"),
            Self::Guard => ("guard", "off", "ramping"),
        }
    }
}

/// The bands of one part on one edge.
struct Group {
    title: String,
    part: Part,
    bands: Vec<Band>,
}

/// What a part did under one policy: the beginning of each stretch in seconds, its end, and the shares in it.
struct Band {
    policy: String,
    stretches: Vec<(f64, f64, Shares)>,
}

/// The picture, if any breaker or guard ever did anything.
pub(super) fn picture(outcome: &Outcome) -> Option<(String, String)> {
    let groups = groups(outcome);
    (!groups.is_empty()).then(|| ("strips.svg".to_owned(), svg(&groups, ends(outcome))))
}

fn groups(outcome: &Outcome) -> Vec<Group> {
    let world = &outcome.scenario.world;
    let until = ends(outcome);
    let mut groups = Vec::new();
    for (number, edge) in world.edges.iter().enumerate() {
        for part in [Part::Breaker, Part::Guard] {
            let bands: Vec<Band> = outcome
                .policies
                .iter()
                .filter_map(|summary| {
                    let lines = &summary.first.lines;
                    band(&summary.name, &lines.steps, lines.step, until, |moment| {
                        moment.edges.get(number).and_then(|edge| part.of(edge))
                    })
                })
                .collect();
            if bands.iter().any(Band::acted) {
                groups.push(Group {
                    title: format!(
                        "{} → {}: {}",
                        edge.from,
                        world.services[edge.to].name,
                        part.words().0
                    ),
                    part,
                    bands,
                });
            }
        }
    }
    groups
}

/// The band of a part that is there, cut into cells, with equal neighbours joined.
fn band(
    policy: &str,
    steps: &[Moment],
    step: f64,
    until: f64,
    shares: impl Fn(&Moment) -> Option<Shares>,
) -> Option<Band> {
    let readings: Vec<Shares> = steps
        .iter()
        .enumerate()
        .take_while(|(index, moment)| (*index as f64 + 0.5) * step < until && !moment.edges.is_empty())
        .map(|(_, moment)| shares(moment))
        .collect::<Option<_>>()?;
    let each = readings.len().div_ceil(MOST_CELLS).max(1);
    let mut stretches: Vec<(f64, f64, Shares)> = Vec::new();
    for (index, cell) in readings.chunks(each).enumerate() {
        let mean = |share: fn(&Shares) -> f64| cell.iter().map(share).sum::<f64>() / cell.len() as f64;
        let shares = Shares {
            shut: mean(|it| it.shut),
            trying: mean(|it| it.trying),
        };
        let begins = (index * each) as f64 * step;
        let ends = (begins + cell.len() as f64 * step).min(until);
        match stretches.last_mut() {
            Some(last) if last.2 == shares => last.1 = ends,
            _ => stretches.push((begins, ends, shares)),
        }
    }
    (!stretches.is_empty()).then(|| Band {
        policy: policy.to_owned(),
        stretches,
    })
}

impl Band {
    fn acted(&self) -> bool {
        self.stretches
            .iter()
            .any(|(_, _, shares)| shares.shut + shares.trying > 0.0)
    }

    /// The shares over the whole time.
    fn mean(&self) -> Shares {
        let whole: f64 = self.stretches.iter().map(|(from, to, _)| to - from).sum();
        let mean = |share: fn(&Shares) -> f64| {
            let sum: f64 = self
                .stretches
                .iter()
                .map(|(from, to, it)| (to - from) * share(it))
                .sum();
            sum / whole.max(f64::MIN_POSITIVE)
        };
        Shares {
            shut: mean(|it| it.shut),
            trying: mean(|it| it.trying),
        }
    }

    /// What it did, in words.
    fn words(&self, part: Part) -> String {
        let (_, shut, trying) = part.words();
        let mean = self.mean();
        format!("{shut} {}, {trying} {}", percent(mean.shut), percent(mean.trying))
    }
}

/// Whole percent; a little is not called nothing, and nearly all not all.
fn percent(share: f64) -> String {
    match 100.0 * share {
        it if it > 0.0 && it < 1.0 => "<1 %".to_owned(),
        it if it > 99.0 && it < 100.0 => ">99 %".to_owned(),
        it => format!("{it:.0} %"),
    }
}

fn svg(groups: &[Group], ends: f64) -> String {
    let bands: usize = groups.iter().map(|group| group.bands.len()).sum();
    let mut body = String::new();
    let (mut y, mut drawn) = (40.0, 0);
    for group in groups {
        let room = MOST_BANDS - drawn;
        if room == 0 {
            break;
        }
        let _ = writeln!(
            body,
            "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"600\">{}</text>",
            y + 20.0,
            escaped(&group.title)
        );
        y += TITLE;
        for band in group.bands.iter().take(room) {
            draw(&mut body, band, group.part, y, ends);
            y += ROW;
            drawn += 1;
        }
    }
    if drawn < bands {
        let _ = writeln!(
            body,
            "<text x=\"{LEFT}\" y=\"{}\">{} more are not drawn</text>",
            y + 14.0,
            bands - drawn
        );
        y += ROW;
    }
    axis(&mut body, y, ends);
    y += 56.0;
    for (class, words) in [
        (
            "shut",
            "a breaker that is open; retries held back by a guard that is off",
        ),
        (
            "trying",
            "a breaker that is half-open; retries held back by a guard that ramps up",
        ),
        (
            "flows",
            "a breaker that is closed; retries that a guard lets through",
        ),
    ] {
        let _ = writeln!(
            body,
            "{}<text x=\"{}\" y=\"{}\">{words}</text>",
            block(class, LEFT, y, 34.0, 14.0),
            LEFT + 44.0,
            y + 11.0
        );
        y += 22.0;
    }
    for words in [
        "The height is the share of callers, or of retries; beside each band its mean over the time shown.",
        "States are read at the end of each step: what lasts for less than a step may not be seen.",
    ] {
        let _ = writeln!(body, "<text x=\"{LEFT}\" y=\"{}\">{words}</text>", y + 11.0);
        y += 20.0;
    }
    y += 8.0;
    format!("{}{body}</svg>\n", head(y))
}

fn head(height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <title>Breakers and guards over time</title>\n\
         <style>\n\
         svg {{ background: #ffffff; }} text {{ fill: #24292f; }} .axis {{ stroke: #57606a; }}\n\
         .flows {{ fill: #dbe4ee; }} .shut {{ fill: #c2410c; }} .trying {{ fill: #56a3d9; }} .ink {{ stroke: #ffffff; }} .dot {{ fill: #0b2f4a; }}\n\
         @media (prefers-color-scheme: dark) {{ svg {{ background: #0d1117; }} text {{ fill: #e6edf3; }} .axis {{ stroke: #8b949e; }}\n\
         .flows {{ fill: #2a3441; }} .shut {{ fill: #f97316; }} .trying {{ fill: #7cc4f5; }} .ink {{ stroke: #0d1117; }} }}\n\
         </style>\n\
         <defs>\n\
         <pattern id=\"strip-shut\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect class=\"shut\" width=\"7\" height=\"7\"/><line class=\"ink\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"7\" stroke-width=\"2\"/></pattern>\n\
         <pattern id=\"strip-trying\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
         <rect class=\"trying\" width=\"6\" height=\"6\"/><circle class=\"dot\" cx=\"3\" cy=\"3\" r=\"1.3\"/></pattern>\n\
         </defs>\n\
         <text x=\"{}\" y=\"22\" font-size=\"15\" font-weight=\"600\" text-anchor=\"middle\">Breakers and guards over time</text>\n",
        WIDTH / 2.0
    )
}

fn draw(out: &mut String, band: &Band, part: Part, y: f64, ends: f64) {
    let words = escaped(&band.words(part));
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
        LEFT - 8.0,
        y + 13.0,
        escaped(&short(&band.policy))
    );
    let x = |at: f64| LEFT + at / ends * BAND;
    let last = band.stretches.last().map_or(0.0, |(_, to, _)| *to);
    let _ = writeln!(out, "{}", block("flows", LEFT, y, x(last) - LEFT, HEIGHT));
    for (from, to, shares) in &band.stretches {
        let (left, width) = (x(*from), x(*to) - x(*from));
        let shut = HEIGHT * shares.shut;
        let trying = HEIGHT * shares.trying;
        let from_top = y + HEIGHT - shut;
        for (class, top, height) in [("shut", from_top, shut), ("trying", from_top - trying, trying)] {
            if height > 0.0 {
                let _ = writeln!(out, "{}", block(class, left, top, width, height));
            }
        }
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\">{words}</text>",
        LEFT + BAND + 10.0,
        y + 13.0
    );
}

/// A name that fits to the left of its band.
fn short(name: &str) -> String {
    const MOST: usize = 20;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// A piece of a band: plain where it flows, with its pattern otherwise.
fn block(class: &str, x: f64, y: f64, width: f64, height: f64) -> String {
    let fill = match class {
        "flows" => "class=\"flows\"".to_owned(),
        _ => format!("fill=\"url(#strip-{class})\""),
    };
    format!("<rect {fill} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>")
}

fn axis(out: &mut String, y: f64, ends: f64) {
    let _ = writeln!(
        out,
        "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\"/>\
         <text x=\"{2}\" y=\"{3}\" text-anchor=\"middle\">seconds since the start</text>",
        y + 2.0,
        LEFT + BAND,
        LEFT + BAND / 2.0,
        y + 36.0
    );
    for (tick, text) in ticks(ends) {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            LEFT + tick / ends * BAND,
            y + 18.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(shares: &[(f64, f64)]) -> Vec<Moment> {
        let moment = |&(shut, trying): &(f64, f64)| Moment {
            edges: vec![EdgeState {
                breaker: Some(Shares { shut, trying }),
                guard: None,
            }],
            ..Moment::default()
        };
        shares.iter().map(moment).collect()
    }

    fn breaker(steps: &[Moment], until: f64) -> Option<Band> {
        band("p", steps, 2.0, until, |moment| moment.edges[0].breaker)
    }

    /// Closed for four seconds, open for four, half-open for two: three stretches, and what each is drawn as.
    #[test]
    fn a_band_is_cut_where_the_state_changes() {
        let steps = moments(&[(0.0, 0.0), (0.0, 0.0), (1.0, 0.0), (1.0, 0.0), (0.0, 1.0)]);
        let band = breaker(&steps, 10.0).unwrap();
        let cuts: Vec<(f64, f64)> = band.stretches.iter().map(|(from, to, _)| (*from, *to)).collect();
        assert_eq!(cuts, [(0.0, 4.0), (4.0, 8.0), (8.0, 10.0)]);
        assert_eq!(band.words(Part::Breaker), "open 40 %, half-open 20 %");
        let mut out = String::new();
        draw(&mut out, &band, Part::Breaker, 0.0, 10.0);
        let [open, half] = ["shut", "trying"].map(|it| format!("<rect fill=\"url(#strip-{it})\" "));
        assert!(
            out.contains(&format!(
                "{open}x=\"350.0\" y=\"0.0\" width=\"200.0\" height=\"18.0\"/>"
            )),
            "{out}"
        );
        assert!(
            out.contains(&format!(
                "{half}x=\"550.0\" y=\"0.0\" width=\"100.0\" height=\"18.0\"/>"
            )),
            "{out}"
        );
        assert_eq!(out.matches("<rect").count(), 3, "{out}");
    }

    /// Half of the callers shut and a quarter trying: the shut fill the lower half, the trying stand on them.
    #[test]
    fn shares_stand_on_one_another() {
        let band = breaker(&moments(&[(0.5, 0.25)]), 2.0).unwrap();
        let mut out = String::new();
        draw(&mut out, &band, Part::Breaker, 100.0, 2.0);
        assert!(
            out.contains("url(#strip-shut)\" x=\"150.0\" y=\"109.0\" width=\"500.0\" height=\"9.0\""),
            "{out}"
        );
        assert!(
            out.contains("url(#strip-trying)\" x=\"150.0\" y=\"104.5\" width=\"500.0\" height=\"4.5\""),
            "{out}"
        );
    }

    #[test]
    fn a_part_that_is_not_there_has_no_band_and_one_that_did_nothing_does_not_act() {
        let steps = moments(&[(0.0, 0.0)]);
        assert!(band("p", &steps, 2.0, 2.0, |moment| moment.edges[0].guard).is_none());
        assert!(!breaker(&steps, 2.0).unwrap().acted());
    }

    #[test]
    fn a_long_run_has_no_more_cells_than_can_be_seen() {
        let steps: Vec<(f64, f64)> = (0..10_000)
            .map(|it| (f64::from(it % 2), f64::from(it % 3) / 10.0))
            .collect();
        let band = breaker(&moments(&steps), 20_000.0).unwrap();
        assert!(band.stretches.len() <= MOST_CELLS, "{}", band.stretches.len());
        assert!((band.mean().shut - 0.5).abs() < 1e-6);
    }

    #[test]
    fn a_long_name_is_cut_where_a_letter_ends() {
        assert_eq!(short("retryguard"), "retryguard");
        assert_eq!(short("ünüsüal-names-of-policies"), "ünüsüal-names-of-pol…");
    }

    #[test]
    fn bands_beyond_the_limit_are_counted() {
        let steps = moments(&[(1.0, 0.0)]);
        let bands = (0..MOST_BANDS + 3).filter_map(|_| breaker(&steps, 2.0)).collect();
        let group = Group {
            title: "a → b: breaker".to_owned(),
            part: Part::Breaker,
            bands,
        };
        let picture = svg(&[group], 2.0);
        assert!(picture.contains("3 more are not drawn"), "{picture}");
        assert_eq!(picture.matches("open 100 %").count(), MOST_BANDS);
    }
}
