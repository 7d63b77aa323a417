"""Supports metadata of other writers' tables that PyIceberg does not know.

The support goes as far as reading such tables requires: columns of the type `variant`, and version
1 snapshots that name their manifests directly, as writers did before there were manifest lists.
"""

from __future__ import annotations

import datetime
from typing import Any, Literal

from pydantic import Field
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import TableVersion
from pyiceberg.types import IcebergType, PrimitiveType, TimestamptzNanoType
from pyiceberg.utils.datetime import timestamp_to_nanos, timestamptz_to_nanos

from seamline.errors import NOT_SUPPORTED, SeamlineError

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class VariantType(PrimitiveType):
    """The type of self-describing values, which may be of any type."""

    root: Literal["variant"] = Field(default="variant")

    def minimum_format_version(self) -> TableVersion:
        """Returns the first version of the format that has it."""
        return 3


class ListingSnapshot(Snapshot):
    """A snapshot that has no manifest list, because it names its manifests directly."""

    manifest_paths: list[str] = Field(alias="manifests")

    def manifests(self, io: FileIO) -> list[ManifestFile]:  # noqa: ARG002 - PyIceberg's
        """Refuses: PyIceberg asks for the manifests only to write the next list.

        Raises:
            SeamlineError: NOT_SUPPORTED.
        """
        raise _not_written(f"snapshot {self.snapshot_id}")


def type_of(text: str) -> IcebergType | None:
    """Returns the type of that name; None for names that PyIceberg itself handles."""
    return VariantType() if text == "variant" else None


def moment_of(type_: PrimitiveType, value: Any) -> Any:
    """Parses the default of a nanosecond column, to the microseconds that Python supports.

    Raises:
        ValueError: It has more than six fractional digits of a second.
    """
    if not isinstance(value, str):
        return value
    is_zoned = isinstance(type_, TimestamptzNanoType)
    nanoseconds = timestamptz_to_nanos(value) if is_zoned else timestamp_to_nanos(value)
    microseconds, more = divmod(nanoseconds, 1000)
    if more:
        raise ValueError(f"the default {value} has more than 6 digits of a second")
    moment = _EPOCH + datetime.timedelta(microseconds=microseconds)
    return moment if is_zoned else moment.replace(tzinfo=None)


def moment_text(_: PrimitiveType, value: datetime.datetime) -> str:
    """The inverse of `moment_of`."""
    zone = "" if value.tzinfo is None else "+00:00"
    return f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}000{zone}"


MOMENTS = (moment_of, moment_text)
"""The functions that read such defaults from JSON, and write them to it."""


def completed(body: Any) -> Any:
    """Returns metadata, or whatever stands in its place, in a form that PyIceberg accepts."""
    if not isinstance(body, dict) or body.get("format-version") != 1:
        return body
    snapshots = body.get("snapshots")
    if not isinstance(snapshots, list):
        return body
    return {**body, "snapshots": [_snapshot(snapshot) for snapshot in snapshots]}


def _snapshot(body: Any) -> Any:
    if not isinstance(body, dict) or "manifest-list" in body or "manifests" not in body:
        return body
    return ListingSnapshot(**{**body, "manifest-list": ""})


def files_of(snapshot: Snapshot) -> list[str]:
    """Returns the files that the metadata names for a snapshot."""
    if isinstance(snapshot, ListingSnapshot):
        return snapshot.manifest_paths
    return [snapshot.manifest_list]


def require_lists(table: Table) -> None:
    """Requires every snapshot to have a manifest list.

    Writers of metadata call this: they would lose the manifests that a snapshot names directly.

    Raises:
        SeamlineError: NOT_SUPPORTED.
    """
    if any(isinstance(snapshot, ListingSnapshot) for snapshot in table.metadata.snapshots):
        raise _not_written(f"table {'.'.join(table.name())}")


def _not_written(what: str) -> SeamlineError:
    return SeamlineError(
        NOT_SUPPORTED,
        f"{what} has no manifest list, which only format version 1 allows: it can be read, but not "
        "written",
        hint="Let its writer commit once, and expire the older snapshots.",
    )
