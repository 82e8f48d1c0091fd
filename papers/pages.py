"""What came out, as a document (``cellpace.paper/1``) and as pages: one for each paper, and one for all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cellpace as cp
from papers import today
from papers.charts import charts
from papers.claims import PAPERS, VERDICTS, Claim
from papers.recordings import recording
from papers.runner import Outcome

HEADLINES = [
    "verus-abstract-delay",
    "verus-abstract-sprout",
    "verus-table1",
    "mdi-abstract",
    "mdi-fairness",
    "alcc-abstract",
    "alcc-bloat",
    "alcc-fig12",
    "highway-table1",
    "highway-fig11",
]
"""What the papers are known for: the claims of the front page, in its order; each has a ``headline``."""


def document(outcomes: Iterable[Outcome], depth: str, front: dict[str, Any] | None = None) -> str:
    """What came out. With a front it has what a page draws, too."""
    claims = [_claim(outcome, front is not None) for outcome in outcomes]
    written = {"schema": "cellpace.paper/1", "version": cp.__version__, "depth": depth, "claims": claims}
    return json.dumps(_finite(written | ({} if front is None else {"front": front})), indent=2, ensure_ascii=False)


def write_pages(outcomes: list[Outcome], depth: str, folder: Path) -> None:
    """Writes the pages, ``index.html`` and a table of how many claims have which verdict (``counts.md``)."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = [outcome for outcome in outcomes if outcome.claim.paper not in PAPERS]
    outcomes = [outcome for outcome in outcomes if outcome.claim.paper in PAPERS]
    if beside:
        _write_ten_years(outcomes, beside, depth, folder)
    for paper in dict.fromkeys(outcome.claim.paper for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.claim.paper == paper]
        _write(folder, paper, document(own, depth, _front(paper, own)))
    famous = [outcome for outcome in outcomes if outcome.claim.headline is not None]
    famous.sort(key=lambda outcome: HEADLINES.index(outcome.claim.id))
    text = document(famous, depth, _index(outcomes, famous))
    index = json.loads(text)
    for claim, outcome in zip(index["claims"], famous, strict=True):
        claim |= {"headline": outcome.claim.headline, "page": outcome.claim.paper, "because": ""}
        claim["charts"] = claim["charts"][:1]
    _write(folder, "index", json.dumps(index))
    cp._report.write_text(folder / "counts.md", markdown(*count_rows(outcomes)))


def _write_ten_years(outcomes: list[Outcome], beside: list[Outcome], depth: str, folder: Path) -> None:
    """Writes the report for people who know the field; ``beside`` are the runs of today's controllers."""
    columns, counts = count_rows(outcomes)
    tables = [_table("All claims", columns, counts), *(_table(*table) for table in today.tables(outcomes))]
    front = {"title": "Ten years after Verus", "sentence": _limits(outcomes), "tables": tables}
    _write(folder, today.NAME, document(beside, depth, front))


def count_rows(outcomes: list[Outcome]) -> tuple[list[str], list[list[Any]]]:
    """How many claims of each paper have which verdict: header and rows of a table."""
    rows = []
    for paper in [*dict.fromkeys(outcome.claim.paper for outcome in outcomes), "all"]:
        own = [_counted(outcome) for outcome in outcomes if paper in ("all", outcome.claim.paper)]
        rows.append([paper, len(own), *(own.count(verdict) for verdict in VERDICTS)])
    return ["paper", "claims", *VERDICTS], rows


def _counted(outcome: Outcome) -> str:
    return outcome.claim.verdict if outcome.verdict == outcome.claim.expected else outcome.verdict


def variants_of(outcome: Outcome) -> list[str]:
    """What came out of other forms of the protocol, and of the sweep, in a line each."""
    lines = []
    if len(outcome.forms) > 1:
        lines.append("; ".join(f"{tried.variant.value}: {tried.verdict}" for tried in outcome.forms))
    if outcome.sweep:
        others = [tried for tried in outcome.sweep if tried.holds != outcome.forms[0].holds]
        where = "; ".join(f"{tried.variant.what} {tried.variant.value}: {tried.verdict}" for tried in others)
        lines.append(outcome.swept + (f" ({where})" if where else ""))
    return lines


