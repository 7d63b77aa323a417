"""How readers reach the files of served tables: the address of the store, and credentials for it.

Every reader is told the address of an object store. Credentials only go to a client that asks for
them, as the REST specification defines it: those that the configuration sets aside for readers, or
if there are none, temporary ones that the catalog behind this one vends. The gateway's own
credentials are never given away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from seamline.connectors.config import CatalogConfig, region_of
from seamline.connectors.places import FILE, place_of

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
"""Properties that say where a store is, and give nobody access."""


_EXPIRING = ("s3.session-token", "gcs.oauth2.token", "adls.sas-token")
"""Names, or prefixes of names, of properties that only expiring credentials have."""
_STORES = ("s3.", "gcs.", "adls.", "client.region")
_SIGNING = ("s3.signer", "s3.remote-signing")
"""Properties for having the catalog sign requests, which takes the gateway's own token."""
_REFRESHING = ".refresh-credentials-endpoint"
"""Ends properties that say where the gateway itself gets new credentials."""


def asks_for_credentials(header: str | None) -> bool:
    """Returns whether vended credentials are among the kinds that a delegation header lists."""
    return _VENDED in {kind.strip().lower() for kind in (header or "").split(",")}


def addresses(catalog: CatalogConfig, location: str) -> dict[str, str]:
    """Returns settings that tell a reader where a table's store is; none for local files."""
    if not _is_remote(location):
        return {}
    properties = {name: value for name, value in catalog.properties.items() if name in _ADDRESS}
    region = region_of(catalog.properties)
    if region is not None:
        # libraries differ in their name for it
        properties |= {"s3.region": region, "client.region": region}
    return properties


def credentials(catalog: CatalogConfig, locations: Iterable[str]) -> list[dict[str, Any]]:
    """Returns the credentials that are set aside for readers, for each prefix.

    Args:
        catalog: The table's catalog.
        locations: The locations of the table's files. A reader that gets only one prefix may take
            it for the table's location in the metadata.
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
    """Returns the expiring credentials that the catalog behind this one vended for a table's files.

    Credentials that do not expire are not passed on, whoever gave them to the gateway, and neither
    are those for the catalog itself.

    Args:
        catalog: The table's catalog.
        vended: What its catalog has vended, by prefix.
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
        if name.startswith(_STORES)
        and not name.startswith(_SIGNING)
        and not name.endswith(_REFRESHING)
    }


def _is_remote(location: str) -> bool:
    place = place_of(location)
    return place is not None and place.scheme != FILE
