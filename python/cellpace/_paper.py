"""Claims of papers, each with a scenario and a verdict."""

from __future__ import annotations

import os
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from cellpace import _native
from cellpace._report import Page, page_of
from cellpace._table import Table, from_json
from cellpace._written import asked, jobs_of


class Verdicts:
    """What came out of claims."""

    def __init__(self, document: str, drawn: str) -> None:
        self._document = document
        self._drawn = drawn

    def to_json(self) -> str:
        """Returns the document with what a page draws, as text."""
        return self._drawn

    @property
    def document(self) -> dict[str, Any]:
        """The document that ``cellpace paper run --json`` writes."""
        document: dict[str, Any] = from_json(self._document)
        return document

    def page(self) -> Page:
        """Returns the page of the claims with their charts."""
        return Page(page_of([("claims", self._drawn)]))

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()

    def __repr__(self) -> str:
        return "\n".join(f"{claim['id']}: {claim['shown']}" for claim in self.document["claims"])


def claims(
    wanted: str | Iterable[str] = (), *, folder: str | PathLike[str] | None = None
) -> Table:
    """Returns the claims with their verdicts.

    wanted: papers, ids, or patterns such as ``"verus-fig*"``; all without any.
    folder: where claim files are, in place of those of the package.
    """
    return Table(_native.claims(_list(wanted), None if folder is None else Path(folder)))


def paper(
    wanted: str | Iterable[str],
    *,
    depth: Literal["quick", "as written", "full"] = "as written",
    folder: str | PathLike[str] | None = None,
    traces: str | PathLike[str] | None = None,
    fresh: bool = False,
    jobs: int | None = None,
) -> Verdicts:
    """Runs claims of papers and returns their verdicts.

    wanted: papers, ids, or patterns such as ``"verus-fig*"``.
    depth: ``"quick"`` is one seed and one start in the trace, ``"full"`` five seeds and ten starts.
    folder: where claim files are, in place of those of the package.
    traces: the folder of recorded traces; ``None``: that of the environment's ``CELLPACE_TRACES``.
    Without it generated traces stand for them.
    fresh: whether to run everything anew instead of using results of earlier times.
    jobs: runs at the same time; ``None``: one per core.
    """
    if depth not in ("quick", "as written", "full"):
        raise _native.CellpaceError(f"depth: `{depth}`; there are quick, as written, full")
    traces = traces if traces is not None else os.environ.get("CELLPACE_TRACES")
    wish = {
        "claims": _list(wanted),
        "folder": None if folder is None else Path(folder),
        "traces": Path(traces) if traces is not None and Path(traces).is_dir() else None,
        "depth": depth,
        "jobs": jobs_of(jobs),
        "fresh": fresh,
    }
    return Verdicts(*asked(_native.check_claims, wish))


def _list(wanted: str | Iterable[str]) -> list[str]:
    return [wanted] if isinstance(wanted, str) else list(wanted)
