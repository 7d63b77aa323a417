"""Names of tables, as values and as text.

A name has one to three parts; a suffix after `$` selects a variant of a table: `$cold`, `$hot`, or
a metadata table. A schema with several levels is one part, with dots between the levels; a level
that itself contains dots is quoted in it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from seamline.errors import TABLE_NOT_FOUND, SeamlineError

METADATA_TABLES = (
    *("snapshots", "history", "refs", "properties", "metadata_log_entries"),
    *("files", "partitions", "manifests", "all_manifests", "entries"),
)
"""Variants that show what the metadata of a catalog's table holds; its log does not matter."""
ERRORS = "errors"
"""The variant that shows the records of a table's topic that cannot be decoded."""
VARIANTS = ("cold", "hot", "changes", ERRORS, "seam", "tail", *METADATA_TABLES)
INFORMATION_SCHEMA = "information_schema"
CLUSTER_SCHEMA = "default"
"""The one schema that a cluster has besides `information_schema`."""

SYSTEM_CATALOG = "system"
"""The catalog of the gateway's own tables; no configured catalog has its name."""
SYSTEM_SCHEMAS = ("jdbc", "metadata", "runtime")

_PART = r'(?:"((?:[^"]|"")*)"|([^".]*))'
_VARIANT = re.compile(rf"(.*?)(\$+)({'|'.join(VARIANTS)})", re.IGNORECASE | re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class TableName:
    """A resolved name.

    Attributes:
        catalog: Name of the catalog; empty for a topic of a cluster.
        cluster: Name of the cluster; empty for a table of a catalog.
        path: (namespace…, table) in the catalog, (topic,) in the cluster, or
            (`information_schema`, table) in either, and (schema, table) in `system`.
        variant: One of `VARIANTS`, or empty.
        is_system: Whether it is a table of `system`, or of the real `information_schema`, as
            opposed to a namespace that happens to have that name.
    """

    catalog: str
    cluster: str
    path: tuple[str, ...]
    variant: str = ""
    is_system: bool = False

    @property
    def full(self) -> tuple[str, ...]:
        """All parts, catalog or cluster first, without the variant."""
        return (self.catalog or self.cluster, *self.path)

    @property
    def is_own_table(self) -> bool:
        """Whether it is a table of a catalog: one that can be created, described, dropped."""
        return not (self.cluster or self.variant or self.is_system)

    @property
    def schema(self) -> str:
        """The schema as it is listed."""
        if self.is_system:
            return self.path[0]
        return CLUSTER_SCHEMA if self.cluster else schema_text(self.path[:-1])

    @property
    def table(self) -> str:
        """The table as it is listed, without the variant."""
        return self.path[-1] if self.cluster or self.is_system else table_text(self.path[-1])

    @property
    def folded(self) -> tuple[str, ...]:
        """All parts and the variant, in lower case where case does not matter: not in topics."""
        if self.cluster:
            return (*self.full, self.variant)
        return (*(part.lower() for part in self.full), self.variant)

    @property
    def display(self) -> str:
        """The whole name as text, which `split` and `resolve` turn back into this name."""
        table = self.table + (f"${self.variant}" if self.variant else "")
        return text_of((self.catalog or self.cluster, self.schema, table))


# --- Names as text -------------------------------------------------------------------------------


def text_of(parts: Sequence[str]) -> str:
    """Joins the parts with dots; an empty part, or one with dots or quotes, is quoted."""
    return ".".join(
        '"' + part.replace('"', '""') + '"' if set('."') & set(part) or not part else part
        for part in parts
    )


def split(text: str) -> tuple[str, ...]:
    """Inverts `text_of`; splits any other text at its dots."""
    if re.fullmatch(rf"{_PART}(?:\.{_PART})*", text) is None:
        return tuple(text.split("."))
    parts = re.finditer(rf"(?:^|\.){_PART}", text)
    return tuple(m[2] if m[1] is None else m[1].replace('""', '"') for m in parts)


def schema_text(namespace: Sequence[str]) -> str:
    """Returns a namespace as one part in SQL; `information_schema` always means the system's."""
    text = text_of(namespace)
    return f'"{text}"' if text.lower() == INFORMATION_SCHEMA else text


def namespace_of(schema: str) -> tuple[str, ...]:
    """Inverts `schema_text`."""
    return split(schema)


def table_text(table: str) -> str:
    """Returns a table's name in SQL: a `$cold` that ends its own name is written `$$cold`."""
    own = _VARIANT.fullmatch(table)
    return f"{own[1]}${own[2]}{own[3]}" if own is not None else table


def split_variant(name: str) -> tuple[str, str]:
    """Splits a name into its table and its variant, which is empty for the table itself.

    Raises:
        SeamlineError: TABLE_NOT_FOUND when it asks for more than one variant.
    """
    match = _VARIANT.fullmatch(name)
    if match is None:
        return name, ""
    if len(match[2]) > 1:
        return match[1] + match[2][1:] + match[3], ""
    table, another = split_variant(match[1])
    if another:
        raise SeamlineError(TABLE_NOT_FOUND, f"{name} names two variants of one table")
    return table, match[3].lower()
