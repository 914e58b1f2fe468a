//! Takes a picture of a page in a real browser: `page URL FILE [WIDTH [light|dark]]`. What the console said goes to the
//! standard error.

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, file, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: page URL FILE [WIDTH [light|dark]]");
        std::process::exit(2);
    };
    let width = rest
        .first()
        .map_or(1280, |width| width.parse().expect("a width in pixels"));
    let browser = retryguard_parts::Chromium::start();
    browser.device(width, if width < 600 { 844 } else { 900 }, width < 600);
    browser.color_scheme(rest.get(1).map_or("light", String::as_str));
    browser.open(url);
    let drawn = retryguard_parts::until(std::time::Duration::from_secs(30), || {
        browser.evaluate("document.querySelectorAll('svg').length") != 0
    });
    assert!(drawn, "nothing is drawn");
    std::fs::write(file, browser.picture()).expect("the file can be written");
    for line in browser.console() {
        eprintln!("{line}");
    }
}
