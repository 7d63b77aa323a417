"""Goal: a gateway whose disk is full is not ready, says where, and what spills too much is named.

Method: a real gateway whose disk counts as full, and a statement that may not spill what it must.
"""

from __future__ import annotations

import pathlib

import pytest
from support import offline
from support.gateway import Gateway

from seamline.connectors.duckdb.errors import spill_error
from seamline.errors import DISK_FULL, MEMORY_LIMIT, SeamlineError
from seamline.gateway import readiness
from seamline.gateway.iceberg_rest.errors import status_of

OFFLOAD = "failed to offload data block of size 256.0 KiB (21.5 MiB/21.5 MiB used)."
"""What DuckDB says, whether the disk or its own limit ends what it may spill."""


def test_a_gateway_with_a_full_disk_is_not_ready(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Gateway(offline.config(tmp_path))
    client = running.app.test_client()
    assert client.get("/readyz").json == {"status": "ok", "away": []}
    assert "seamline_disk_free_bytes{" in running.parts.metrics_text()
    monkeypatch.setattr(readiness, "FREE_BYTES_MIN", 1 << 62)
    answer = client.get("/readyz")
    assert answer.json is not None
    assert (answer.status_code, answer.json["error"]["code"]) == (507, "DISK_FULL")
    assert "results" in answer.json["error"]["message"]
    running.close()


@pytest.mark.parametrize(("bytes_max", "code"), [(10 << 30, DISK_FULL), (22_544_384, MEMORY_LIMIT)])
def test_a_statement_that_cannot_spill_says_whether_the_disk_or_the_limit_ends_it(
    bytes_max: int, code: object
) -> None:
    found = spill_error(SeamlineError(MEMORY_LIMIT, OFFLOAD), "/state/spill", bytes_max)
    assert found.code is code
    assert ("/state/spill" if code is DISK_FULL else "limits.spill_bytes") in found.message
    other = SeamlineError(MEMORY_LIMIT, "something else")
    assert spill_error(other, "/state/spill", bytes_max) is other


def test_a_full_disk_is_no_bad_request_for_readers_of_iceberg() -> None:
    assert status_of(DISK_FULL) == 507
    assert status_of(MEMORY_LIMIT) == 422, "clients repeat what ends with 503"
