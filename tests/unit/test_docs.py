"""The reference pages say what the code says.

Goal: no function, error or setting is missing from the docs, or described otherwise than in code.
Method: the pages are rendered from the tables in code and compared; `make golden` writes them.
"""

from __future__ import annotations

import json
import pathlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from support import interface_pages, links
from support.sources import PARTS

from seamline import errors
from seamline.gateway.config.model import Config
from seamline.gateway.trino.errors import TRINO_ERRORS
from seamline.sql import functions
from seamline.sql.templates import DUCKDB, SPARK

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference"


def functions_page() -> Iterator[str]:
    yield "# Functions"
    yield ""
    yield (
        "Each means the same on both engines. `T`, `U`, `E`, `K`: any type; `…`: any number. The "
        "engine's own SQL computes it, or a kernel: a function over Arrow arrays that the engine "
        "calls (`make golden` writes this page). See also [what Trino has that is not "
        "offered](not-there.md)."
    )
    public = {*functions.FORMS, *(name for name in functions.FUNCTIONS if name[0] != "$")}
    yield ""
    yield f"There are {len(public)}."
    kinds = {"scalar": "Scalar", "aggregate": "Aggregate", "window": "Window"}
    for kind, title in kinds.items():
        yield f"\n## {title}\n"
        yield "| function | signatures | DuckDB | Spark |\n|---|---|---|---|"
        for name, overloads in sorted(functions.FUNCTIONS.items()):
            found = dict.fromkeys(o.signature for o in overloads if o.kind == kind)
            if found and not name.startswith("$"):
                cell = "<br>".join(f"`{signature}`" for signature in found).replace("|", "\\|")
                means = (_means(overloads, engine) for engine in (DUCKDB, SPARK))
                yield f"| `{name}` | {cell} | {' | '.join(means)} |"
    yield "\n## With special syntax\n"
    yield "| function | signatures |\n|---|---|"
    for name, signatures in functions.FORMS.items():
        yield f"| `{name}` | {'<br>'.join(f'`{signature}`' for signature in signatures)} |"
    yield "\n## Operators\n"
    yield "| operator | signatures |\n|---|---|"
    for name, form in sorted(functions.OPERATORS.items()):
        overloads = functions.FUNCTIONS[name]
        cells = (form.format("x", "y"), *dict.fromkeys(o.signature for o in overloads))
        operator, *taken = (f"`{cell}`".replace("|", "\\|") for cell in cells)
        yield f"| {operator} | {'<br>'.join(taken)} |"


def not_there_page() -> Iterator[str]:
    """What people wrote, and below it the functions that the code refuses by name."""
    text = (PAGES / "not-there.md").read_text(encoding="utf-8")
    yield text.partition(_REFUSED)[0] + _REFUSED
    yield ""
    yield "| function | instead |\n|---|---|"
    for reason, names in _by_remedy(functions.REASONS):
        yield f"| {names} | {reason} |"
    yield ""
    yield "## Names of other databases"
    yield ""
    yield (
        "Each of these is refused with what to write. `x` and `y` are texts, `n` is a whole "
        "number, `r` a double, `t` and `u` are times, `d` is a date, `j` is json, `a` an array and "
        "`b` a boolean."
    )
    yield ""
    yield "| name | write |\n|---|---|"
    for expression, names in _by_remedy({**functions.REPLACEMENTS, **functions.COLUMNS}):
        yield f"| {names} | `{expression.replace('|', chr(92) + '|')}` |"


