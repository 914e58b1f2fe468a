//! The demo's page in a real browser: it loads, moves, says nothing to the console, fits a phone and can be read in the
//! dark.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{path::Path, time::Duration};

use retryguard_parts::{Chromium, until};

use crate::demo::Demo;

/// On a loaded machine a run of the demo and a page of a browser take their time.
const PATIENCE: Duration = Duration::from_secs(180);

/// The points of the time line that are drawn so far, over both arms.
const POINTS: &str = "[...document.querySelectorAll('polyline')].map(line => (line.getAttribute('points') || '').split(' ').length).reduce((sum, points) => sum + points, 0)";

/// The contrast of every text with what it stands on, as WCAG computes it: the least of them, and whose it is.
const CONTRAST: &str = "(() => {
  const parse = color => (color.match(/[0-9.]+/g) || []).map(Number);
  const light = color => {
    const [r, g, b] = color.map(value => value / 255).map(value => value <= .03928 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = node => {
    for (; node; node = node.parentElement) {
      const color = parse(getComputedStyle(node).backgroundColor);
      if (color.length === 3 || color[3] > .99) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  let least = [99, ''];
  for (const node of document.querySelectorAll('h1, h2, p, span, b, td, th, pre, text')) {
    if (!node.textContent.trim() || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const ink = parse(node instanceof SVGElement ? style.fill : style.color).slice(0, 3);
    const [one, two] = [light(ink), light(ground(node))];
    const ratio = (Math.max(one, two) + .05) / (Math.min(one, two) + .05);
    if (ratio < least[0]) least = [ratio, node.textContent];
  }
  return least;
})()";

/// The smallest text as it is drawn, in pixels: a drawing shrinks its text with it.
const SMALLEST: &str = "(() => {
  let least = [99, ''];
  for (const node of document.querySelectorAll('h1, h2, h3, p, span, b, td, th, pre, text')) {
    if (!node.textContent.trim() || !node.getClientRects().length) continue;
    const svg = node instanceof SVGElement ? node.ownerSVGElement : null;
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    const size = parseFloat(getComputedStyle(node).fontSize) * scale;
    if (size < least[0]) least = [size, node.textContent];
  }
  return least;
})()";

/// Texts of drawings that reach beyond their drawing.
const CLIPPED: &str = "[...document.querySelectorAll('svg text')].filter(text => {
  if (!text.textContent.trim()) return false;
  const [own, all] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
  return own.left < all.left - 1 || own.right > all.right + 1;
}).map(text => text.textContent)";

/// What stands in the graph: as many loads as edges, each with its amplification, and both state strips.
const TEXTS: &str = "[...document.querySelectorAll('svg text')].map(text => text.textContent)";

#[test]
#[ignore = "needs Chromium"]
fn the_page_moves_fits_and_can_be_read() {
    let browser = Chromium::start();
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path(), &[]);
    browser.device(1280, 900, false);
    browser.color_scheme("light");
    browser.open(&format!("http://{}/", demo.address()));
    let points = || browser.evaluate(POINTS).as_u64().unwrap();
    assert!(until(PATIENCE, || points() > 8), "nothing is drawn");
    let before = points();
    assert!(until(PATIENCE, || points() > before), "the page does not move");
    assert!(
        until(PATIENCE, || all_edges(&browser)),
        "no load on the edges: {}",
        browser.evaluate(TEXTS)
    );
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("dark", 390), ("light", 390)] {
        browser.color_scheme(scheme);
        browser.device(width, 844, width < 600);
        look(&browser, scheme, width);
        texts_are_whole(&browser, width);
    }
    drop(demo);
    let said = browser.console();
    // The demo was ended under the page: that its stream broke off is all that may be told.
    let unexpected: Vec<_> = said.iter().filter(|line| !line.contains("/events")).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}

/// Whether every edge between the services has its load and its amplification, and the strips their titles.
fn all_edges(browser: &Chromium) -> bool {
    let texts = browser.evaluate(TEXTS);
    let texts: Vec<&str> = texts
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|text| text.as_str())
        .collect();
    let loads = texts.iter().filter(|text| text.ends_with("/s")).count();
    let amplified = texts.iter().filter(|text| text.starts_with('×')).count();
    let strips = ["breaker towards payments", "retries"];
    loads >= 5 && amplified >= 4 && strips.iter().all(|strip| texts.contains(strip))
}

fn look(browser: &Chromium, scheme: &str, width: u32) {
    let told = browser.evaluate("matchMedia('(prefers-color-scheme: dark)').matches");
    assert_eq!(told, scheme == "dark", "the browser does not play along");
    let wide = browser
        .evaluate("document.documentElement.scrollWidth")
        .as_u64()
        .unwrap();
    assert!(
        wide <= u64::from(width),
        "{wide} pixels on a screen of {width}: the page scrolls sideways"
    );
    let least = browser.evaluate(CONTRAST);
    // What WCAG 2 wants of ordinary text (AA).
    assert!(
        least[0].as_f64().unwrap() >= 4.5,
        "{scheme}: too little contrast of {}",
        least[1]
    );
}

/// No text is too small to read, and none reaches beyond its drawing.
fn texts_are_whole(browser: &Chromium, width: u32) {
    let smallest = browser.evaluate(SMALLEST);
    assert!(
        smallest[0].as_f64().unwrap() >= 11.0,
        "{width}: {} is only {} pixels high",
        smallest[1],
        smallest[0]
    );
    let clipped = browser.evaluate(CLIPPED);
    assert_eq!(clipped, serde_json::json!([]), "{width}: texts are cut off");
}

/// The simulator's reports are pages too. Their charts and tables scroll sideways inside the page, at a size that can be read.
#[test]
#[ignore = "needs Chromium"]
fn the_reports_of_the_simulator_fit_a_phone_and_can_be_read() {
    let browser = Chromium::start();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evidence");
    for name in ["table1-aws", "table1-istio", "safe-clients"] {
        let page = folder.join(name).join("index.html").canonicalize().unwrap();
        for scheme in ["dark", "light"] {
            browser.device(390, 844, true);
            browser.color_scheme(scheme);
            browser.open(&format!("file://{}", page.display()));
            look(&browser, scheme, 390);
            texts_are_whole(&browser, 390);
        }
    }
    assert_eq!(browser.console(), Vec::<String>::new());
}
