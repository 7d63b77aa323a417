"""Prints the shape of the product: which folders import each other, and where its lines are.

Usage, from the top of the repository: `python tests/tools/shape.py`.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import pathlib
import sys
from collections.abc import Iterator

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.sources import ROOT, imports_of, module_name, modules, nodes_of

_FUNCTIONS_SHOWN = 10
_IMPORTS_SHOWN = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Knot:
    """Two folders that import each other.

    Attributes:
        folders: Both; modules of the first import the second less often than the other way around.
        imports: Those imports, as "module → module".
    """

    folders: tuple[pathlib.Path, pathlib.Path]
    imports: tuple[str, ...]


def knots() -> list[Knot]:
    """Returns all pairs of folders of the product that import each other."""
    folders = {module_name(path): path.parent for path in modules()}
    imports: dict[tuple[pathlib.Path, pathlib.Path], list[str]] = collections.defaultdict(list)
    for path in modules():
        for name in imports_of(path):
            if folders.get(name, path.parent) != path.parent:
                imports[path.parent, folders[name]].append(f"{module_name(path)} → {name}")
    found: list[Knot] = []
    for (one, other), those in sorted(imports.items()):
        back = imports.get((other, one), ())
        if back and (len(those), one) < (len(back), other):
            found.append(Knot((one, other), tuple(those)))
    return found


def _lines(path: pathlib.Path) -> int:
    return (ROOT / path).read_text(encoding="utf-8").count("\n")


def _functions() -> Iterator[tuple[int, str]]:
    """Lines of every function, and where it is."""
    for path in modules():
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield lines, f"{path}:{node.lineno} {node.name}"


def main() -> None:
    """Prints everything."""
    pairs = knots()
    print(f"pairs of folders that import each other: {len(pairs)}")
    for knot in pairs:
        print(f"  {knot.folders[0]} ⇄ {knot.folders[1]}: {len(knot.imports)}")
        for line in knot.imports[:_IMPORTS_SHOWN]:
            print(f"    {line}")
    print("\nmodules and lines of each folder")
    sizes: dict[pathlib.Path, list[int]] = collections.defaultdict(list)
    for path in modules():
        sizes[path.parent].append(_lines(path))
    for folder, lines in sorted(sizes.items()):
        print(f"  {len(lines):3} {sum(lines):6,} {folder}")
    print("\nthe longest functions, docstrings included")
    for count, where in sorted(_functions(), reverse=True)[:_FUNCTIONS_SHOWN]:
        print(f"  {count:3} {where}")
    print(f"\nlines of the product's Python: {sum(map(sum, sizes.values())):,}")


if __name__ == "__main__":
    main()
