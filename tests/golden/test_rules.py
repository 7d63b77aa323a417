"""Goal: each planner rule does what its file says, and never changes an answer.

Method: `rules/RULE.txt` holds cases of SQL (and of facts, where they differ) with the scans before
and after the rule, and how many rows the query answers. Each case is also run over tiny tables
before and after: the rows must be equal. `pytest --rewrite tests/golden` fills the lower halves.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support import golden, plans
from support.sources import ROOT, python_files

from seamline.planners.pipeline import ASKS, RULES, Rule, apply

FOLDER = pathlib.Path(__file__).parent / "rules"
IN_ORDER = (*ASKS, *RULES)
BY_NAME: dict[str, Rule] = {rule.__name__: rule for rule in IN_ORDER}


def test_every_rule_has_a_file_of_its_name_and_a_place_in_the_pipeline() -> None:
    files = {path.stem for path in python_files("planners/rules")} - {"__init__"}
    assert files == set(BY_NAME) == {path.stem for path in FOLDER.glob("*.txt")}
    assert all((ROOT / "planners" / "rules" / f"{name}.py").is_file() for name in BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_rule(name: str, rewrite: bool) -> None:
    path = FOLDER / f"{name}.txt"
    blocks = path.read_text(encoding="utf-8").strip("\n").split("\n\n")
    filled = [_filled(block, name) for block in blocks]
    golden.check(path, "\n\n".join(filled) + "\n", rewrite=rewrite)


def _filled(block: str, name: str) -> str:
    """A block with its lower half as the rule has it; comments stay as they are."""
    upper = block.split("\n----", 1)[0]
    lines = [line for line in upper.split("\n") if not line.startswith("#")]
    if not lines:
        return block
    changes = _facts(lines.pop(0)) if lines[0].startswith("facts ") else {}
    return f"{upper}\n----\n" + "\n".join(_case("\n".join(lines), changes, name))


def _facts(line: str) -> dict[str, Any]:
    pairs = re.findall(r"(\w+)=(\S+)", line)
    return {key: int(value) if value.isdigit() else value for key, value in pairs}


def _case(sql: str, changes: dict[str, Any], name: str) -> Iterator[str]:
    rule = BY_NAME[name]
    earlier = IN_ORDER[: IN_ORDER.index(rule)]
    before = plans.with_moments(apply(earlier, plans.logical(sql, **changes)))
    after = rule(before)
    rows = plans.answer(before)
    assert plans.answer(after) == rows, f"{name} changed what this answers: {sql}"
    assert [scan.facts for scan in after.scans] == [scan.facts for scan in before.scans]
    for one, other in zip(plans.describe(before), plans.describe(after), strict=True):
        yield one
        yield f"  = {name} says nothing" if one == other else f"  → {other}"
    if after.row != before.row:
        yield f"  → {plans.describe_row(after, rows)}"
    yield f"{len(rows)} row{'s' if len(rows) != 1 else ''}"
