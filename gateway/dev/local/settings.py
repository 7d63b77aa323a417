"""The `seamline.yaml` of a local stack, which belongs to the user once it is written.

Afterwards only the broker's port is updated, in place, so that comments and edits stay.
"""

from __future__ import annotations

import json
import pathlib
import re

import yaml

from seamline.connectors.config import CatalogConfig
from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.config.yaml_file import cause_of
from seamline.gateway.dev.local.ports import HOST

CATALOG = "lake"
CLUSTER = "kafka"
SCHEMA = "default"
_CLUSTERS = (CLUSTER, "default")
"""The name of the local cluster, and its name in files of earlier versions."""

_LOCAL_SERVER = re.compile(re.escape(HOST) + r":\d+")
_BUSY_S = 30


def catalog_config(directory: pathlib.Path) -> CatalogConfig:
    """Returns the catalog of the stack in an absolute directory."""
    return CatalogConfig(
        name=CATALOG,
        type="sql",
        uri=f"sqlite:///{directory}/catalog.db?timeout={_BUSY_S}",
        warehouse=f"file://{directory}/warehouse",
    )


def new_text(directory: pathlib.Path, bootstrap_servers: str) -> str:
    """Returns the file's initial text."""
    catalog = catalog_config(directory)
    return f"""\
# Written by `seamline local up`. Edit it as you like: later, only the broker's port is updated.
catalogs:
  {CATALOG}:
    type: {catalog.type}
    uri: {_quoted(catalog.uri)}
    warehouse: {_quoted(catalog.warehouse)}
clusters:
  {CLUSTER}:
    bootstrap_servers: {_quoted(bootstrap_servers)}
default_catalog: {CATALOG}
default_schema: {SCHEMA}
"""


def updated_text(text: str, bootstrap_servers: str) -> str:
    """Returns the file's text with the broker's port corrected.

    It is unchanged if the file's cluster is not the local one.

    Raises:
        SeamlineError: INVALID_CONFIG when the text is not YAML.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise SeamlineError(
            INVALID_CONFIG,
            f"seamline.yaml is not YAML: {cause_of(error)}",
            hint="Correct it, or remove it to have it written again.",
        ) from error
    clusters = _child(node, "clusters")
    for cluster in _CLUSTERS:
        server = _child(_child(clusters, cluster), "bootstrap_servers")
        if isinstance(server, yaml.ScalarNode) and _LOCAL_SERVER.fullmatch(server.value):
            start, end = server.start_mark.index, server.end_mark.index
            return text[:start] + _quoted(bootstrap_servers) + text[end:]
    return text


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # JSON's strings are YAML's
