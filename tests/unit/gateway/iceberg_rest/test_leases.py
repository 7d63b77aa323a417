"""Goal: what is held is held again after a restart, whatever else is in the folder.

Method: folders with records of every kind, and a clock that is set.
"""

from __future__ import annotations

import pathlib

import pytest

from seamline.gateway.iceberg_rest.leases import Leases


def test_a_lease_is_held_again_until_it_ends(tmp_path: pathlib.Path) -> None:
    now = 1000.0
    Leases(tmp_path, 60, lambda: now).hold("one", "kind", ["a", "b"], {"x": 1})
    again = Leases(tmp_path, 60, lambda: now)
    lease = again.get("one")
    assert lease is not None
    assert (lease.paths, lease.body) == (("a", "b"), {"x": 1})
    now = 1061.0
    assert again.get("one") is None
    assert [lease.lease_id for lease in again.expire()] == ["one"]


@pytest.mark.parametrize(
    "record", [b"", b"{", b"\xff", b"[]", b"null", b"{}", b'{"paths": 1}', b'{"paths": [], "x": 1}']
)
def test_what_is_no_record_breaks_nothing(record: bytes, tmp_path: pathlib.Path) -> None:
    Leases(tmp_path, 60).hold("one", "kind", [], {})
    (tmp_path / "broken.json").write_bytes(record)
    assert Leases(tmp_path, 60).get("one") is not None
