//! What is raced.

use super::TIMES;

/// Questions about one model.
pub(super) struct Race {
    pub(super) title: &'static str,
    pub(super) model: &'static str,
    pub(super) constants: &'static str,
    pub(super) properties: &'static [&'static str],
    /// Whether the properties are asked one by one rather than together.
    pub(super) each: bool,
    /// How often faster we want to be.
    pub(super) wanted: f64,
    /// What Storm needed on the reference machine, where it is not run: seconds and gigabytes.
    pub(super) reference: Option<(f64, f64)>,
    /// Whether Storm is also asked with its sound setting, and more memory than Storm takes is a shortfall.
    pub(super) sound: bool,
}

impl Race {
    const fn pattern(
        title: &'static str,
        model: &'static str,
        constants: &'static str,
        wanted: f64,
        reference: Option<(f64, f64)>,
    ) -> Race {
        Race {
            title,
            model,
            constants,
            properties: TIMES,
            each: false,
            wanted,
            reference,
            sound: false,
        }
    }

    /// A model in which nothing can be reduced: at most 1.2 times the time of Storm's default is wanted, and no more than its sound setting
    /// takes.
    const fn plain(
        title: &'static str,
        model: &'static str,
        constants: &'static str,
        properties: &'static [&'static str],
    ) -> Race {
        Race {
            title,
            model,
            constants,
            properties,
            each: true,
            wanted: 0.83,
            reference: None,
            sound: true,
        }
    }

    /// The properties that are asked together.
    pub(super) fn asked(&self) -> impl Iterator<Item = &'static [&'static str]> {
        self.properties
            .chunks(if self.each { 1 } else { self.properties.len() })
    }
}

/// Large chains.
pub(super) const LARGE: &[Race] = &[
    Race::plain(
        "Four cells",
        "evidence/models/large/four-cells.prism",
        "cards=4",
        &[
            "R{\"passed\"}=? [ S ]",
            "R{\"parts\"}=? [ C<=10 ]",
            "R{\"parts\"}=? [ F r4=cards ]",
        ],
    ),
    Race::plain(
        "Flexible cell, 7 pallets",
        "evidence/models/large/flexible.prism",
        "n=7",
        &["R{\"made\"}=? [ S ]"],
    ),
    Race::plain(
        "256 workstations",
        "evidence/models/unseen/cluster.prism",
        "N=256",
        &["S=? [ \"premium\" ]"],
    ),
    Race::plain(
        "Stations with 511 places",
        "evidence/models/plain/two-stations.prism",
        "places=511",
        &["R{\"requests\"}=? [ S ]"],
    ),
    Race::plain(
        "Stations with 1023 places",
        "evidence/models/plain/two-stations.prism",
        "places=1023",
        &["R{\"requests\"}=? [ S ]"],
    ),
];

/// Models in which everything can be reduced.
pub(super) const PATTERNS: &[Race] = &[
    Race::pattern(
        "Simple Proxy",
        "models/resiliency-patterns/simple-proxy.prism",
        "AV=0.5,CONN_TO=2",
        100.0,
        None,
    ),
    Race::pattern(
        "Retry",
        "models/resiliency-patterns/retry.prism",
        "AV=0.5,MAX_BO=10",
        100.0,
        None,
    ),
    Race::pattern(
        "Static Circuit Breaker",
        "models/resiliency-patterns/static-circuit-breaker.prism",
        "AV=0.5,MAX_TO=10",
        300.0,
        Some((900.0, 17.0)),
    ),
    Race::pattern(
        "Dynamic Circuit Breaker",
        "models/resiliency-patterns/dynamic-circuit-breaker.prism",
        "AV=0.5,MAX_TO=40",
        0.0,
        Some((f64::INFINITY, f64::INFINITY)),
    ),
];

/// Models in which nothing can be.
pub(super) const PLAIN: &[Race] = &[
    Race::plain(
        "Two stations",
        "evidence/models/plain/two-stations.prism",
        "places=100",
        &[
            "P=? [ F<=0.4 waiting=places & leaving=0 ]",
            "R{\"requests\"}=? [ F waiting=places ]",
            "R{\"requests\"}=? [ S ]",
        ],
    ),
    Race::plain(
        "Three queues",
        "evidence/models/plain/three-queues.prism",
        "c=20",
        &[
            "P=? [ F z=15 ]",
            "P=? [ x<10 U z=15 ]",
            "P=? [ x<10 U<=10 z=15 ]",
            "R{\"customers\"}=? [ F z=15 ]",
            "R{\"customers\"}=? [ C<=10 ]",
            "R{\"customers\"}=? [ I=10 ]",
            "R{\"customers\"}=? [ S ]",
            "S=? [ z>10 ]",
        ],
    ),
    Race::plain(
        "Polling",
        "evidence/models/plain/polling.prism",
        "c=6",
        &[
            "P=? [ n2<4 U n1=6 ]",
            "P=? [ n2<4 U<=20 n1=6 ]",
            "R{\"waiting\"}=? [ C<=20 ]",
            "R{\"waiting\"}=? [ I=20 ]",
            "R{\"waiting\"}=? [ S ]",
            "S=? [ n1>3 ]",
        ],
    ),
    Race::plain(
        "Breakdowns",
        "evidence/models/plain/breakdowns.prism",
        "K=40",
        &[
            "P=? [ up1>0 U n2=40 ]",
            "P=? [ up1>0 U<=20 n2=20 ]",
            "R{\"waiting\"}=? [ F n2=40 ]",
            "R{\"served\"}=? [ C<=20 ]",
            "R{\"waiting\"}=? [ I=20 ]",
            "R{\"waiting\"}=? [ S ]",
            "S=? [ n1>10 ]",
        ],
    ),
    Race::plain(
        "Shared tools",
        "evidence/models/plain/tools.prism",
        "shape=30",
        &[
            "P=? [ p4<2 U p1=1 & p2=1 & p3>1 ]",
            "P=? [ p4<2 U<=10 p1=1 & p2=1 & p3>1 ]",
            "R{\"waiting\"}=? [ F p1=1 & p2=1 & p3=1 & p4=1 ]",
            "R{\"waiting\"}=? [ C<=10 ]",
            "R{\"waiting\"}=? [ I=10 ]",
            "R{\"waiting\"}=? [ S ]",
            "S=? [ free=0 ]",
        ],
    ),
    Race::plain(
        "Epidemic",
        "evidence/models/plain/epidemic.prism",
        "N=200",
        &[
            "P=? [ F i>=80 ]",
            "P=? [ s>100 U i=0 ]",
            "P=? [ s>100 U<=5 i>=70 ]",
            "R{\"ill\"}=? [ F i=0 ]",
            "R{\"ill\"}=? [ S ]",
        ],
    ),
];

