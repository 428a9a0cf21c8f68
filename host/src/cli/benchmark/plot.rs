//! Lines in a square: throughput over connections or tokens, both on scales of powers of ten.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 40.0;
/// Colours that can be told apart without seeing red and green apart.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#666666", "#000000"];

/// A line: its name and points.
pub struct Line {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

/// Draws the lines that have points, as SVG.
pub fn svg(title: &str, axis: &str, lines: &[Line]) -> String {
    let points =
        || lines.iter().flat_map(|line| &line.points).filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let (across, up) = (Scale::of(points().map(|(x, _)| *x)), Scale::of(points().map(|(_, y)| *y)));
    let at_x = |x: f64| LEFT + across.part(x) * (WIDTH - LEFT - RIGHT);
    let at_y = |y: f64| HEIGHT - BOTTOM - up.part(y) * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
        font-family=\"sans-serif\" font-size=\"11\"><title>{title}</title>\
        <text x=\"{LEFT}\" y=\"18\" font-size=\"13\">{title}, per second</text>"
    );
    for power in up.powers() {
        let (y, label) = (at_y(power), short(power));
        let (end, text) = (WIDTH - RIGHT, LEFT - 6.0);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
            <text x=\"{text}\" y=\"{y:.1}\" text-anchor=\"end\" dy=\"4\">{label}</text>"
        );
    }
    for power in across.powers() {
        let (x, y, label) = (at_x(power), HEIGHT - BOTTOM + 16.0, short(power));
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>");
    }
    let (x, y) = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6.0);
    let _ = write!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{axis}</text>");
    for ((number, line), colour) in lines.iter().enumerate().zip(COLOURS.iter().cycle()) {
        let mut path = String::new();
        for (x, y) in &line.points {
            let _ = write!(path, "{:.1},{:.1} ", at_x(*x), at_y(*y));
        }
        #[expect(clippy::cast_precision_loss, reason = "a handful of lines")]
        let (x, y) = (WIDTH - RIGHT + 10.0, TOP + 10.0 + 16.0 * number as f64);
        let (name, path) = (line.name, path.trim_end());
        let _ = write!(
            svg,
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
            <text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{name}</text>"
        );
    }
    svg.push_str("</svg>");
    svg
}

/// From one power of ten to another.
struct Scale {
    first: i32,
    last: i32,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (mut first, mut last) = (i32::MAX, i32::MIN);
        for value in values {
            let power = value.log10();
            #[expect(clippy::cast_possible_truncation, reason = "powers of counts")]
            let (below, above) = (power.floor() as i32, power.ceil() as i32);
            (first, last) = (first.min(below), last.max(above));
        }
        if first >= last {
            Self { first: last.min(first).clamp(-9, 9), last: first.clamp(-9, 9) + 1 }
        } else {
            Self { first, last }
        }
    }

    fn part(&self, value: f64) -> f64 {
        (value.max(f64::MIN_POSITIVE).log10() - f64::from(self.first))
            / f64::from(self.last - self.first)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.first..=self.last).map(|power| 10_f64.powi(power))
    }
}

fn short(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", value / 1e6),
        1e3.. => format!("{} k", value / 1e3),
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Scale, svg};

    #[test]
    fn points_lie_between_powers_of_ten() {
        let scale = Scale::of([12.0, 900.0].into_iter());
        assert_eq!((scale.first, scale.last), (1, 3));
        assert!((scale.part(10.0) - 0.0).abs() < 1e-9 && (scale.part(100.0) - 0.5).abs() < 1e-9);
        let scale = Scale::of([100.0].into_iter());
        assert_eq!((scale.first, scale.last), (2, 3));
    }

    #[test]
    fn a_plot_has_a_line_for_each_and_a_title() {
        let points = vec![(1.0, 900.0), (64.0, 12_000.0), (1_000.0, 11_000.0)];
        let lines = [
            Line { name: "get", points: points.clone() },
            Line { name: "create", points: vec![(1.0, 300.0)] },
        ];
        let svg = svg("Throughput", "connections", &lines);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("<title>Throughput</title>") && svg.contains("10 k"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        // Nothing measured is no reason to fail.
        assert!(!super::svg("None", "tokens", &[]).contains("NaN"));
    }
}
