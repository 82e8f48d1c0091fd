"""Pages of results."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import Protocol, runtime_checkable

from cellpace import _native


@runtime_checkable
class HasDocument(Protocol):
    """Results that have a document, e.g. of ``compare``."""

    def to_json(self) -> str: ...


class Page:
    """A page of results, which a notebook shows."""

    def __init__(self, text: str) -> None:
        self.html = text
        """The page: HTML that works offline."""

    def _repr_html_(self) -> str:
        page = html.escape(self.html)
        return f'<iframe srcdoc="{page}" style="width:100%;height:700px;border:0"></iframe>'

    def __repr__(self) -> str:
        return f"a page of {len(self.html)} characters"

    def save(self, path: str | PathLike[str]) -> None:
        """Writes it to a file."""
        write_text(path, self.html)


def report(
    *results: HasDocument | str | PathLike[str], output: str | PathLike[str] | None = None
) -> Page:
    """Returns one page of several results: of one kind side by side, others one after the other.

    results: what ``compare``, ``simulate`` and ``send`` return, or files that commands
    wrote with ``--json``.
    output: where to write it, too.
    """
    page = Page(page_of([_document(at, result) for at, result in enumerate(results)]))
    if output is not None:
        page.save(output)
    return page


def _document(at: int, result: HasDocument | str | PathLike[str]) -> tuple[str, str]:
    if isinstance(result, HasDocument):
        return f"result {at + 1}", result.to_json()
    try:
        return fspath(result), Path(result).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _native.CellpaceError(f"{fspath(result)}: no such file") from None


def page_of(documents: Iterable[tuple[str, str]]) -> str:
    """Returns the page of named documents."""
    return _native.page(list(documents))


def write_text(path: str | PathLike[str], text: str) -> None:
    """Writes a file aside and renames it."""
    write_bytes(path, text.encode())


def write_bytes(path: str | PathLike[str], data: bytes) -> None:
    """Writes a file aside and renames it."""
    aside = f"{fspath(path)}.{os.getpid()}.partial"
    try:
        Path(aside).write_bytes(data)
        os.replace(aside, path)
    finally:
        Path(aside).unlink(missing_ok=True)
