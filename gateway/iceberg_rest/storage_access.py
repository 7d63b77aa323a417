"""How readers reach the files of served tables: where the store is, and with which keys.

Where an object store is, every reader is told. Keys go only to a client that asks for them, as the
REST specification has it: those that the configuration sets aside for readers or, without any,
those that the catalog behind this one hands out for a while. Never the gateway's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from seamline.connectors.config import CatalogConfig, region_of
from seamline.connectors.iceberg.places import FILE, place_of

DELEGATION_HEADER = "X-Iceberg-Access-Delegation"
_VENDED = "vended-credentials"
_ADDRESS = frozenset(
    {
        "s3.endpoint",
        "s3.region",
        "s3.path-style-access",
        "client.region",
        "gcs.project-id",
        "gcs.service.host",
        "adls.account-name",
    }
)
"""What says where a store is, and gives nobody access."""


_EXPIRING = ("s3.session-token", "gcs.oauth2.token", "adls.sas-token")
"""Properties, or how their names begin, that only keys have that expire."""
_STORES = ("s3.", "gcs.", "adls.", "client.region")
_SIGNING = ("s3.signer", "s3.remote-signing")
"""For asking the catalog itself to sign requests, with the gateway's own token."""


def asks_for_credentials(header: str | None) -> bool:
    """Whether a client's delegation header takes vended credentials; it lists what it takes."""
    return _VENDED in {kind.strip().lower() for kind in (header or "").split(",")}


def addresses(catalog: CatalogConfig, location: str) -> dict[str, str]:
    """Settings that tell a reader where the store of a table is; none for files of this machine.

    Args:
        catalog: The table's catalog.
        location: The table's location.
    """
    if not _is_remote(location):
        return {}
    found = {name: value for name, value in catalog.properties.items() if name in _ADDRESS}
    region = region_of(catalog.properties)
    if region is not None:
        # each library has a name of its own for it
        found |= {"s3.region": region, "client.region": region}
    return found


def credentials(catalog: CatalogConfig, locations: Iterable[str]) -> list[dict[str, Any]]:
    """The keys set aside for readers, by the prefix that they are for.

    Args:
        catalog: The table's catalog.
        locations: Where files of the table lie. A reader that is given one prefix alone may take
            it to be the one place that the metadata calls the table's location.
    """
    if not catalog.reader_properties:
        return []
    return [
        {"prefix": prefix, "config": {**addresses(catalog, prefix), **catalog.reader_properties}}
        for prefix in dict.fromkeys(f"{location.rstrip('/')}/" for location in locations)
        if _is_remote(prefix)
    ]


def passed_on(
    catalog: CatalogConfig, vended: Iterable[tuple[str, Mapping[str, str]]]
) -> list[dict[str, Any]]:
    """What the catalog behind this one has handed out for a table's files: keys that expire.

    Keys that do not are nobody else's, whoever gave them to the gateway, and so is what opens the
    catalog itself.

    Args:
        catalog: The table's catalog.
        vended: By prefix what its catalog has handed out.
    """
    return [
        {"prefix": prefix, "config": {**addresses(catalog, prefix), **_of_storage(config)}}
        for prefix, config in vended
        if _is_remote(prefix) and any(name.startswith(_EXPIRING) for name in config)
    ]


def _of_storage(config: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in config.items()
        if name.startswith(_STORES) and not name.startswith(_SIGNING)
    }


def _is_remote(location: str) -> bool:
    place = place_of(location)
    return place is not None and place.scheme != FILE
