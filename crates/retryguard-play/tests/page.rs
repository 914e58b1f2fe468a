//! The playground from outside: its interface, and its page in a real browser.

use std::{path::Path, time::Duration};

use retryguard_parts::{Chromium, key, until};
use serde_json::{Value, json};

/// On a loaded machine a browser takes its time.
const PATIENCE: Duration = Duration::from_secs(120);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

#[test]
fn a_policy_with_a_mistake_is_answered_by_it_and_the_others_run() {
    let answer = retryguard_play::answer(&json!({
        "world": {"load": 70, "lost": 85},
        "policies": [
            {"use": "immediate"},
            {"use": "retryguard"},
            {"name": "mine", "text": "defaults: {maxRetrys: 1}"},
            {"name": "retryguard", "text": "AWS_RETRY_MODE=standard\n"},
            {"use": "none"},
        ],
    }))
    .expect("an answer");
    let columns = answer["policies"].as_array().expect("columns");
    assert_eq!(columns.len(), 4, "at most four are compared");
    assert!(
        columns[2]["mistakes"][0]["message"]
            .as_str()
            .expect("a text")
            .contains("maxRetrys")
    );
    assert_eq!(columns[3]["name"], "retryguard (4)");
    let success = |index: usize| columns[index]["success"].as_f64().expect("a share");
    assert!(success(1) > success(0), "{} {}", success(1), success(0));
    let verdict = answer["verdict"].as_str().expect("a sentence");
    assert!(verdict.contains("served"), "{verdict}");
    // What can be copied can be run.
    let text = answer["scenario"].as_str().expect("a text");
    retryguard_sim::scenario::Scenario::parse(text, "copied", &mut |_| Err("no files".to_owned()))
        .unwrap_or_else(|error| panic!("{text}\n{error}"));
}

/// In the storm of random errors two others lead and none is last: the sentence left out the policy that the page is about.
#[test]
fn the_verdict_names_ours_wherever_it_stands() {
    let policies = ["none", "immediate", "finagle", "retryguard"].map(|name| json!({"use": name}));
    let world = json!({"load": 60, "errors": 20, "lost": 0});
    let answer = retryguard_play::answer(&json!({"world": world, "policies": policies})).expect("an answer");
    let verdict = answer["verdict"].as_str().expect("a sentence");
    assert_eq!(verdict.matches("`retryguard`").count(), 1, "{verdict}");
}

/// A link from elsewhere must not ask for more than a page can show.
#[test]
fn what_is_out_of_range_is_brought_into_it() {
    let policies = json!([{"use": "none"}]);
    let wild = json!({"world": {"load": 1e9, "queue": -5, "clients": 1e12, "deadline": null, "slow": "x"}, "policies": policies});
    let bound = json!({"world": {"load": 300, "queue": 0, "clients": 1000}, "policies": policies});
    let answer = |request: &Value| retryguard_play::answer(request).expect("an answer")["policies"].clone();
    assert_eq!(answer(&wild), answer(&bound));
    assert!(retryguard_play::answer(&json!({"policies": []})).is_err());
}

#[test]
fn findings_of_other_systems_stand_on_their_own_lines() {
    let text = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nspec:\n  hosts: [a]\n  http:\n  - route: \
                [{destination: {host: a}}]\n    retries: {attempts: 9}\n";
    let all = retryguard_play::diagnostics(text);
    let found = all
        .as_array()
        .expect("a list")
        .iter()
        .any(|one| one["code"] == "RG001" && one["line"] == 7);
    assert!(found, "{all}");
}

#[test]
fn only_this_machine_is_served() {
    let runtime = runtime();
    let refused = runtime.block_on(retryguard_play::serve(([0, 0, 0, 0], 0).into()));
    assert!(refused.is_err());
    let server = runtime
        .block_on(retryguard_play::serve(([127, 0, 0, 1], 0).into()))
        .expect("a server");
    let ask = |host: &str| -> String {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(server.address()).expect("a connection");
        write!(
            stream,
            "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
        )
        .expect("a request");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    };
    assert!(ask("localhost:1").starts_with("HTTP/1.1 200"));
    assert!(ask("evil.example").starts_with("HTTP/1.1 403"));
    let page = ask("127.0.0.1");
    assert!(
        page.contains("capacity-loss") && !page.contains("https://"),
        "nothing is loaded from elsewhere"
    );
}

