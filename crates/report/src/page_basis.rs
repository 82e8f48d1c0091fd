//! What pages of other crates share with the report: colours, style, and what draws charts.

use crate::html;
use crate::page::looks_json;

/// What a page that draws charts takes from [`charts`].
const EXPORTS: &str = "EVENTS, LEAST_DELAY, clock, dot, drawChart, element, fillLegend, highest, known, lookPlaces, looks, one, recolour, updateChart";

/// uPlot 1.6.32 with its licence, as a script that defines `uPlot`.
pub fn uplot() -> String {
    format!("/*\n{}*/\n{}", html::UPLOT_LICENCE, html::UPLOT)
}

/// The style of uPlot, the palette as CSS variables `--c0` to `--c7`, and the style of the report,
/// for light and dark.
pub fn style() -> String {
    format!("{}\n{}\n{}\n", html::UPLOT_STYLE, html::palette_css(), html::STYLE)
}

/// The scripts that draw the report's charts, as a module: `drawChart` and `updateChart` with what
/// they need, the looks of controllers among it. A page loads [`uplot`] before it, and calls
/// `recolour()` before it draws in other colours, light or dark.
pub fn charts() -> String {
    let scripts = html::script(&html::CHARTS);
    let all = looks_json(html::MAX_LOOKS);
    format!(
        "{scripts}looks = {all};\nfunction recolour() {{ colours = pageColours(); }}\nrecolour();\n\
         export {{ {EXPORTS} }};\n"
    )
}
