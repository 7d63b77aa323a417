"""Goal: the chart's values, schema and examples agree with each other and with the gateway.

Method: everything that can be told from the files alone. What needs Helm, which is rendering, is
`helm/check`. A setting that the gateway gains or loses fails here until the chart follows.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.locks import locked
from support.sources import PARTS

from seamline.dbapi.version import VERSION
from seamline.gateway.config.load import load
from seamline.gateway.config.model import Config

_HELM = pathlib.Path(__file__).parents[2] / "helm"
_SECRET = "5e" * 32
_CHART = _HELM / "seamline"
_EXAMPLES = sorted((_HELM / "examples").glob("*.yaml"))
_WRONG = sorted((_HELM / "examples" / "wrong").glob("*.yaml"))
_SET_BY_THE_CHART = {"state_directory"}
_LEFT_OUT = {"spark.packages": "the image carries the jars, and a pod has nowhere to put others"}


def _yaml(path: pathlib.Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_CHART / "values.schema.json").read_text(encoding="utf-8"))
    return found


def _merged(under: Any, over: Any) -> Any:
    """Values as Helm merges them: maps by key, everything else replaced."""
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    keys = {**under, **over}
    return {k: _merged(under[k], over[k]) if k in under and k in over else keys[k] for k in keys}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return value


# --- Versions -------------------------------------------------------------------------------------


def test_the_chart_runs_this_version() -> None:
    assert _yaml(_CHART / "Chart.yaml")["appVersion"] == VERSION


# --- Schema ---------------------------------------------------------------------------------------


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(_schema())


def test_the_defaults_conform_and_are_all_in_the_schema() -> None:
    jsonschema.validate(_yaml(_CHART / "values.yaml"), _schema())


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_an_example_conforms(example: pathlib.Path) -> None:
    jsonschema.validate(_yaml(example), _schema())


def _objects(node: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield path, node
        for key, value in node.items():
            yield from _objects(value, f"{path}/{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _objects(value, f"{path}/{index}")


def test_the_schema_is_closed() -> None:
    kubernetes = re.compile(
        r"/(global|affinity|ports/items|(ipBlock|namespaceSelector|podSelector))$"
    )
    is_open = [
        path
        for path, node in _objects(_schema(), "")
        if node.get("additionalProperties", True) is True and not kubernetes.search(path)
    ]
    assert not is_open


def test_every_value_of_the_schema_has_a_default_or_a_place_in_a_list() -> None:
    defaults = _yaml(_CHART / "values.yaml")
    properties = {**_schema()["properties"]}
    del properties["global"]  # Helm's own
    missing = [path for path in _paths_of_schema(properties, _schema()) if not _has(defaults, path)]
    assert not missing


def _paths_of_schema(
    properties: Mapping[str, Any], schema: Mapping[str, Any], prefix: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    for name, node in properties.items():
        found = schema["definitions"][node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else node
        yield (*prefix, name)
        if "resources" not in name:  # its parts are optional
            yield from _paths_of_schema(found.get("properties", {}), schema, (*prefix, name))


def _has(tree: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(tree, dict) or name not in tree:
            return False
        tree = tree[name]
    return True


# --- Comments -------------------------------------------------------------------------------------


def test_every_value_has_a_comment_above_it() -> None:
    lines = (_CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    named = re.compile(r"\s*(?!requests|limits: \{)[A-Za-z_]+:")  # these two are Kubernetes' own
    bare = [
        line
        for above, line in itertools.pairwise(lines)
        if named.match(line) and not above.strip().startswith("# ")
    ]
    assert not bare


# --- The gateway's configuration ------------------------------------------------------------------


def _settings(node: Mapping[str, Any], kinds: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted paths of all settings below a node of a schema; `*` stands for a name."""
    if "$ref" in node:
        node = kinds[node["$ref"].rsplit("/", 1)[1]]
    inner = node.get("items") or node.get("additionalProperties")
    if "properties" in node:
        for name, child in node["properties"].items():
            yield from _settings(child, kinds, f"{prefix}.{name}".lstrip("."))
    elif isinstance(inner, dict) and inner.keys() & {"$ref", "properties"} and inner != _TEXTS:
        yield from _settings(inner, kinds, f"{prefix}.*")
    else:
        yield prefix


