"""The reference pages say what the code says.

Goal: no function, error or setting is missing from the docs, or described otherwise than in code.
Method: the pages are rendered from the tables in code and compared; `make golden` writes them.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from seamline import errors
from seamline.connectors.iceberg.catalog_config import CatalogConfig
from seamline.connectors.kafka.cluster import ClusterConfig
from seamline.gateway.config import config
from seamline.sql import functions

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference"


def functions_page() -> Iterator[str]:
    yield "# Functions"
    yield ""
    yield "Each means the same on both engines. `T`, `U`, `E`, `K`: any type; `…`: any number."
    kinds = {"scalar": "Scalar", "aggregate": "Aggregate", "window": "Window"}
    for kind, title in kinds.items():
        yield f"\n## {title}\n"
        yield "| function | takes and gives |\n|---|---|"
        for name, overloads in sorted(functions.FUNCTIONS.items()):
            found = dict.fromkeys(o.signature for o in overloads if o.kind == kind)
            if found:
                cell = "<br>".join(f"`{signature}`" for signature in found).replace("|", "\\|")
                yield f"| `{name}` | {cell} |"


def errors_page() -> Iterator[str]:
    yield "# Errors"
    yield ""
    yield "Every failure has one of these names, over HTTP, the DB-API and the command line."
    yield ""
    yield "| name | kind | HTTP | retriable | what to do |\n|---|---|---|---|---|"
    for code in sorted(errors.ERRORS.values(), key=lambda c: c.name):
        again = "yes" if code.retriable else ""
        hint = code.hint.replace("|", "\\|")
        kind = code.kind.name.lower()
        yield f"| `{code.name}` | {kind} | {code.http_status} | {again} | {hint} |"


def configuration_page() -> Iterator[str]:
    yield "# Configuration"
    yield ""
    yield (
        "One YAML file. A flag (`--set path=value`) wins over the environment "
        "(`SEAMLINE_HTTP__PORT` sets `http.port`), which wins over the file, which wins over the "
        "default. `seamline config show` prints each value and where it came from."
    )
    groups: dict[str, Any] = {
        "": config.Config,
        "catalogs.NAME": CatalogConfig,
        "clusters.NAME": ClusterConfig,
        **{
            field.name: type(field.default)
            for field in dataclasses.fields(config.Config)
            if dataclasses.is_dataclass(field.default)
        },
        "auth.tokens[]": config.AccessToken,
    }
    for path, kind in groups.items():
        yield f"\n## {f'`{path}`' if path else 'Top level'}\n"
        yield "| setting | default | what it is |\n|---|---|---|"
        texts = attributes(kind)
        for field in dataclasses.fields(kind):
            is_its_key = field.name == "name" and "NAME" in path
            if is_its_key or dataclasses.is_dataclass(field.default):
                continue
            default = "" if field.default is dataclasses.MISSING else f"`{field.default}`"
            yield f"| `{field.name}` | {default} | {texts.get(field.name, '')} |"


def attributes(kind: type) -> dict[str, str]:
    """The descriptions of a dataclass's fields in its docstring."""
    text = inspect.cleandoc(kind.__doc__ or "")
    section = text.partition("Attributes:\n")[2]
    pairs = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", description) for name, description in pairs}


@pytest.mark.parametrize("page", [functions_page, errors_page, configuration_page])
def test_page_is_what_the_code_says(
    page: Callable[[], Iterator[str]], request: pytest.FixtureRequest
) -> None:
    file = PAGES / f"{page.__name__.removesuffix('_page')}.md"
    text = "\n".join(page()) + "\n"
    if request.config.getoption("--rewrite"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text, "make golden writes it anew"


def test_every_setting_is_described() -> None:
    for kind in (CatalogConfig, ClusterConfig, config.Config, *GROUPS):
        missing = {f.name for f in dataclasses.fields(kind)} - set(attributes(kind))
        assert not missing, (kind, missing)


GROUPS = (
    config.HttpConfig,
    config.IcebergConfig,
    config.AccessToken,
    config.AuthConfig,
    config.LimitsConfig,
    config.TailConfig,
    config.SparkConfig,
    config.TokensConfig,
)
