#!/usr/bin/env python3
"""Results of `cellpace conform` side by side, as in docs/validation/conformance.md.

    python3 evaluation/conformance.py NAME=FILE.json...

Prints a table in Markdown: a row for each figure that is out of bounds somewhere (bold), a column for each result and for
the controllers in the simulator of the first result, and below it the figures that are within bounds everywhere.
"""

import json
import sys


def number(value, unit):
    if value is None:
        return "–"
    text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{text} {unit}".strip()


def bound(check):
    low, high, unit = check["min"], check["max"], check["unit"]
    if low is not None and high is not None:
        return f"{low:g} to {number(high, unit)}"
    return f"at least {number(low, unit)}" if high is None else f"at most {number(high, unit)}"


def cell(check):
    text = number(check["value"], "")
    return text if check["passed"] else f"**{text}**"


def main(words):
    names = [word.partition("=")[0] for word in words]
    results = [json.load(open(word.partition("=")[2], encoding="utf-8")) for word in words]
    ours = [of["cc"] for of in results[0]["scenarios"][0]["checks"][0]["reference"]]
    header = ["scenario", "figure", "bound"] + names + [f"{cc} (sim)" for cc in ours]
    print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    within = []
    for place, scenario in enumerate(results[0]["scenarios"]):
        for at, check in enumerate(scenario["checks"]):
            measured = [result["scenarios"][place]["checks"][at] for result in results]
            row = [scenario["name"], check["figure"], bound(check)]
            checks = measured + check["reference"]
            if all(of["passed"] for of in checks):
                within.append(f"{row[0]} ({row[1]})")
            else:
                print("| " + " | ".join(row + [cell(of) for of in checks]) + " |")
    passed = [str(sum(of["verdict"] == "pass" for of in result["scenarios"])) for result in results]
    passes = lambda cc: sum(  # noqa: E731
        all(of["passed"] for check in scenario["checks"] for of in check["reference"] if of["cc"] == cc)
        for scenario in results[0]["scenarios"]
    )
    row = ["**passes**", f"of {len(results[0]['scenarios'])}", ""] + passed + [str(passes(cc)) for cc in ours]
    print("| " + " | ".join(row) + " |\n\nWithin bounds everywhere: " + ", ".join(within) + ".")


if __name__ == "__main__":
    main(sys.argv[1:])
