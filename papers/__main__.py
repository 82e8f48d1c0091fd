"""``./dev papers``: lists claims of papers, shows them, runs them, writes their pages, measures what they rest on."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import cellpace as cp
from papers import today
from papers.claims import VERDICTS, Claim, Result, all_claims, select
from papers.fetch import Unfetched, fetch, folder, sources
from papers.figures import WrongClaim
from papers.pages import document, listing, variants_of, write_pages
from papers.recordings import ROOT, record, recording
from papers.runner import Options, Outcome, run

_DIFFERS = 3
"""Exit code when a verdict is another than expected."""


def main(arguments: list[str] | None = None) -> int:
    """Does what the command line says and returns the exit code: 0, 1 when a run failed, 2 when something asked for is
    not there, 3 when a verdict is another than expected."""
    args = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = args.function
    try:
        return command(args)
    except (WrongClaim, Unfetched, cp.CellpaceError, OSError) as error:
        print(f"papers: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("./dev papers", description="Claims of papers, each with runs and a verdict.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=about, description=about)
        command.set_defaults(function=function)
        command.add_argument("claims", nargs="*", metavar="CLAIM", help="papers, ids, or patterns such as verus-fig*")
        return command

    listed = add("list", _list, "list the claims with their verdicts")
    listed.add_argument("--state", choices=VERDICTS, action="append", help="those with this verdict only")
    listed.add_argument("--markdown", action="store_true", help="print them as a page, with the reasons")
    add("show", _show, "show claims: what the paper says, how it is checked, what came out and why")
    for command in (
        add("run", _run, "run claims and compare their verdicts with those expected"),
        add("page", _page, "run claims and write a page for each paper, and index.html"),
    ):
        depth = command.add_mutually_exclusive_group()
        depth.add_argument("--quick", action="store_true", help="one seed, one start in the trace")
        depth.add_argument("--full", action="store_true", help="five seeds, ten starts")
        command.add_argument("--jobs", type=int, help="runs at the same time; without it one per core")
        command.add_argument("--fresh", action="store_true", help="use no results of earlier times")
        command.add_argument(
            "--fetch", action="store_true", help="first get missing recorded traces from the repositories"
        )
        command.add_argument(
            "--sweep", action="store_true", help="also run other forms, and set otherwise what papers do not print"
        )
        if command.prog.endswith("run"):
            command.add_argument(
                "--json", metavar="FILE", help="write verdicts and checks as JSON (-: standard output)"
            )
        else:
            command.add_argument("-o", "--output", required=True, type=Path, metavar="DIR", help="where to write them")
    recording_ = add("record", _record, "measure with real packets what claims rest on, and store it (as root)")
    recording_.add_argument("--program", default=ROOT / "target/release/cellpace", help="the cellpace that measures")
    return parser


def _list(args: argparse.Namespace) -> int:
    claims = [one for one in select(all_claims(), args.claims) if not args.state or one.verdict in args.state]
    if args.markdown:
        print(listing(claims), end="")
        return 0
    ids = max((len(one.id) for one in claims), default=0)
    places = max((len(one.where) for one in claims), default=0)
    for one in claims:
        print(f"{one.id:{ids}}  {one.where:{places}}  {one.verdict:17}  {_rests_on(one)}")
    counts = {verdict: sum(one.verdict == verdict for one in claims) for verdict in VERDICTS}
    print(f"\n{len(claims)} claims: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    return 0


def _rests_on(claim: Claim) -> str:
    measured = [recording(name) for name in claim.recordings()]
    if measured:
        return f"recorded {max(f'{one.date}{one.note}' for one in measured)}"
    if claim.mode == "field":
        return "a model" if claim.checks else "nothing here"
    return {"virtual": "virtual", "real": "nothing recorded yet", "model": "a model", "component": "tests"}[claim.mode]


def _show(args: argparse.Namespace) -> int:
    for claim in select(all_claims(), args.claims):
        print(f"{claim.id}  {claim.where}\n\nVerdict: {claim.verdict} ({_rests_on(claim)})")
        print(f"\n{claim.source}")
        for name in claim.recordings():
            one = recording(name)
            print(f"Recorded {one.date}{one.note}: {one.conditions}\nMachine: {one.machine}")
            print("".join(f"  {command}\n" for command in one.commands))
    return 0


def _options(args: argparse.Namespace) -> Options:
    depth = "quick" if args.quick else "full" if args.full else "as written"
    named = os.environ.get("CELLPACE_TRACES")
    # Set to nothing it says that there are none.
    traces = folder() if named is None or (args.fetch and not named) else Path(named) if named else None
    if args.fetch and traces is not None:
        fetch([one for one in sources() if one.name], traces, lambda text: print(text, file=sys.stderr))
    if traces is not None and not traces.is_dir():
        traces = None
    return Options(depth, traces, args.jobs, args.fresh, progress=True, sweep=args.sweep)


def _run(args: argparse.Namespace) -> int:
    options = _options(args)
    outcomes = run(select(all_claims(), args.claims), options)
    if args.json is not None:
        text = document(outcomes, options.depth) + "\n"
        if args.json == "-":
            sys.stdout.write(text)
        else:
            cp._report.write_text(args.json, text)
    if args.json != "-":
        for outcome in outcomes:
            print(outcome_text(outcome))
        print(_summary(outcomes, options))
    return _exit_code(outcomes)


def _page(args: argparse.Namespace) -> int:
    options = _options(args)
    claims = select(all_claims(), args.claims)
    # The report is about all of them.
    outcomes = run(claims if args.claims else [*claims, today.beside()], options)
    write_pages(outcomes, options.depth, args.output)
    return _exit_code(outcomes)


def _record(args: argparse.Namespace) -> int:
    names = sorted({name for one in select(all_claims(), args.claims) for name in one.recordings()})
    if not names:
        raise WrongClaim("none of these claims rests on a recording")
    for name in names:
        one = recording(name)
        print(f"measures {name}: {one.conditions}", file=sys.stderr)
        print(record(one, str(args.program)))
    return 0


def outcome_text(outcome: Outcome) -> str:
    """What a terminal shows of a claim that ran, or why it did not."""
    is_other = outcome.unrun is None and outcome.verdict != outcome.expected and not outcome.on_generated_traces
    lines = [f"{outcome.claim.id}: {outcome.shown}" + (f"  EXPECTED: {outcome.expected}" if is_other else "")]
    lines += [f"  {line}" for line in variants_of(outcome)]
    if outcome.depth == "as written" and not outcome.on_generated_traces:
        lines += [f"  EXPECTED OTHERWISE: {difference}" for difference in outcome.differences]
    for result in outcome.results:
        check = result.check
        held = "pass" if result.passed else "FAIL"
        lines.append(f"  {held}  {check.level} {check.run.setup:8}  {check.name}: {_compared(result)}")
    return "\n".join(lines)


def _compared(result: Result) -> str:
    """The value with its interval and number of repetitions, and the bound."""
    if not result.bound:
        return result.value
    width = f" ± {result.half_width}" if result.half_width else ""
    ours = "" if result.check.bound == "paper" else " of ours"
    place = f" ({result.place})" if result.place else ""
    noise = " ~" if result.is_noise else ""
    return f"{result.value}{width} (n = {result.repetitions}) against {result.bound}{ours}{place}{noise}"


def _summary(outcomes: list[Outcome], options: Options) -> str:
    failed = [outcome.claim.id for outcome in outcomes if outcome.has_failed]
    other = [o.claim.id for o in outcomes if not o.is_expected and not o.has_failed]
    needing = [outcome.claim.id for outcome in outcomes if outcome.unrun == "needs traces"]
    lines = [f"\n{len(outcomes)} claims{'' if other or failed else ', every verdict as expected'}."]
    lines += [f"{len(other)} with another verdict than expected: {', '.join(other)}."] if other else []
    lines += [f"{len(failed)} failed: {', '.join(failed)}."] if failed else []
    lines += [f"Without recorded traces there is no verdict of {', '.join(needing)}."] if needing else []
    if options.traces is None and any(outcome.on_generated_traces for outcome in outcomes):
        lines.append("CELLPACE_TRACES names no folder of recorded traces: generated ones stood for them.")
    return "\n".join(lines)


def _exit_code(outcomes: list[Outcome]) -> int:
    if any(outcome.has_failed for outcome in outcomes):
        return 1
    return 0 if all(outcome.is_expected for outcome in outcomes) else _DIFFERS


if __name__ == "__main__":
    sys.exit(main())
