//! What came out, for scripts and pages: `cellpace.paper/1`.

use cellpace_report::{PageTable, indented};
use serde::Serialize;

use crate::charts::{DrawnChart, charts};
use crate::depth::Depth;
use crate::run::ClaimResult;
use crate::{CheckResult, PaperError, Verdict};

/// What stands above the claims of a page.
#[derive(Debug, Clone, Serialize)]
pub struct Front {
    /// The heading.
    pub title: String,
    /// What came out of all.
    pub sentence: String,
    /// Tables.
    pub tables: Vec<PageTable>,
    /// Whether it is about several papers: of their claims the page then has those with a headline.
    #[serde(skip)]
    pub is_index: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    depth: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<&'a Front>,
    claims: Vec<ClaimDocument<'a>>,
}

#[derive(Serialize)]
struct ClaimDocument<'a> {
    id: &'a str,
    r#where: &'a str,
    says: &'a str,
    /// On a front page: what is said of it there, and the page that has all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    headline: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'a str>,
    verdict: Verdict,
    expected: Verdict,
    shown: String,
    because: &'a str,
    run_it: String,
    on_generated_traces: bool,
    /// Why there is no verdict, where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    unrun: Option<String>,
    seconds: f64,
    original: Vec<(&'a str, String)>,
    checks: &'a [CheckResult],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    charts: Vec<DrawnChart>,
}

/// Results as a document. With a front it has what a page draws, too.
///
/// # Errors
/// When a chart selects what is not there.
pub fn document(
    results: &[&ClaimResult<'_>],
    depth: Depth,
    front: Option<&Front>,
) -> Result<String, PaperError> {
    let is_index = front.is_some_and(|front| front.is_index);
    let results = results.iter().filter(|result| !is_index || result.claim.headline.is_some());
    let claims = results.map(|result| {
        let claim = claim_document(result, front.is_some())?;
        let Some(headline) = result.claim.headline.as_deref().filter(|_| is_index) else {
            return Ok(claim);
        };
        let charts = claim.charts.into_iter().take(1).collect();
        let (headline, page) = (Some(headline), Some(result.claim.paper()));
        Ok(ClaimDocument { headline, page, charts, because: "", ..claim })
    });
    Ok(indented(&Document {
        schema: "cellpace.paper/1",
        version: env!("CARGO_PKG_VERSION"),
        depth: depth.name(),
        front,
        claims: claims.collect::<Result<_, _>>()?,
    }))
}

fn claim_document<'a>(
    result: &'a ClaimResult<'_>,
    is_page: bool,
) -> Result<ClaimDocument<'a>, PaperError> {
    let claim = result.claim;
    let generated = if result.is_generated { ", on generated traces" } else { "" };
    let has_runs = !claim.runs.is_empty();
    Ok(ClaimDocument {
        id: &claim.id,
        r#where: &claim.place,
        says: &claim.says,
        headline: None,
        page: None,
        verdict: result.verdict,
        expected: result.expected,
        shown: format!("{}{generated}", result.shown()),
        because: claim.because.trim(),
        run_it: if has_runs { format!("cellpace paper run {}", claim.id) } else { String::new() },
        on_generated_traces: result.is_generated,
        unrun: result.unrun.as_ref().map(|_| result.shown()),
        // Two documents of the same runs are the same.
        seconds: if is_page { 0.0 } else { result.seconds },
        original: claim.original.iter().map(|(name, value)| (&**name, value.to_string())).collect(),
        checks: &result.checks,
        charts: match is_page && result.unrun.is_none() {
            true => charts(claim, &result.records)?,
            false => Vec::new(),
        },
    })
}
