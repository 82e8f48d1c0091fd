"""Results of runs."""

from __future__ import annotations

import html
import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any

from cellpace import _native
from cellpace._report import page_of, write_text
from cellpace._table import Table, from_json

_MOST_RUNS_ON_A_PAGE = 64


class Results(Table):
    """What came out of runs: a table with one row for each, and more on request.

    The columns are the fields of the JSON of ``cellpace compare`` with ``_`` between levels, e.g.
    ``queue_delay_ms_p95``.
    """

    def __init__(self, native: _native.Results) -> None:
        super().__init__(native.runs())
        self._results = native
        if (unvaried := native.unvaried()) is not None:
            # Where `compare` or `simulate` was called.
            warnings.warn(unvaried, stacklevel=3)

    def __repr__(self) -> str:
        return self._results.text()

    def _repr_html_(self) -> str:
        if not self._results.has_series() or len(self) > _MOST_RUNS_ON_A_PAGE:
            return super()._repr_html_()
        page = html.escape(self.page())
        return f'<iframe srcdoc="{page}" style="width:100%;height:700px;border:0"></iframe>'

    def __reduce__(self) -> tuple[Callable[[str], Results], tuple[str]]:
        return _of_json, (self.to_json(),)

    @property
    def figures(self) -> dict[str, Any]:
        """The document of the first run, with the names of the program's JSON."""
        runs: list[dict[str, Any]] = self.document["runs"]
        return runs[0]

    @property
    def document(self) -> dict[str, Any]:
        """The document that ``cellpace compare --json`` writes."""
        document: dict[str, Any] = from_json(self.to_json())
        return document

    def flows(self) -> Table:
        """Returns one row for each flow of each run; ``run`` counts from 0.

        Columns ``video_...`` are those of the document's ``per_flow[].video``: delays of frames in ms,
        ``video_late`` as a share from 0 to 1, ``video_frozen_s`` in seconds. They are missing where a
        flow is no video.
        """
        return Table(self._results.flows())

    def series(self, run: int = 0) -> Table:
        """Returns figures over time of one run, bin by bin; a flow's own end with its number."""
        return Table(self._results.series(run))

    def packets(self, run: int = 0) -> Table:
        """Returns what became of every packet of one run, a row for each in the order of the program's packet
        log: ``flow``, ``id``, ``size`` in bytes, ``sent_ns``, ``enqueued_ns``, ``dequeued_ns`` and ``departed_ns``
        since the start of the run, and its ``fate``. It takes ``logs=True``.
        """
        return Table(self._results.packets(run))

    def events(self, run: int = 0) -> Table:
        """Returns what controllers of one run decided: ``time_s``, ``flow``, ``event``, and what belongs to it as
        JSON in ``data``. It takes ``logs=True``.
        """
        return Table(self._results.events(run))

    def to_json(self) -> str:
        """Returns the document that ``cellpace compare --json`` writes, as text."""
        return self._results.to_json()

    def page(self) -> str:
        """Returns the page that ``cellpace compare --report`` writes: HTML that works offline."""
        return page_of([("the result", self.to_json())])

    def report(self, path: str | PathLike[str]) -> None:
        """Writes the page to a file."""
        write_text(path, self.page())


def _of_json(text: str) -> Results:
    return Results(_native.Results.from_json(text))
