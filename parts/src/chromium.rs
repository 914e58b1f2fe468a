use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Process, free_port, http, need, wait};

/// Keys without a letter, as WebDriver numbers them (W3C WebDriver, 17.4.2).
pub mod key {
    /// Enter.
    pub const ENTER: &str = "\u{E007}";
    /// Tab.
    pub const TAB: &str = "\u{E004}";
    /// Escape.
    pub const ESCAPE: &str = "\u{E00C}";
    /// Arrow right.
    pub const RIGHT: &str = "\u{E014}";
    /// Arrow down.
    pub const DOWN: &str = "\u{E015}";
}

/// The longest that the browser may take for one command.
const PATIENCE: Duration = Duration::from_secs(120);

/// A Chromium without a window, in a folder of its own, driven over WebDriver.
#[derive(Debug)]
pub struct Chromium {
    port: u16,
    session: String,
    // In this order: the driver ends before the folder of its browser is removed.
    driver: Process,
    _folder: TempDir,
}

impl Chromium {
    /// Starts one, or panics where it is not on this machine (see [`need`]).
    ///
    /// # Panics
    /// When the browser is there and does not come up, with what its driver said.
    #[must_use]
    pub fn start() -> Self {
        let (browser, program) = (need("chromium"), need("chromedriver"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Another process may take the free port first.
        for _ in 0..3 {
            let port = free_port();
            let mut driver = launch(&program, folder.path(), port);
            let mut gone = false;
            let came = wait::until(Duration::from_secs(60), || {
                gone = !driver.runs();
                gone || http::status(port, "/status") == Some(200)
            });
            if came && !gone {
                let session = open(port, &browser, folder.path());
                return Self {
                    port,
                    session,
                    driver,
                    _folder: folder,
                };
            }
        }
        panic!(
            "chromedriver does not come up on loopback:\n{}",
            said(folder.path())
        );
    }

    /// Loads a page and waits until it is there.
    pub fn open(&self, url: &str) {
        self.command("POST", "url", &json!({"url": url}));
    }

    /// The value of an expression in the page.
    #[must_use]
    pub fn evaluate(&self, expression: &str) -> Value {
        self.command(
            "POST",
            "execute/sync",
            &json!({"script": format!("return {expression};"), "args": []}),
        )
    }

    /// Presses keys one after the other, at whatever has the focus; special keys are those of [`key`].
    pub fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                let key = key.to_string();
                [
                    json!({"type": "keyDown", "value": key}),
                    json!({"type": "keyUp", "value": key}),
                ]
            })
            .collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        self.command("POST", "actions", &json!({"actions": [keyboard]}));
    }

    /// Makes the window as large as a device's; phones also scale and touch.
    pub fn device(&self, width: u32, height: u32, is_phone: bool) {
        self.develop(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": if is_phone { 2 } else { 1 }, "mobile": is_phone}),
        );
    }

    /// The colour scheme that the browser reports to the page: `light` or `dark`.
    pub fn color_scheme(&self, wish: &str) {
        self.develop(
            "Emulation.setEmulatedMedia",
            &json!({"features": [{"name": "prefers-color-scheme", "value": wish}]}),
        );
    }

    /// What the console said since it was last asked, as `LEVEL text`.
    #[must_use]
    pub fn console(&self) -> Vec<String> {
        let lines = self.command("POST", "se/log", &json!({"type": "browser"}));
        lines
            .as_array()
            .into_iter()
            .flatten()
            .map(|line| {
                format!(
                    "{} {}",
                    line["level"].as_str().unwrap_or("?"),
                    line["message"].as_str().unwrap_or("?")
                )
            })
            .collect()
    }

    /// A picture of the whole page, as PNG.
    ///
    /// # Panics
    /// When the browser answers with something else.
    #[must_use]
    pub fn picture(&self) -> Vec<u8> {
        let size = self.develop("Page.getLayoutMetrics", &json!({}));
        let size = &size["cssContentSize"];
        let answer = self.develop(
            "Page.captureScreenshot",
            &json!({
                "format": "png",
                "captureBeyondViewport": true,
                "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
            }),
        );
        let text = answer["data"].as_str().expect("a picture");
        STANDARD.decode(text).expect("base 64")
    }

    /// A command of the protocol for developers.
    fn develop(&self, command: &str, parameters: &Value) -> Value {
        self.command(
            "POST",
            "goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        )
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{path}", self.session);
        let answer = ask(self.port, method, &path, body).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(answer["error"].is_null(), "{path}: {}", answer["message"]);
        answer
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The browser is the driver's child: only the driver ends it. A browser that has crashed is gone already.
        let _ = ask(
            self.port,
            "DELETE",
            &format!("/session/{}", self.session),
            &json!({}),
        );
        self.driver.stop(Duration::from_secs(10));
    }
}

fn launch(program: &Path, folder: &Path, port: u16) -> Process {
    let log = std::fs::File::create(folder.join("log")).expect("a temporary file");
    let mut command = Command::new(program);
    command
        .arg(format!("--port={port}"))
        .stdout(Stdio::null())
        .stderr(log);
    Process::start(command).expect("chromedriver starts")
}

fn open(port: u16, browser: &Path, folder: &Path) -> String {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let wanted = json!({"capabilities": {"alwaysMatch": {
        "goog:loggingPrefs": {"browser": "ALL"},
        "goog:chromeOptions": {"binary": browser, "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", profile,
        ]},
    }}});
    let answer = ask(port, "POST", "/session", &wanted)
        .unwrap_or_else(|error| panic!("no answer of chromedriver: {error}\n{}", said(folder)));
    answer["sessionId"]
        .as_str()
        .unwrap_or_else(|| panic!("chromium does not come up: {}", answer["message"]))
        .to_owned()
}

/// One command of WebDriver: JSON there, JSON back.
fn ask(port: u16, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = body.to_string();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let answer = read_answer(BufReader::new(stream))?;
    let answer: Value = serde_json::from_slice(&answer).map_err(std::io::Error::other)?;
    Ok(answer["value"].clone())
}

/// The body of an answer. By its length: the driver keeps connections open, whatever it is asked.
fn read_answer(mut stream: impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut length = 0;
    let mut line = String::new();
    while stream.read_line(&mut line)? > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn said(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}
