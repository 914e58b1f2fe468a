//! The demo in a terminal.

use std::{io::stdout, time::Duration};

use ratatui::{
    Frame as Canvas, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        event::{self, Event, KeyCode, KeyModifiers},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    symbols::Marker,
    text::{Line, Span},
    widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph},
};
use tokio::sync::watch;

use super::{
    frame::{Arm, EdgeFrame, Frame},
    plain::words,
    timeline,
};

/// How often keys are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Shows frames until all runs are over, or a key ends it.
pub(super) async fn show(url: &str, frames: watch::Receiver<Frame>) -> anyhow::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen)?;
    let mut terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
    loop {
        let frame = frames.borrow().clone();
        terminal.draw(|canvas| draw(canvas, &frame, url))?;
        if frame.is_over() || tokio::task::spawn_blocking(ended_by_key).await?? {
            return Ok(());
        }
    }
}

/// Gives the terminal back as it was; harmless where it was never taken.
pub(super) fn restore(taken: bool) {
    if taken {
        // Nothing can be done about a terminal that is gone.
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    }
}

/// In raw mode Ctrl-C is a key like any other.
fn ended_by_key() -> anyhow::Result<bool> {
    if !event::poll(LOOK)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else {
        return Ok(false);
    };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

/// The lines that an arm needs for its chart, its facts and what acted.
const FULL: u16 = 14;

fn draw(canvas: &mut Canvas<'_>, frame: &Frame, url: &str) {
    let area = canvas.area();
    // As many arms as there is room for; those that ended before them have a line each.
    let room = usize::from(area.height.saturating_sub(3) / FULL).clamp(1, 3);
    let short = frame.arms.len().saturating_sub(room);
    let shown = frame.arms.len() - short;
    let mut heights = vec![
        Constraint::Length(2),
        Constraint::Length(u16::try_from(short).unwrap_or(0)),
    ];
    heights.extend(vec![Constraint::Fill(1); room.max(1)]);
    heights.push(Constraint::Length(1));
    let rows = Layout::vertical(heights).split(area);
    canvas.render_widget(Paragraph::new(title(frame)), rows[0]);
    let ended: Vec<Line<'_>> = frame.arms[..short].iter().map(ended).collect();
    canvas.render_widget(Paragraph::new(ended), rows[1]);
    for (index, area) in rows[2..rows.len() - 1].iter().enumerate() {
        match frame.arms.get(short + index) {
            Some(arm) => draw_arm(canvas, *area, frame, arm),
            None => {
                let next = frame
                    .titles
                    .get(short + shown.max(index))
                    .cloned()
                    .unwrap_or_default();
                canvas.render_widget(Block::bordered().title(format!(" {next}: next ")), *area);
            }
        }
    }
    let foot = format!(" page: {url}   q or Ctrl-C ends");
    canvas.render_widget(
        Paragraph::new(foot).style(Style::new().fg(Color::DarkGray)),
        rows[rows.len() - 1],
    );
}

/// An arm that has run, in a line.
fn ended(arm: &Arm) -> Line<'static> {
    let again = match arm.recovered {
        Some(seconds) => format!("paid again after {seconds:.1} s"),
        None => "never paid again".to_owned(),
    };
    Line::raw(format!(
        " {}: {} of {} orders paid, ×{:.1}, {again}",
        arm.title,
        arm.orders.paid,
        arm.orders.sent,
        arm.amplification.unwrap_or(0.0),
    ))
}

fn title(frame: &Frame) -> Vec<Line<'static>> {
    vec![
        Line::styled(
            format!(
                " RetryGuard: a retry storm at {:.0} orders/s, payments can do {:.0}/s",
                frame.offered, frame.capacity
            ),
            Style::new().add_modifier(Modifier::BOLD),
        ),
        Line::raw(format!(
            " the fault: {} from {:.0} to {:.0} s",
            frame.fault, frame.fault_from, frame.fault_until
        )),
    ]
}