def _by_remedy(remedies: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    names: dict[str, list[str]] = {}
    for name, remedy in remedies.items():
        names.setdefault(remedy, []).append(f"`{name}`")
    return ((remedy, ", ".join(of_it)) for remedy, of_it in names.items())


_REFUSED = "## Functions"


def _means(overloads: Sequence[functions.Overload], engine: str) -> str:
    found = {o.kernel is not None and engine in o.kernel.engines for o in overloads}
    return ", ".join("kernel" if is_kernel else "SQL" for is_kernel in sorted(found))


def errors_page() -> Iterator[str]:
    yield "# Errors"
    yield ""
    yield "Every failure has one of these names, over HTTP, the DB-API and the command line."
    yield ""
    yield (
        "Trino's clients get the name, number and type of Trino's error where exactly one "
        "corresponds to ours, and our name in `failureInfo`; for all others, our own."
    )
    yield ""
    yield "| name | kind | HTTP | for Trino's clients | retriable | what to do |"
    yield "|---|---|---|---|---|---|"
    for code in sorted(errors.ERRORS.values(), key=lambda c: c.name):
        again = "yes" if code.retriable else ""
        hint = code.hint.replace("|", "\\|")
        kind = code.kind.name.lower()
        trino = TRINO_ERRORS[code]
        as_trino = f"`{trino.name}` ({trino.number})" if trino is not None else ""
        cells = (f"`{code.name}`", kind, str(code.http_status), as_trino, again, hint)
        yield f"| {' | '.join(cells)} |"


def configuration_page() -> Iterator[str]:
    yield "# Configuration"
    yield ""
    yield (
        "One YAML file. A flag (`--set path=value`) wins over the environment "
        "(`SEAMLINE_HTTP__PORT` sets `http.port`), which wins over the file, which wins over the "
        "default. Sizes may have a unit (`64KiB`, `256MiB`, `1GiB`), and times, too (`30s`, `10m`, "
        "`12h`, `7d`). `seamline config show` prints each value and where it came from."
    )
    for path, settings in groups():
        yield f"\n## {f'`{path}`' if path else 'Top level'}\n"
        yield "| setting | default | what it is |\n|---|---|---|"
        for name, setting in settings.items():
            if "$ref" not in setting:
                what = re.sub(r"\s+", " ", setting["description"])
                yield f"| `{name}` | {default_text(name, setting.get('default', {}))} | {what} |"


def groups() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(path, its settings) of every group, by level."""
    schema = Config.model_json_schema()
    level = {"": schema}
    while level:
        yield from ((path, group["properties"]) for path, group in level.items())
        below = {
            f"{path}.{name}{suffix}".lstrip("."): found["$ref"].rpartition("/")[2]
            for path, group in level.items()
            for name, setting in group["properties"].items()
            for suffix, found in (
                ("", setting),
                (".NAME", setting.get("additionalProperties", {})),
                ("[]", setting.get("items", {})),
            )
            if "$ref" in found
        }
        level = {path: schema["$defs"][name] for path, name in below.items()}


def default_text(name: str, default: object) -> str:
    """A default as a file would have it; nothing where there is none."""
    if isinstance(default, int) and "bytes" in name:
        return f"`{default >> 20}MiB`"
    return "" if default in ({}, [], "", None) else f"`{json.dumps(default).strip(chr(34))}`"


def test_every_option_of_a_table_is_described(request: pytest.FixtureRequest) -> None:
    """Only the rows of the table are generated."""
    page = PAGES.parent / "tables.md"
    text = page.read_text(encoding="utf-8")
    before, head, rest = text.partition("| option | default | also set by | description |\n")
    after = rest[rest.index("\n\n") :]
    generated = (
        before
        + head
        + "|---|---|---|---|\n"
        + "\n".join(interface_pages.options_of_tables())
        + after
    )
    if request.config.getoption("--rewrite"):
        page.write_text(generated, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == generated, "make golden writes it anew"


def http_api_page() -> Iterator[str]:
    document = json.loads((PAGES / "openapi.json").read_text(encoding="utf-8"))
    return interface_pages.http_api_page(document)


def python_api_page() -> Iterator[str]:
    return interface_pages.python_api_page()


GENERATED = (
    functions_page,
    not_there_page,
    errors_page,
    configuration_page,
    http_api_page,
    python_api_page,
)


@pytest.mark.parametrize("page", GENERATED)
def test_page_is_what_the_code_says(
    page: Callable[[], Iterator[str]], request: pytest.FixtureRequest
) -> None:
    file = PAGES / f"{page.__name__.removesuffix('_page').replace('_', '-')}.md"
    text = "\n".join(page()) + "\n"
    if request.config.getoption("--rewrite"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text, "make golden writes it anew"


def test_every_setting_is_described() -> None:
    missing = [
        f"{path}.{name}"
        for path, settings in groups()
        for name, setting in settings.items()
        if not setting.get("description")
    ]
    assert not missing


def test_troubleshooting_names_errors_that_there_are() -> None:
    text = (PAGES.parent / "troubleshooting.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", text)) - {"JAVA_HOME"}
    assert named
    assert named <= errors.ERRORS.keys()


# --- Pages -------------------------------------------------------------------------------------


def test_links_lead_somewhere_on_a_code_host() -> None:
    """The site's build holds the same for the site."""
    assert [one for page in links.pages() for one in links.broken(page)] == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("[a](nowhere.md)", "no such file"),
        ("[a](other.md#not-there)", "no such heading"),
        ("[a](#not-here)", "no such heading"),
        ("[a](other.md#its-heading-of-code)", None),
        ("[a](#twice-1)", None),
        ("`[a](nowhere.md)`", None),
    ],
)
def test_a_link_to_nothing_is_found(
    link: str, problem: str | None, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# Its heading: of `code`\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(f"# Twice\n\n## Twice\n\n{link}\n", encoding="utf-8")
    found = list(links.broken(page.relative_to(tmp_path)))
    assert [one.rpartition(": ")[2] for one in found] == ([problem] if problem else [])


def test_every_page_says_first_what_it_is_for() -> None:
    """A heading, and a paragraph of a sentence or more before anything else."""
    silent = [
        str(page)
        for page in links.pages()
        if not re.match(r"# .+\n\n[A-Z`][^|#\n].{30,}", (ROOT / page).read_text(encoding="utf-8"))
        and page.parts[0] != ".github"
    ]
    assert silent == []


def test_contributors_are_told_of_every_folder_of_tests() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = {path.parent.relative_to(ROOT / "tests").parts[0] for path in _test_modules()}
    assert set(re.findall(r"`tests/(\w+)/`", text)) == folders


def _test_modules() -> list[pathlib.Path]:
    tests = ROOT / "tests"
    return [path for path in tests.rglob("*.py") if path.parent != tests]


def test_every_picture_is_ours_to_draw_and_says_what_it_shows() -> None:
    pictures = sorted((ROOT / "docs" / "images").rglob("*.svg"))
    assert pictures
    for path in pictures:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"https?://(?!www\.w3\.org/)|<script|<image|@import", text), path
        root = ET.fromstring(text)
        assert root.get("aria-label") or root.find("{*}desc") is not None, path


