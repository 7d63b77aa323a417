"""Goal: a configuration file is a tree of texts or is refused by its name, whatever is in it.

Method: bytes that are not text, not YAML, not a tree, or a tree that is endless or too large.
"""

from __future__ import annotations

import itertools
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.config import yaml_file

NAMES = [f"n{depth}" for depth in range(12)]
LEVELS = [f"{y}: &{y} [{', '.join(9 * [f'*{x}'])}]" for x, y in itertools.pairwise(NAMES)]
EXPLODING = "\n".join(["n0: &n0 [1, 1, 1, 1, 1, 1, 1, 1, 1]", *LEVELS]).encode()


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (b"\xff\xfe", "it is not text"),
        (b"a: &a [*a]", "inside the value it repeats"),
        (b"a: &a {b: {c: *a}}", "inside the value it repeats"),
        (EXPLODING, "expands to more than 100,000 values"),
        (b"[" * 100_000, "is not YAML"),
        (b"{[]: 1}", "is not YAML"),
        (b"a: [", "is not YAML: line 1, column 5: while parsing a flow node, expected the node"),
        (b"a:\n\tb: 1", "is not YAML: line 2, column 1: "),
        (b"a: \x01", "is not YAML"),
        (b"- 1", "must hold keys and values"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_none_is_named(text: bytes, cause: str, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "seamline.yaml"
    file.write_bytes(text)
    with pytest.raises(SeamlineError) as caught:
        yaml_file.read(file)
    assert caught.value.code is INVALID_CONFIG
    assert str(file) in caught.value.message
    assert cause in caught.value.message
    assert "\n" not in caught.value.message


@given(text=st.binary() | st.text("abc:-[]{}&*!|>?'\"#%@`, \n01~.<").map(str.encode))
def test_any_file_is_a_tree_or_named(text: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(text)
    try:
        assert isinstance(yaml_file.read(file), dict)
    except SeamlineError as error:
        assert error.code is INVALID_CONFIG


def test_a_value_is_the_text_that_is_written(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "seamline.yaml"
    file.write_text("a: 017\nb: yes\nc:\nd: &d [1.0]\ne: *d\n")
    assert yaml_file.read(file) == {"a": "017", "b": "yes", "c": None, "d": ["1.0"], "e": ["1.0"]}
