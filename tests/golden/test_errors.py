"""Goal: names, numbers, statuses and classes of errors are promises to programs, and stay.

Method: the whole table in `errors.txt`; `pytest --rewrite tests/golden` writes it anew, and whoever
reads the difference decides whether it breaks somebody.
"""

from __future__ import annotations

import pathlib

from support import golden

from seamline.dbapi.errors import class_of
from seamline.errors import ERRORS, SeamlineError

FILE = pathlib.Path(__file__).with_name("errors.txt")


def test_the_error_table(rewrite: bool) -> None:
    lines = [
        f"{code.number} {name}: {code.kind.value}, HTTP {code.http_status}, "
        f"{class_of(SeamlineError(code, '')).__name__}{', retriable' if code.retriable else ''}\n"
        for name, code in sorted(ERRORS.items(), key=lambda item: item[1].number)
    ]
    golden.check(FILE, "".join(lines), rewrite=rewrite)
