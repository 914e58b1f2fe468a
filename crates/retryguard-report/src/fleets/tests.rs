use super::*;

fn small() -> Outcome {
    let text = "
clients: 100
fleets:
  - {name: one, pace: fixed, start: at-once, duration: 10m, expect: [{until: 1s, rate: 300, within: 0}]}
  - {name: two, duration: 10m, failures: [{share: 50%}], expect: [{until: 10m, rate: 7, within: 0.1}]}
";
    run(Fleets::parse(text, "small").unwrap(), 3, 4, &|| ())
}

#[test]
fn the_table_says_which_claims_do_not_hold() {
    let table = print::table(&small());
    assert!(
        table.contains("1 of 1 hold") && table.contains("0 of 1 hold"),
        "{table}"
    );
    assert!(table.contains("two: 0–600 s: 7 ± 0.1, found 1.0000"), "{table}");
    let last = table.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("one peaks at 300.0 times the even rate, two at ")
            && last.ends_with("; 1 of 2 claims do not hold."),
        "{last}"
    );
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
}

#[test]
fn the_json_has_the_keys_of_every_simulation() {
    let json = print::json(&small());
    assert_eq!(json["seed"], 3);
    let [one, two] = json["policies"].as_array().unwrap().as_slice() else {
        unreachable!("two fleets")
    };
    assert_eq!(
        (&one["name"], &one["calls"]["mean"]),
        (&serde_json::json!("one"), &serde_json::json!(200.0))
    );
    assert_eq!(one["expect"][0]["holds"], true);
    assert_eq!(two["expect"][0]["holds"], false);
    let [low, high] = [0, 1].map(|end| two["rejectionRate"]["ci95"][end].as_f64().unwrap());
    assert!(low < 0.5 && 0.5 < high && high - low < 0.2, "{low} {high}");
}

#[test]
fn the_csv_adds_up() {
    let csv = print::csv(&small());
    let ones: u64 = csv
        .lines()
        .filter(|line| line.starts_with("one,"))
        .map(|line| line.split(',').nth(2).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(ones, 200);
}