#[test]
#[ignore = "needs Chromium"]
fn the_page_redraws_shares_and_fits() {
    let browser = Chromium::start();
    let runtime = runtime();
    let server = runtime
        .block_on(retryguard_play::serve(([127, 0, 0, 1], 0).into()))
        .expect("a server");
    let url = format!("http://{}/", server.address());
    let runs = || {
        browser
            .evaluate("Number(document.body.dataset.runs ?? 0)")
            .as_u64()
            .unwrap_or(0)
    };
    let text = |expression: &str| {
        browser
            .evaluate(expression)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    browser.device(1280, 900, false);
    browser.open(&format!("{url}#storm=capacity-loss"));
    assert!(until(PATIENCE, || runs() > 0), "nothing is drawn");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#columns svg').length"),
        4
    );
    let verdict = text("document.getElementById('verdict').textContent");
    assert!(
        verdict.contains("served") && !verdict.contains('`'),
        "a name is no source text on a page: {verdict}"
    );
    // A slider redraws, and the address holds what is set.
    let before = runs();
    let _ = browser.evaluate(
        "(() => { const input = document.querySelector('input[data-key=load]'); input.value = 30; \
         input.dispatchEvent(new Event('input')); return 1; })()",
    );
    assert!(until(PATIENCE, || runs() > before), "a slider does not redraw");
    // A figure for people: how fast it is depends on the machine and on what else it does.
    eprintln!(
        "redrawn after {} ms",
        text("document.body.dataset.took ?? 'unknown'")
    );
    let hash = text("decodeURIComponent(location.hash)");
    assert!(hash.contains("\"load\":30"), "{hash}");
    // An editor with a mistake names its line.
    let _ = browser.evaluate(
        "(() => { document.querySelectorAll('#columns select')[0].value = ''; \
         document.querySelectorAll('#columns select')[0].dispatchEvent(new Event('change')); \
         const editor = document.querySelector('textarea'); editor.value = 'defaults:\\n  maxRetrys: 1\\n'; \
         editor.dispatchEvent(new Event('input')); return 1; })()",
    );
    let told =
        || text("[...document.querySelectorAll('#columns li')].map(item => item.textContent).join('; ')");
    assert!(
        until(PATIENCE, || told().contains("line 2: unknown key `maxRetrys`")),
        "{}",
        told()
    );
    // What was shared is what is opened.
    let shared = text("location.href");
    browser.open("about:blank");
    browser.open(&shared);
    assert!(
        until(PATIENCE, || runs() > 0 && told().contains("maxRetrys")),
        "{}",
        told()
    );
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("dark", 390), ("light", 390)] {
        browser.color_scheme(scheme);
        browser.device(width, 844, width < 600);
        let wide = browser
            .evaluate("document.documentElement.scrollWidth")
            .as_u64()
            .unwrap_or(u64::MAX);
        assert!(wide <= u64::from(width), "{wide} pixels on a screen of {width}");
    }
    // Every control can be reached by the keyboard and has a name.
    let nameless = text(
        "[...document.querySelectorAll('button, select, input, textarea')].filter(node => node.tabIndex < 0 || \
         !(node.getAttribute('aria-label') || node.textContent.trim())).map(node => node.outerHTML).join()",
    );
    assert_eq!(nameless, "");
    if let Some(folder) = std::env::var_os("RETRYGUARD_PICTURES") {
        pictures(&browser, &url, Path::new(&folder));
    }
    assert_eq!(browser.console(), Vec::<String>::new());
}

