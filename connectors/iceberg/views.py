"""Views of a catalog that has them, handed on as that catalog gives them.

Only REST catalogs have views in PyIceberg, and what it makes of one leaves out where it is kept; so
the answer itself is handed on.
"""

from __future__ import annotations

from pyiceberg.catalog.rest import Capability, Endpoints, IdentifierKind, RestCatalog
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import NoSuchViewError
from requests import HTTPError

_NEEDED = frozenset({Capability.V1_LIST_VIEWS, Capability.V1_LOAD_VIEW})


def are_served(catalog: RestCatalog) -> bool:
    """Whether the catalog says that it has views."""
    return catalog._supported_endpoints >= _NEEDED  # noqa: SLF001 - not told otherwise


def load(catalog: RestCatalog, identifier: tuple[str, ...]) -> bytes:
    """The catalog's answer to loading a view.

    Raises:
        NoSuchViewError: there is none.
        RESTError: the catalog fails.
    """
    parts = catalog._split_identifier_for_path(identifier, IdentifierKind.VIEW)  # noqa: SLF001
    answer = catalog._session.get(catalog.url(Endpoints.load_view, **parts))  # noqa: SLF001
    try:
        answer.raise_for_status()
    except HTTPError as error:
        _handle_non_200_response(error, {404: NoSuchViewError})
    return bytes(answer.content)
