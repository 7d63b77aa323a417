"""Goal: an error is the same error wherever it arrives: in a client, a worker, a log.

Method: every row of the table is sent through each of its forms.
"""

from __future__ import annotations

import json
import pickle
import re

import pytest
from support.sources import ROOT

from seamline.cli import _COMMANDS
from seamline.errors import ERRORS, INTERNAL_ERROR, ErrorKind, Location, SeamlineError
from seamline.gateway.config.model import Config

RANGES = dict(zip(ErrorKind, range(10_000, 50_000, 10_000), strict=True))


def whole(name: str) -> SeamlineError:
    """An error with every field set."""
    return SeamlineError(
        ERRORS[name],
        "what happened",
        hint="what to do",
        location=Location(3, 14),
        query_id="q1",
        details={"partition": 1, "table": ["lake", "t"]},
    )


def test_numbers_are_unique_and_lie_in_the_range_of_their_kind() -> None:
    numbers = [code.number for code in ERRORS.values()]
    assert len(set(numbers)) == len(numbers)
    assert all(0 < c.number - RANGES[c.kind] < 10_000 for c in ERRORS.values())


def test_retriable_and_statuses_agree() -> None:
    for name, code in ERRORS.items():
        assert 400 <= code.http_status < 600, name
        if code.kind is ErrorKind.USER:
            assert code.http_status < 500, name
            assert not code.retriable, f"{name}: the same wrong request stays wrong"


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_survives_json_and_pickle(name: str) -> None:
    error = whole(name)
    for copy in (
        SeamlineError.from_json(json.loads(json.dumps(error.to_json()))),
        pickle.loads(pickle.dumps(error)),
    ):
        assert copy.code is error.code
        assert copy.to_json() == error.to_json()
        assert str(copy) == str(error)


def test_a_bare_error_says_its_hint_and_leaves_out_what_it_does_not_know() -> None:
    body = SeamlineError(INTERNAL_ERROR, "m").to_json()
    assert set(body) == {"code", "kind", "message", "hint", "retriable"}
    assert body["hint"] == INTERNAL_ERROR.hint
    assert str(SeamlineError(INTERNAL_ERROR, "m", hint="")) == "INTERNAL_ERROR: m"


def test_a_name_of_a_newer_version_is_still_told() -> None:
    error = SeamlineError.from_json({"code": "NEW_THING", "message": "m", "hint": "h"})
    assert error.code is INTERNAL_ERROR
    assert str(error) == "INTERNAL_ERROR: NEW_THING: m\nhint: h"


def test_the_text_shows_where() -> None:
    assert str(whole("SYNTAX_ERROR")) == (
        "SYNTAX_ERROR: what happened (line 3:14)\nhint: what to do"
    )


def test_hints_send_nobody_to_what_is_not_there() -> None:
    hints = " ".join(code.hint for code in ERRORS.values())
    assert set(re.findall(r"`seamline (\w+)", hints)) <= set(_COMMANDS)
    pages = set(re.findall(r"docs/\w+\.md", hints))
    assert pages
    assert all((ROOT / page).is_file() for page in pages)
    groups = {
        name: getattr(field.annotation, "model_fields", {})
        for name, field in Config.model_fields.items()
    }
    settings = [(g, s) for g, s in re.findall(r"(?<![/\w])(\w+)\.(\w+)", hints) if g in groups]
    assert settings
    for group, setting in settings:
        assert setting in groups[group]
