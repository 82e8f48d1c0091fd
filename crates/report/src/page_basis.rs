//! What pages of other crates share with the report: colours, style and the library of charts.

use crate::html;
use crate::page::looks_json;

/// uPlot 1.6.32 with its licence, as a script that defines `uPlot`.
pub fn uplot() -> String {
    format!("/*\n{}*/\n{}", html::UPLOT_LICENCE, html::UPLOT)
}

/// The style of uPlot, the palette as CSS variables `--c0` to `--c7`, and the style of the report,
/// for light and dark.
pub fn style() -> String {
    format!("{}\n{}\n{}\n", html::UPLOT_STYLE, html::palette_css(), html::STYLE)
}

/// A script module with the look of each controller: `lookOf(name)` has the number of its colour and the outline of
/// its mark, of radius 1.
pub fn looks() -> String {
    let all = looks_json(html::MAX_LOOKS);
    let export = "export const lookOf = (name) => all[lookPlaces([name], all.length)[0]];";
    format!("const all = {all};\n{}\n{export}\n", html::LOOKS)
}