#[test]
#[ignore = "needs Chromium"]
fn the_page_is_used_by_keyboard_alone() {
    let browser = Chromium::start();
    let runtime = runtime();
    let server = runtime
        .block_on(retryguard_play::serve(([127, 0, 0, 1], 0).into()))
        .expect("a server");
    browser.device(1280, 900, false);
    browser.open(&format!("http://{}/", server.address()));
    let runs = || {
        browser
            .evaluate("Number(document.body.dataset.runs ?? 0)")
            .as_u64()
    };
    let text = |expression: &str| {
        let value = browser.evaluate(expression);
        value.as_str().unwrap_or_default().to_owned()
    };
    let focus = || {
        text(
            "(() => { const node = document.activeElement; return node === document.body ? '' : \
             node.getAttribute('aria-label') ?? node.textContent.trim(); })()",
        )
    };
    assert!(until(PATIENCE, || runs() > Some(0)), "nothing is drawn");

    // Tab goes through every control once, in the order of the page, and shows where it is.
    let all = browser
        .evaluate(
            "document.querySelectorAll('button:enabled, select, input, textarea, summary, a[href]').length",
        )
        .as_u64()
        .expect("a number");
    let mut names = Vec::new();
    for _ in 0..all {
        browser.press(key::TAB);
        let outlined = text(
            "(() => { const style = getComputedStyle(document.activeElement); return style.outlineStyle + ' ' + \
             style.outlineWidth; })()",
        );
        assert_eq!(outlined, "solid 2px", "the focus on {:?} cannot be seen", focus());
        names.push(focus());
    }
    assert_eq!(names.first().map(String::as_str), Some("Skip to the policies"));
    let place = |name: &str| names.iter().position(|known| known == name);
    let places = ["Add a policy", "capacity-loss", "Load", "Policy 1", "Policy 3"].map(place);
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{names:?}"
    );

    // The skip leads to the policies; a choice keeps the focus, although the columns are made anew.
    browser.open("about:blank");
    browser.open(&format!("http://{}/", server.address()));
    assert!(until(PATIENCE, || runs() > Some(0)));
    browser.press(key::TAB);
    browser.press(key::ENTER);
    assert_eq!(focus(), "Policy 1");
    let (before, chosen) = (runs(), text("document.activeElement.value"));
    browser.press(key::DOWN);
    assert_ne!(
        text("document.activeElement.value"),
        chosen,
        "the choice did not change"
    );
    assert_eq!(focus(), "Policy 1");
    assert!(until(PATIENCE, || runs() > before), "a choice does not redraw");
    // So does a removal.
    browser.press(key::TAB);
    assert_eq!(focus(), "Remove policy 1");
    browser.press(key::ENTER);
    assert_eq!(focus(), "Policy 1");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#columns > section').length"),
        2
    );
    // A new policy is written: Tab leads into its editor and out of it, Escape back to its choice.
    let _ = browser.evaluate("document.getElementById('add').focus()");
    browser.press(key::ENTER);
    assert_eq!(focus(), "Policy 3");
    browser.press(&key::TAB.repeat(3));
    assert_eq!(focus(), "Policy text");
    let before = runs();
    browser.press("# x");
    assert!(until(PATIENCE, || runs() > before), "the editor does not redraw");
    browser.press(key::ESCAPE);
    assert_eq!(focus(), "Policy 3");
    // An arrow moves a slider, and the world with it.
    let _ = browser.evaluate("document.querySelector('input[data-key=load]').focus()");
    let load = || text("document.activeElement.getAttribute('aria-valuetext')");
    let (before, set) = (runs(), load());
    browser.press(key::RIGHT);
    assert_ne!(load(), set);
    assert!(until(PATIENCE, || runs() > before), "a slider does not redraw");
    // A storm of the gallery is a link.
    let _ = browser.evaluate("document.querySelector('#gallery a').focus()");
    browser.press(key::ENTER);
    assert!(until(PATIENCE, || text("location.hash").starts_with("#storm=")));
    assert_eq!(browser.console(), Vec::<String>::new());
}

/// For people to look at.
fn pictures(browser: &Chromium, url: &str, folder: &Path) {
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)] {
        browser.color_scheme(scheme);
        browser.device(width, 844, width < 600);
        browser.open("about:blank");
        browser.open(&format!("{url}#storm=capacity-loss"));
        let drawn = || browser.evaluate("document.querySelectorAll('#columns svg').length") == 4;
        assert!(until(PATIENCE, drawn));
        std::fs::write(
            folder.join(format!("play-{scheme}-{width}.png")),
            browser.picture(),
        )
        .expect("a picture");
    }
}
