"""Prints the shape of the product: what knows of what, and where its lines are.

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

from seamline.connectors.table_formats import FORMATS
from seamline.gateway.commands.kinds import KINDS
from seamline.gateway.faces import FACES
from seamline.seam.options import OPTIONS

_FUNCTIONS_SHOWN = 10
_LISTED_MIN = 4
_TOLD_APART_MIN = 3
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


def formats_by_name() -> list[str]:
    """Returns the places that ask whether something has a table format, by the format's name.

    That is `x == "delta"`, `x in {"delta", …}`, `case "delta"` or `is_delta`, for every name in
    `FORMATS`; not in that table, nor in the folder of the format.
    """
    return [
        f"{path}:{node.lineno}"
        for path in modules()
        for one in FORMATS
        if str(path) != "connectors/table_formats.py" and f"connectors/{one.name}/" not in str(path)
        for node in nodes_of(path)
        if isinstance(node, ast.expr | ast.pattern) and _asks_for(one.name, node)
    ]


def _asks_for(name: str, node: ast.expr | ast.pattern) -> bool:
    match node:
        case ast.Compare():
            return any(isinstance(n, ast.Constant) and n.value == name for n in ast.walk(node))
        case ast.MatchValue(ast.Constant(value)):
            return bool(value == name)
        case ast.Attribute(attr=attribute) | ast.Name(id=attribute):
            return attribute == f"is_{name}"
    return False


def narrowed_to_a_format() -> list[str]:
    """Returns the places that need more of a table than `ColdTable` has, and ask for its class."""
    classes = tuple(one.title for one in FORMATS)
    return [
        f"{path}:{node.lineno}"
        for path in modules()
        if path.parts[0] != "connectors"
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "isinstance"
        and ast.unparse(node.args[1]).startswith(classes)
    ]


def _lines(path: pathlib.Path) -> int:
    return (ROOT / path).read_text(encoding="utf-8").count("\n")


def _functions() -> Iterator[tuple[int, str]]:
    """Lines of every function, and where it is."""
    for path in modules():
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                yield lines, f"{path}:{node.lineno} {node.name}"


def options_listed() -> Iterator[str]:
    """Collections and classes that list options of tables again, by at least `_LISTED_MIN` names.

    One name alone says nothing: `topic` and `format` are fields of much else.
    """
    names = {option.name for option in OPTIONS}
    for path in modules():
        if path == pathlib.Path("seam/options.py"):
            continue
        for node in nodes_of(path):
            count = len(names & set(_listed(node)))
            if count >= _LISTED_MIN:
                yield f"{path}:{getattr(node, 'lineno', 0)} {count}"


def _listed(node: ast.AST) -> Iterator[str]:
    """Names that a collection has as texts, or a class as its fields."""
    match node:
        case ast.ClassDef(body=body):
            fields = (line.target for line in body if isinstance(line, ast.AnnAssign))
            yield from (field.id for field in fields if isinstance(field, ast.Name))
        case ast.Dict(keys=items) | ast.Tuple(elts=items) | ast.List(elts=items):
            yield from (str(item.value) for item in items if isinstance(item, ast.Constant))


def kinds_listed() -> Iterator[str]:
    """Matches and collections, above `sql`, that tell kinds of statements apart again."""
    names = {kind.__name__ for kind in KINDS}
    for path in modules():
        if path.parts[0] == "sql" or path == pathlib.Path("gateway/commands/kinds.py"):
            continue
        for node in nodes_of(path):
            inside: list[ast.expr | None] = []
            match node:
                case ast.Match(cases=cases):
                    patterns = (each for case in cases for each in ast.walk(case.pattern))
                    inside = [each.cls for each in patterns if isinstance(each, ast.MatchClass)]
                case ast.Dict(keys=items):
                    inside = items
                case ast.Tuple(elts=elements):
                    inside = [*elements]
            count = len(names & {each.id for each in inside if isinstance(each, ast.Name)})
            if count >= _TOLD_APART_MIN:
                yield f"{path}:{getattr(node, 'lineno', 0)} {count}"


def face_declarations() -> dict[str, list[str]]:
    """Returns where each network face is declared: its entry, and what imports its folder.

    Several faces in one folder share what it holds, so only their own modules count there.
    """
    makers = {name: face.made_by.partition(":")[0] for name, face in FACES.items()}
    folders = collections.Counter(module.rpartition(".")[0] for module in makers.values())
    places: dict[str, list[str]] = {}
    for name, module in makers.items():
        folder = module.rpartition(".")[0]
        own = module if folders[folder] > 1 else folder
        importing = (
            module_name(path)
            for path in modules()
            if not module_name(path).startswith(f"{folder}.")
            and any(f"{each}.".startswith(f"{own}.") for each in imports_of(path))
        )
        places[name] = ["seamline.gateway.faces", *importing]
    return places


def main() -> None:
    """Prints everything."""
    pairs = knots()
    print(f"pairs of folders that import each other: {len(pairs)}")
    for knot in pairs:
        print(f"  {knot.folders[0]} ⇄ {knot.folders[1]}: {len(knot.imports)}")
        for line in knot.imports[:_IMPORTS_SHOWN]:
            print(f"    {line}")
    print(f"\nplaces that ask for a table format by its name: {len(formats_by_name())}")
    print(f"places that ask for the class of a format's tables: {len(narrowed_to_a_format())}")
    print("\nplaces in which each network face is declared")
    for name, places in face_declarations().items():
        print(f"  {len(places):3} {name}: {', '.join(places)}")
    print("\nmodules and lines of each folder")
    sizes: dict[pathlib.Path, list[int]] = collections.defaultdict(list)
    for path in modules():
        sizes[path.parent].append(_lines(path))
    for folder, lines in sorted(sizes.items()):
        print(f"  {len(lines):3} {sum(lines):6,} {folder}")
    print("\nthe longest functions, docstrings included")
    for count, where in sorted(_functions(), reverse=True)[:_FUNCTIONS_SHOWN]:
        print(f"  {count:3} {where}")
    kinds = list(kinds_listed())
    print(f"\nplaces that tell kinds of statements apart, besides the table: {len(kinds)}")
    for line in kinds:
        print(f"  {line}")
    again = list(options_listed())
    print(f"\nlists of options of tables, besides the declaration: {len(again)}")
    for line in again:
        print(f"  {line}")
    print(f"\nlines of the product's Python: {sum(map(sum, sizes.values())):,}")


if __name__ == "__main__":
    main()
