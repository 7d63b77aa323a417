"""What several tests of DuckDB share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seamline.connectors.duckdb.workers import DuckDBWorkers


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBWorkers]:
    """An engine of two threads, with room to spill."""
    spill = str(tmp_path_factory.mktemp("spill"))
    running = DuckDBWorkers(
        memory_bytes=1 << 29, threads=2, spill_directory=spill, spill_bytes=1 << 29
    )
    yield running
    running.close()
