"""Goal: names, numbers, statuses and classes of errors are promises to programs, and stay.

Method: the whole table in `errors.txt`; `pytest --rewrite tests/golden` rewrites it, and whoever
reads the diff decides whether it breaks anybody.
"""

from __future__ import annotations

import pathlib

from support import golden

from seamline.dbapi.errors import class_of
from seamline.errors import ERRORS, ErrorCode, SeamlineError
from seamline.gateway.trino.errors import TRINO_ERRORS

FILE = pathlib.Path(__file__).with_name("errors.txt")


def test_the_error_table(rewrite: bool) -> None:
    lines = [
        f"{code.number} {name}: {code.kind.value}, HTTP {code.http_status}, "
        f"{class_of(SeamlineError(code, '')).__name__}{', retriable' if code.retriable else ''}"
        f"{_as_trino(code)}\n"
        for name, code in sorted(ERRORS.items(), key=lambda item: item[1].number)
    ]
    golden.check(FILE, "".join(lines), rewrite=rewrite)


def _as_trino(code: ErrorCode) -> str:
    found = TRINO_ERRORS[code]
    return f", Trino's {found.number} {found.name} ({found.kind.value})" if found else ""


def test_a_name_that_trino_has_means_the_same_there() -> None:
    """None of our numbers is one of Trino's, whose connectors count from 2^24 on."""
    assert set(TRINO_ERRORS) == set(ERRORS.values())
    theirs = {error.name: error.number for error in TRINO_ERRORS.values() if error}
    for code, error in TRINO_ERRORS.items():
        if error is None:
            assert code.name not in theirs
            assert 1_000 < code.number < 0x1_0000
        else:
            assert theirs[error.name] == error.number