# --- The architecture ----------------------------------------------------------------------------

ROOT = PAGES.parents[1]
WORDS_MAX = 30
HOPS_MAX = 10


def test_the_table_of_folders_is_the_tree() -> None:
    """Every folder of modules down to the second level, and deeper where the table goes deeper."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([a-z_/]+)/` \|", readme, re.MULTILINE))
    assert all((ROOT / folder).is_dir() for folder in named)
    for part in PARTS:
        folders = {p.parent.relative_to(ROOT) for p in (ROOT / part).rglob("*.py")}
        assert {str(f) for f in folders if len(f.parts) <= 2} <= named, part


def test_every_module_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    known = [f"/{p.relative_to(ROOT)}" for part in PARTS for p in (ROOT / part).rglob("*.py")]
    named = re.findall(r"`([a-z_/]+\.py)`", text)
    assert len(named) > HOPS_MAX
    missing = [n for n in named if not any(k.endswith(f"/{n}") for k in known)]
    assert [n for n in missing if not (ROOT / n).exists()] == []


def test_the_architecture_is_short() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", text, re.MULTILINE))
    words = re.findall(r"^\| (?!word|-)", sections["Words"], re.MULTILINE)
    assert 0 < len(words) <= WORDS_MAX
    ways = [body for title, body in sections.items() if title.startswith("The path of a ")]
    assert len(ways) == 4
    for way in ways:
        assert 0 < len(re.findall(r"^\d+\. ", way, re.MULTILINE)) <= HOPS_MAX