/// Models of other kinds, in which nothing can be reduced either. They were written after the solver's constants were set.
pub(super) const UNSEEN: &[Race] = &[
    Race::plain(
        "Cluster",
        "evidence/models/unseen/cluster.prism",
        "N=20",
        &[
            "P=? [ r>15 U l<15 ]",
            "P=? [ F<=100 !\"minimum\" ]",
            "R{\"repairs\"}=? [ F !\"minimum\" ]",
            "R{\"repairs\"}=? [ C<=100 ]",
            "R{\"working\"}=? [ I=100 ]",
            "R{\"working\"}=? [ S ]",
            "S=? [ \"premium\" ]",
        ],
    ),
    Race::plain(
        "Kanban",
        "evidence/models/unseen/kanban.prism",
        "cards=4",
        &[
            "P=? [ b2<3 U \"blocked\" ]",
            "P=? [ b2<3 U<=20 \"blocked\" ]",
            "R{\"parts\"}=? [ F \"blocked\" ]",
            "R{\"out\"}=? [ C<=20 ]",
            "R{\"parts\"}=? [ I=20 ]",
            "R{\"out\"}=? [ S ]",
            "S=? [ d1>2 ]",
        ],
    ),
    Race::plain(
        "Predators",
        "evidence/models/unseen/predators.prism",
        "most=28",
        &[
            "P=? [ g>2 U \"foxless\" ]",
            "P=? [ g>2 U<=5 \"foxless\" ]",
            "R{\"hunted\"}=? [ F \"foxless\" ]",
            "R{\"hunted\"}=? [ C<=5 ]",
            "R{\"animals\"}=? [ I=5 ]",
            "R{\"animals\"}=? [ S ]",
            "S=? [ h<3 ]",
        ],
    ),
];

/// The same once more: written after the solver was changed for what the first of them had shown.
pub(super) const UNSEEN_AGAIN: &[Race] = &[
    Race::plain(
        "File server",
        "evidence/models/unseen/fileserver.prism",
        "clients=14",
        &[
            "P=? [ log<8 U \"slow\" ]",
            "P=? [ log<8 U<=20 \"slow\" ]",
            "R{\"waiting\"}=? [ F \"slow\" ]",
            "R{\"answers\"}=? [ C<=20 ]",
            "R{\"waiting\"}=? [ I=20 ]",
            "R{\"waiting\"}=? [ S ]",
            "S=? [ mode>0 ]",
        ],
    ),
    Race::plain(
        "Gene",
        "evidence/models/unseen/gene.prism",
        "most=35",
        &[
            "P=? [ on U p>=10 ]",
            "P=? [ on U<=10 p>=10 ]",
            "R{\"proteins\"}=? [ F pairs>=12 ]",
            "R{\"proteins\"}=? [ C<=10 ]",
            "R{\"proteins\"}=? [ I=10 ]",
            "R{\"proteins\"}=? [ S ]",
            "S=? [ !on ]",
        ],
    ),
];

/// Kinds that the models above leave out. Written before their first race.
pub(super) const UNSEEN_LAST: &[Race] = &[
    Race::plain(
        "Control loop",
        "evidence/models/unseen/control-loop.prism",
        "patience=60",
        &[
            "P=? [ !\"blind\" U \"tired\" ]",
            "P=? [ F<=10 \"off\" ]",
            "R{\"running\"}=? [ F \"off\" ]",
            "R{\"shaky\"}=? [ F \"off\" ]",
            "R{\"shaky\"}=? [ C<=10 ]",
        ],
    ),
    Race::plain(
        "Downloads",
        "evidence/models/unseen/downloads.prism",
        "parts=6",
        &[
            "P=? [ e<parts U a=parts ]",
            "P=? [ F<=5 \"all\" ]",
            "R{\"held\"}=? [ F \"all\" ]",
            "R{\"held\"}=? [ C<=5 ]",
            "R{\"held\"}=? [ S ]",
            "S=? [ \"all\" ]",
        ],
    ),
];