_TEXTS = {"$ref": "#/definitions/properties"}
"""Names of others, with texts."""


def test_config_has_the_gateways_settings_and_no_others() -> None:
    schema, ours = _schema(), Config.model_json_schema()
    wanted = set(_settings(ours, ours["$defs"])) - _SET_BY_THE_CHART - set(_LEFT_OUT)
    assert set(_settings(schema["properties"]["config"], schema["definitions"])) == wanted


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_an_examples_configuration_loads(example: pathlib.Path, scratch: pathlib.Path) -> None:
    values = _merged(_yaml(_CHART / "values.yaml"), _yaml(example))
    text = yaml.safe_dump(_without_nulls(values["config"]))
    for mounted in re.findall(r"\$\{file:([^}]*)\}", text):
        (scratch / "mounted").write_text(_SECRET)
        text = text.replace(mounted, str(scratch / "mounted"))
    file = scratch / "seamline.yaml"
    file.write_text(text)
    config = load(file, environment={}).config
    assert config.asks_who
    assert all(token.sha256 == _SECRET for token in config.auth.tokens)
    assert {name: cluster.bootstrap_servers for name, cluster in config.clusters.items()} == {
        name: cluster["bootstrap_servers"] for name, cluster in values["config"]["clusters"].items()
    }


# --- Examples that are wrong ----------------------------------------------------------------------


@pytest.mark.parametrize("example", _WRONG, ids=lambda path: path.stem)
def test_a_wrong_example_says_what_is_wrong_with_it(example: pathlib.Path) -> None:
    assert re.fullmatch(r"# fails with: (schema: .+|[A-Z_]+(, [A-Z_]+)*)", _first_line(example))


def test_every_rule_has_a_wrong_example() -> None:
    rules = (_CHART / "templates" / "_validate.tpl").read_text(encoding="utf-8")
    named = {
        name for example in _WRONG for name in re.findall(r"[A-Z]+_[A-Z_]+", _first_line(example))
    }
    assert set(re.findall(r"^([A-Z_]+): ", rules, re.MULTILINE)) == named


def _first_line(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0]


# --- The image ------------------------------------------------------------------------------------


def test_the_image_is_built_from_files_that_are_there() -> None:
    """And that Docker is given: it sees what the list of ignored files lets through."""
    root = _HELM.parent
    recipe = (_HELM / "image" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    copied = [
        source
        for line in recipe.splitlines()
        if line.startswith("COPY ") and "--from=" not in line
        for source in line.split()[1:-1]
    ]
    assert copied
    assert not [source for source in copied if not (root / source).exists()]
    assert set(PARTS) <= set(copied)
    ignored = (_HELM / "image" / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == set(copied)


def test_the_image_has_the_versions_that_were_tested() -> None:
    tested, of_image = locked(), locked(_HELM / "image" / "requirements.lock")
    assert {name: tested.get(name, version) for name, version in of_image.items()} == of_image
    extras = tomllib.loads((_HELM.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        canonicalize_name(Requirement(text).name)
        for text in (
            *extras["dependencies"],
            *extras["optional-dependencies"]["delta"],
            *extras["optional-dependencies"]["gateway"],
            *extras["optional-dependencies"]["spark"],
        )
    ]
    assert not [name for name in wanted if name not in of_image]


def test_the_image_is_built_on_no_image_without_a_digest() -> None:
    recipe = (_HELM / "image" / "Dockerfile").read_text(encoding="utf-8")
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?", recipe, re.MULTILINE)
    own = {name for _, name in stages}
    assert {image for image, _ in stages if image not in own} == {
        "${PYTHON_IMAGE}@${PYTHON_DIGEST}"
    }
    assert re.search(r"^ARG PYTHON_DIGEST$", recipe, re.MULTILINE), "there is no default"


def test_the_image_runs_as_the_user_that_pods_run_as() -> None:
    recipe = (_HELM / "image" / "Dockerfile").read_text(encoding="utf-8")
    pod = (_CHART / "templates" / "_pod.tpl").read_text(encoding="utf-8")
    users = re.findall(r"^USER (\d+)", recipe, re.MULTILINE)
    assert re.findall(r"runAsUser: (\d+)", pod) == users
    assert len(users) == 1
