"""Tables of results."""

from __future__ import annotations

import html
import json
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from cellpace._native import ArrowTable

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas

_MOST_SHOWN = 20


class Table:
    """Columns of equal length, in Arrow's format.

    Libraries that know Arrow's PyCapsule interface take it as it is and copy nothing:
    ``polars.DataFrame(table)``, ``pyarrow.table(table)``, and DuckDB finds it by its name in
    ``from table``. Where a value is missing, numpy has NaN.
    """

    def __init__(self, native: ArrowTable) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._native)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Returns a column as an array of numpy."""
        column = self._native.column(name)
        if isinstance(column, list):
            return np.array(column, dtype=object)
        kind, values, valid = column
        array = np.frombuffer(values, dtype=kind)
        if valid is None:
            return array
        return np.where(np.frombuffer(valid, dtype=np.bool_), array, np.nan)

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, with the unit at the end."""
        return self._native.column_names

    def to_numpy(self) -> dict[str, npt.NDArray[Any]]:
        """Returns all columns by their names."""
        return {name: self[name] for name in self.column_names}

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a data frame of pandas, which need not have pyarrow."""
        import pandas

        return pandas.DataFrame(self.to_numpy())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Returns each row by the names of the columns, as values of Python."""
        columns = [self[name].tolist() for name in self.column_names]
        return [dict(zip(self.column_names, row, strict=True)) for row in zip(*columns, strict=True)]

    def write_parquet(self, path: str | PathLike[str]) -> None:
        """Writes a Parquet file, which appears under its name when it is whole."""
        self._native.write_parquet(fspath(path))

    def __repr__(self) -> str:
        rows = self._shown()
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, f"{len(self)} rows"])

    def _repr_html_(self) -> str:
        header, *rows = [[html.escape(cell) for cell in row] for row in self._shown()]
        head = "".join(f"<th>{name}</th>" for name in header)
        body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{len(self)} rows</p>"

    def _shown(self) -> list[list[str]]:
        columns = [[name, *map(_cell, self[name][:_MOST_SHOWN])] for name in self.column_names]
        return [list(row) for row in zip(*columns, strict=True)]


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def from_json(text: str) -> Any:
    """Reads a document of the native half."""
    return json.loads(text)
