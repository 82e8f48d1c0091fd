"""Tables: what other libraries take of them."""

from __future__ import annotations

import resource
from pathlib import Path

import cellpace as cp
import numpy as np
import pytest


@pytest.fixture(scope="module")
def runs() -> cp.Results:
    return cp.compare(["verus", "cubic"], "constant:5mbit", loss="0.1%", duration="3s", seeds=range(2))


def test_numpy_gets_columns_with_their_types(runs: cp.Results) -> None:
    assert runs["seed"].tolist() == [0, 1, 0, 1] and runs["seed"].dtype == np.uint64
    assert runs["throughput_mbps"].dtype == np.float64
    assert runs["cc"].tolist() == ["verus", "verus", "cubic", "cubic"]
    with pytest.raises(KeyError, match="speed"):
        runs["speed"]


def test_what_is_missing_is_nan() -> None:
    series = cp.compare("verus", "onoff:5mbit,on=1s,off=1s", duration="4s").series()
    delays = series["queue_delay_p50_ms"]
    assert np.isnan(delays).any() and not np.isnan(delays).all()


def test_pandas_takes_a_table_without_pyarrow(runs: cp.Results) -> None:
    pandas = pytest.importorskip("pandas")
    frame = runs.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == runs.column_names
    assert frame.groupby("cc").throughput_mbps.mean()["cubic"] > 4


def test_polars_takes_a_table_as_it_is(runs: cp.Results) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(runs)
    assert frame.columns == runs.column_names and frame.height == 4
    assert frame["throughput_mbps"].to_list() == runs["throughput_mbps"].tolist()
    assert polars.DataFrame(runs).equals(frame), "a table can be taken twice"


def test_pyarrow_takes_a_table_as_it_is(runs: cp.Results) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(runs)
    assert table.num_rows == 4 and table.column_names == runs.column_names
    assert table.schema.metadata[b"cellpace.schema"] == b"cellpace.compare/1"
    assert pyarrow.schema(runs).names == runs.column_names
    table.validate(full=True)


def test_duckdb_finds_a_table_by_its_name(runs: cp.Results) -> None:
    duckdb = pytest.importorskip("duckdb")
    best = duckdb.sql("select cc, max(throughput_mbps) from runs group by cc order by cc").fetchall()
    assert [row[0] for row in best] == ["cubic", "verus"]


def test_parquet_files_read_back(runs: cp.Results, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    runs.write_parquet(tmp_path / "runs.parquet")
    assert polars.read_parquet(tmp_path / "runs.parquet").equals(polars.DataFrame(runs))
    with pytest.raises(cp.CellpaceError, match="missing"):
        runs.write_parquet(tmp_path / "missing" / "runs.parquet")


def test_capsules_that_nobody_takes_leak_nothing(runs: cp.Results) -> None:
    def take(times: int) -> int:
        for _ in range(times):
            runs.__arrow_c_stream__()
            runs.__arrow_c_schema__()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = take(2_000)
    assert take(20_000) - before < 8_192, "KiB"


def test_tables_show_themselves(runs: cp.Results) -> None:
    flows = runs.flows()
    assert "4 rows" in repr(flows) and "throughput_mbps" in repr(flows)
    assert flows._repr_html_().count("<tr>") == 5
    assert "verus" in repr(runs) and "Mbit/s" in repr(runs)
