"""The verdicts of `cellpace paper`: counts for docs/validation/README.md, and pages."""
import json
import os
import subprocess
import sys

from program import CELLPACE, ROOT, table

VERDICTS = ["reproduced", "in part", "refuted", "built", "not testable here", "open"]


def run():
    """What `paper run` writes as JSON; a verdict that is not the expected one is no failure here."""
    done = subprocess.run([CELLPACE, "paper", "run", "--json", "-"], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)
    return json.loads(done.stdout)["claims"]


def counts(claims):
    papers = list(dict.fromkeys(claim["id"].split("-")[0] for claim in claims))
    rows = []
    for paper in [*papers, "all"]:
        own = [claim["verdict"] for claim in claims if paper in ("all", claim["id"].split("-")[0])]
        rows.append([paper, len(own), *(own.count(verdict) for verdict in VERDICTS)])
    return table(["paper", "claims", *VERDICTS], rows)


def tables():
    claims = run()
    # The exit code says whether verdicts are those expected; pages have all of them.
    subprocess.run([CELLPACE, "paper", "page", "-o", os.environ.get("PAGES", str(ROOT / "target" / "papers"))])
    return {"paper-counts": counts(claims)}