_LISTING = """# Claims of papers

Every figure, table and claim of the papers with the verdict that `./dev papers run` has to give.
[What the verdicts mean](../how-to/papers.md).
"""


def listing(claims: list[Claim]) -> str:
    """A page of all claims in Markdown, with the reason of each verdict."""
    parts = [_LISTING]
    for paper in dict.fromkeys(claim.paper for claim in claims):
        own = [claim for claim in claims if claim.paper == paper]
        rows = [[f"`{one.id}`", *map(_cell, (one.where, one.says, one.verdict, one.because))] for one in own]
        parts.append(f"## {paper}\n\n" + markdown(["id", "where", "the paper says", "verdict", "why"], rows))
    return "\n".join(parts)


def markdown(header: list[str], rows: list[list[Any]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(map(str, line))} |\n" for line in (header, *rows)]
    return "".join([lines[0], "|" + "---|" * len(header) + "\n", *lines[1:]])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _write(folder: Path, name: str, text: str) -> None:
    cp._report.write_text(folder / f"{name}.html", cp._report.page_of([(name, text)]))


def _finite(value: Any) -> Any:
    """A document without numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(of) for of in value]
    return None if isinstance(value, float) and value - value != 0 else value


def _claim(outcome: Outcome, is_page: bool) -> dict[str, Any]:
    claim = outcome.claim
    found: dict[str, Any] = {
        "id": claim.id,
        "where": claim.where,
        "says": claim.says,
        "verdict": outcome.verdict,
        "expected": outcome.expected,
        "shown": outcome.shown,
        "because": claim.because,
        "run_it": f"./dev papers run {claim.id}" if claim.runs else "",
        "on_generated_traces": outcome.on_generated_traces,
        # Two pages of the same runs are the same.
        "seconds": 0.0 if is_page else outcome.seconds,
        "original": [[name, json.dumps(value, ensure_ascii=False)] for name, value in claim.original.items()],
        "checks": [
            {
                "name": result.check.name,
                "level": result.check.level,
                "run": result.check.run.name,
                "setup": result.check.run.setup,
                "passed": result.passed,
                "is_noise": result.is_noise,
                "value": result.value,
                "bound": result.bound,
                "place": result.place,
                "half_width": result.half_width,
                "repetitions": result.repetitions,
                "bound_of": result.check.bound,
                "evidence": result.check.run.evidence,
            }
            for result in outcome.results
        ],
    }
    found["forms"] = [[tried.variant.value, tried.verdict] for tried in outcome.forms]
    found["sweep"] = [[tried.variant.what, tried.variant.value, tried.verdict] for tried in outcome.sweep]
    if outcome.unrun is not None:
        found["unrun"] = outcome.unrun
    if is_page:
        for check in found["checks"]:
            _for_page(check)
    if is_page and outcome.unrun is None:
        found["charts"] = charts(claim) + _tables_of(outcome)
    return found


def _for_page(check: dict[str, Any]) -> None:
    """Puts interval and number of repetitions beside the value, and whose bound it is beside the bound."""
    if check["bound"]:
        width = f" ± {check['half_width']}" if check["half_width"] else ""
        check["value"] += f"{width} (n = {check['repetitions']})"
        check["bound"] += " (the paper's)" if check["bound_of"] == "paper" else " (ours)"


def _tables_of(outcome: Outcome) -> list[dict[str, Any]]:
    """The matrix of forms and checks, the sweep, and where the paper prints the conditions."""
    tables = []
    forms = outcome.forms
    if len(forms) > 1:
        header = ["check", *(tried.variant.value for tried in forms)]
        rows = [["verdict", *(tried.verdict for tried in forms)]]
        for result in forms[-1].results:
            name = result.check.name
            cells = [next((r for r in tried.results if r.check.name == name), None) for tried in forms]
            rows.append([name, *("" if r is None else f"{r.value} {'holds' if r.passed else 'fails'}" for r in cells)])
        tables.append(_table("Forms of the protocol: the first decides", header, rows))
    if outcome.sweep:
        rows = [[tried.variant.what, tried.variant.value, tried.verdict] for tried in outcome.sweep]
        tables.append(_table(f"What the paper does not print: {outcome.swept}", ["quantity", "value", "verdict"], rows))
    said = [[r.name, r.setup, r.evidence] for r in outcome.claim.runs.values() if r.evidence]
    if said:
        tables.append(_table("Where the set-up is from", ["run", "set-up", "the paper's words, or the evidence"], said))
    blank = {"kind": "table", "title": "", "unit": "", "x_label": "", "caption": "", "log": "", "lines": [], "names": []}
    return [blank | {"table": table} for table in tables]


def _first_check(outcome: Outcome) -> str:
    first = outcome.results[:1]
    return "".join(f"{result.check.name}: {result.value} against {result.bound}" for result in first)


def _limits(outcomes: list[Outcome]) -> str:
    """What runs over links that are not live cannot show."""
    real = ", or with real packets over an emulated link" if any(o.claim.recordings() for o in outcomes) else ""
    runs = f"Runs are in virtual time{real}" if real else "Runs are in virtual time over recorded or generated links"
    return (
        f"{runs}. They cannot show what a live network does beside its capacity over time: other users, schedulers, "
        "radio retransmissions, middleboxes."
    )


def _table(title: str, header: list[str], rows: list[list[Any]], links: Iterable[str] = ()) -> dict[str, Any]:
    texts = [[str(cell) for cell in row] for row in rows]
    return {"title": title, "note": "", "header": header, "rows": texts, "links": list(links)}


def _front(paper: str, outcomes: list[Outcome]) -> dict[str, Any]:
    """The head of a paper's page: how many claims have which verdict, what was recorded where, and the way to each."""
    verdicts = [outcome.verdict for outcome in outcomes]
    tables = [_table("Verdicts", VERDICTS, [[verdicts.count(verdict) for verdict in VERDICTS]])]
    names = sorted({name for outcome in outcomes for name in outcome.claim.recordings()})
    measured = [[one.name, f"{one.date}{one.note}", one.machine, one.conditions] for one in map(recording, names)]
    if measured:
        tables.append(_table("Measured with real packets", ["recording", "date", "machine", "conditions"], measured))
    rows = [[o.claim.id, o.claim.where, o.shown, o.claim.says, _first_check(o)] for o in outcomes]
    header = ["claim", "where", "verdict", "the paper says", "our first check"]
    tables.append(_table("Claims", header, rows, [f"#{outcome.claim.id}" for outcome in outcomes]))
    return {"title": f"{PAPERS[paper]}: {len(outcomes)} claims", "sentence": _limits(outcomes), "tables": tables}


def _index(outcomes: list[Outcome], famous: list[Outcome]) -> dict[str, Any]:
    """The first page: the main claims of each paper, and how many claims have which verdict."""
    rows = [[o.claim.headline, PAPERS[o.claim.paper], o.shown, _first_check(o)] for o in famous]
    header = ["claim", "paper", "verdict", "our first check"]
    known = _table("What the papers are known for", header, rows, [f"#{outcome.claim.id}" for outcome in famous])
    columns, counts = count_rows(outcomes)
    papers = [row[0] for row in counts[:-1]]
    counts = [[PAPERS[row[0]], *row[1:]] for row in counts[:-1]]
    tables = [known, _table("All claims", columns, counts, [f"{paper}.html" for paper in papers])]
    front = {"title": "Claims of papers, checked", "sentence": _limits(outcomes)}
    return front | {"tables": [table for table in tables if table["rows"]]}