fn draw_arm(canvas: &mut Canvas<'_>, area: Rect, frame: &Frame, arm: &Arm) {
    let block = Block::bordered()
        .title(format!(" {} — {} ", arm.title, words(arm.phase)))
        .title_bottom(legend());
    let inner = block.inner(area);
    canvas.render_widget(block, area);
    // What acted has at most a third of the room.
    let most = usize::from(inner.height / 3).min(arm.acted.len());
    let [upper, lower] = Layout::vertical([
        Constraint::Fill(1),
        Constraint::Length(u16::try_from(most).unwrap_or(0)),
    ])
    .areas(inner);
    let columns = Layout::horizontal([Constraint::Fill(1), Constraint::Length(42)])
        .spacing(1)
        .split(upper);
    draw_chart(canvas, columns[0], frame, arm);
    canvas.render_widget(Paragraph::new(facts(arm)), columns[1]);
    let acted: Vec<Line<'_>> = timeline::lines(frame, arm, usize::from(lower.width), most)
        .into_iter()
        .map(|line| Line::styled(line, Style::new().fg(Color::Yellow)))
        .collect();
    canvas.render_widget(Paragraph::new(acted), lower);
}

/// The lines' colours. Not the chart's own legend, which hides in a small terminal.
fn legend() -> Line<'static> {
    let part = |text, color| Span::styled(text, Style::new().fg(color));
    Line::from(vec![
        part(" ━ attempts/s at payments ", Color::Red),
        part(" ━ paid/s ", Color::Green),
        part(" ━ capacity ", Color::DarkGray),
    ])
}

fn draw_chart(canvas: &mut Canvas<'_>, area: Rect, frame: &Frame, arm: &Arm) {
    let line = |value: fn(&super::frame::Point) -> f64| -> Vec<(f64, f64)> {
        arm.points.iter().map(|point| (point.at, value(point))).collect()
    };
    let (attempts, paid) = (line(|point| point.attempts), line(|point| point.paid));
    // All arms on one scale, so that they can be compared.
    let top = frame
        .arms
        .iter()
        .flat_map(|arm| &arm.points)
        .map(|point| point.attempts)
        .fold(frame.capacity * 1.2, f64::max);
    let capacity = [(0.0, frame.capacity), (frame.length, frame.capacity)];
    let set = |color, data| {
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(color))
            .data(data)
    };
    // Labels of our own, so that it is known which column is which second.
    let [labels, graph] = Layout::horizontal([Constraint::Length(5), Constraint::Fill(1)]).areas(area);
    let [graph, seconds] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(graph);
    let chart = Chart::new(vec![
        set(Color::DarkGray, &capacity),
        set(Color::Red, &attempts),
        set(Color::Green, &paid),
    ])
    .x_axis(Axis::default().bounds([0.0, frame.length]))
    .y_axis(Axis::default().bounds([0.0, top]));
    canvas.render_widget(chart, graph);
    let (from, until) = shade(canvas, graph, frame);
    let [upper, _, lower, _] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(labels);
    canvas.render_widget(Paragraph::new(format!("{top:>4.0}")), upper);
    canvas.render_widget(Paragraph::new("   0"), lower);
    let end = format!("{:.0} s", frame.length);
    let mut axis = vec![' '; usize::from(seconds.width)];
    let mut write = |at: usize, text: &str| {
        for (place, letter) in axis.iter_mut().skip(at).zip(text.chars()) {
            *place = letter;
        }
    };
    write(0, "0 s");
    write(usize::from(seconds.width).saturating_sub(end.len()), &end);
    if until > from + 4 {
        write(usize::from(from), "fault");
    }
    canvas.render_widget(Paragraph::new(axis.into_iter().collect::<String>()), seconds);
}

/// Shades the time of the fault, and says which columns of the graph that is.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a width of at most 65535 columns"
)]
fn shade(canvas: &mut Canvas<'_>, graph: Rect, frame: &Frame) -> (u16, u16) {
    let column = |at: f64| {
        let share = (at / frame.length.max(1e-9)).clamp(0.0, 1.0);
        (share * f64::from(graph.width)).round() as u16
    };
    let (from, until) = (column(frame.fault_from), column(frame.fault_until));
    let buffer = canvas.buffer_mut();
    for x in graph.x + from..(graph.x + until).min(graph.right()) {
        for y in graph.top()..graph.bottom() {
            if let Some(cell) = buffer.cell_mut((x, y))
                && cell.symbol().trim_matches([' ', '\u{2800}']).is_empty()
            {
                cell.set_symbol("░").set_fg(Color::DarkGray);
            }
        }
    }
    (from, until)
}

