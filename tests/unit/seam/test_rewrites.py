"""Goal: commits are taken for rewrites and appends only if they say so and their counts agree.

Method: lines of snapshots by their operations and counts.
"""

from __future__ import annotations

import pytest

from seamline.seam.rewrites import last_rewrite
from seamline.seam.table import Snapshot, TableSchema, TableState

NO_DELETES = {"total-delete-files": "0"}
APPEND = ("append", {"added-records": "3", **NO_DELETES})
REWRITE = ("replace", {"added-records": "5", "deleted-records": "5", **NO_DELETES})
MANIFESTS = ("replace", NO_DELETES)


def rewritten(
    *commits: tuple[str, dict[str, str]], since: int = 1, deletes: str = "0"
) -> int | None:
    """Up to where the rows of the first of some snapshots are in the last one."""
    commits = (("append", {"total-delete-files": deletes}), *commits)
    snapshots = {
        number: Snapshot(number, number - 1 or None, 0, operation, summary, None, number * 10)
        for number, (operation, summary) in enumerate(commits, 1)
    }
    schema = TableSchema(0, ())
    state = TableState(("t",), "t", {}, {0: schema}, 0, snapshots, {}, len(commits))
    return last_rewrite(state, since, len(commits))


def test_rewrites_and_then_appends_are_followed() -> None:
    assert rewritten(REWRITE) == 20
    assert rewritten(REWRITE, MANIFESTS, REWRITE) == 40
    assert rewritten(REWRITE, APPEND, APPEND) == 20
    assert rewritten(APPEND) == 10
    assert rewritten(APPEND, REWRITE) is None, "files that were appended may be gone"
    assert rewritten(APPEND, REWRITE, since=2) == 30


@pytest.mark.parametrize(
    "changed",
    [
        {"added-records": "4"},
        {"deleted-records": "6"},
        {"deleted-records": "many"},
        {"added-delete-files": "1"},
        {"removed-delete-files": "1"},
        {"total-delete-files": "1"},
        {"total-delete-files": ""},
    ],
)
def test_counts_that_disagree_are_believed_in_nothing(changed: dict[str, str]) -> None:
    assert rewritten((REWRITE[0], {**REWRITE[1], **changed})) is None


def test_anything_else_ends_it() -> None:
    for operation in ("overwrite", "delete", ""):
        assert rewritten((operation, REWRITE[1])) is None
        assert rewritten(REWRITE, (operation, APPEND[1])) is None
    assert rewritten(REWRITE, (APPEND[0], {**APPEND[1], "deleted-records": "1"})) is None
    assert rewritten(REWRITE, deletes="1") is None
    assert rewritten(REWRITE, since=7) is None, "another branch, or expired"