fn facts(arm: &Arm) -> Vec<Line<'static>> {
    let Some(point) = arm.points.last() else {
        return vec![];
    };
    let warn = |bad: bool| Style::new().fg(if bad { Color::Red } else { Color::Green });
    let mut lines = vec![
        Line::from(vec![
            Span::raw(format!("orders {:4.0}/s  ", point.calls)),
            Span::styled(
                format!("paid {:4.0}/s", point.paid),
                warn(point.paid < 0.8 * point.calls),
            ),
        ]),
        Line::styled(
            format!(
                "attempts {:4.0}/s  amplification {:.1}",
                point.attempts, point.amplification
            ),
            warn(point.amplification > 1.5),
        ),
        Line::raw(format!(
            "waiting {} of {}  workers {}",
            arm.waiting, arm.queue, arm.workers
        )),
    ];
    lines.extend(arm.edges.iter().find(|edge| edge.to == "payments").map(states));
    lines.extend(
        arm.edges
            .iter()
            .filter(|edge| edge.to != "notifications")
            .map(edge_line),
    );
    // Last: a low terminal has no room for it.
    lines.push(Line::raw(format!(
        "in all {} orders, {} paid",
        arm.orders.sent, arm.orders.paid
    )));
    lines
}

/// What stands between orders and payments.
fn states(edge: &EdgeFrame) -> Line<'static> {
    let word = |name: &str, state: Option<&'static str>| {
        let color = match state {
            None => Color::DarkGray,
            Some("closed" | "allowed") => Color::Green,
            Some("open" | "suspended") => Color::Red,
            Some(_) => Color::Yellow,
        };
        Span::styled(
            format!("{name} {}  ", state.unwrap_or("none")),
            Style::new().fg(color),
        )
    };
    Line::from(vec![word("breaker", edge.breaker), word("guard", edge.guard)])
}

fn edge_line(edge: &EdgeFrame) -> Line<'static> {
    let ratio = if edge.calls > 0.0 {
        edge.attempts / edge.calls
    } else {
        0.0
    };
    let text = format!(
        "{:>7}→{:9} {:4.0}/s ×{ratio:.1}{}",
        edge.from,
        edge.to,
        edge.attempts,
        if edge.failing > 0.005 {
            format!(" {:.0} % fail", edge.failing * 100.0)
        } else {
            String::new()
        }
    );
    let style = if edge.failing > 0.5 {
        Style::new().fg(Color::Red)
    } else {
        Style::new()
    };
    Line::styled(text, style)
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::demo::{
        acted::{Acted, Part},
        frame::Point,
    };

    fn shown(width: u16, height: u16) -> String {
        let edge = |from, to| EdgeFrame {
            from,
            to,
            calls: 40.0,
            attempts: 1234.0,
            failing: 1.0,
            breaker: Some("half-open"),
            guard: Some("limited"),
            gain: None,
        };
        let arm = Arm {
            title: "retries and timeouts".to_owned(),
            points: vec![Point::default(); 80],
            edges: vec![
                edge("users", "gateway"),
                edge("gateway", "orders"),
                edge("orders", "payments"),
                edge("orders", "inventory"),
            ],
            acted: vec![Acted {
                part: Part::Gate,
                name: Part::Gate.name(),
                count: 321,
                spans: vec![(5.0, 9.0)],
            }],
            ..Arm::default()
        };
        let frame = Frame {
            arms: vec![arm.clone(), arm.clone(), arm],
            fault: "payments lose all workers but one".to_owned(),
            length: 20.0,
            fault_from: 4.0,
            fault_until: 8.0,
            offered: 40.0,
            capacity: 60.0,
            ..Frame::default()
        };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|canvas| draw(canvas, &frame, "http://127.0.0.1:65535/"))
            .unwrap();
        terminal.backend().to_string()
    }

    /// Words were cut off in the usual terminal: when the fault ends, and what the guard does.
    #[test]
    fn the_usual_terminal_shows_everything() {
        let text = shown(80, 24);
        for whole in [
            "payments lose all workers but one from 4 to 8 s",
            "never paid again",
            "Retry-After obeyed",
            "0 s   fault",
            "░░░░",
            "breaker half-open  guard limited",
            "orders→inventory 1234/s ×30.9 100 % fail",
            "paid/s",
            "Ctrl-C",
        ] {
            assert!(text.contains(whole), "{whole} is missing:\n{text}");
        }
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_stop() {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            shown(width, height);
        }
    }
}
