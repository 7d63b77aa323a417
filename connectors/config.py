"""How catalogs and clusters are reached, and what a group of settings is.

Values only: nothing here connects, so reading the configuration loads no client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from seamline.connectors.iceberg.places import place_of

Text = Annotated[str, Field(min_length=1)]

_NEEDED = {"sql": ("uri", "warehouse"), "rest": ("uri",)}
"""The settings that each type of catalog needs."""
DELTA = "delta"
_STORES = {"s3": "s3", "gcs": "gs", "adls": "abfs"}
"""The store that properties of a prefix are for."""


class Settings(BaseModel):
    """A group of settings: frozen, and closed to what it does not declare."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )


def refused(problem: str, *path: str, value: str | None = None) -> ValidationError:
    """The error that a validator raises for a value further down.

    Args:
        problem: What is wrong with it.
        path: The keys that lead to it.
        value: The value, where it helps to see it.
    """
    error = PydanticCustomError("refused", "{problem}", {"problem": problem})
    return ValidationError.from_exception_data("", [{"type": error, "loc": path, "input": value}])


def _understood(location: str) -> str:
    if place_of(location) is None:
        raise refused("is no location that every reader understands alike", value=location)
    return location


def listed(locations: object) -> object:
    """Takes a string too, as variables and flags are, with commas in between."""
    return tuple(locations.split(",")) if isinstance(locations, str) else locations


Location = Annotated[str, AfterValidator(_understood)]
Locations = Annotated[tuple[Location, ...], BeforeValidator(listed)]


class CatalogConfig(Settings):
    """How to reach a catalog."""

    name: SkipJsonSchema[str] = Field(exclude=True)
    """What the configuration and statements call it: its key there."""
    type: Text
    """PyIceberg's catalog type: `sql`, `rest`, `hive`, `glue`, …; or `delta` for the Delta tables
    that are named under `tables`."""
    uri: str = ""
    """Where it is; for those that have an address."""
    warehouse: str = ""
    """Where tables are put; a REST catalog may have names for its warehouses."""
    properties: Mapping[str, str] = {}
    """Further PyIceberg properties."""
    spark: Mapping[str, str] = {}
    """Further properties of the same catalog in Spark, without their prefix."""
    locations: Locations = ()
    """Where tables may lie besides the warehouse."""
    reader_properties: Mapping[str, str] = {}
    """Properties with keys for whoever reads tables through the gateway's Iceberg REST catalog and
    asks for credentials: keys that can read, and no more."""
    data_locations: Locations = ()
    """Where files of its tables may lie in addition to the table's own location: files that were
    added where they lay, or are written elsewhere."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        for key in _NEEDED.get(self.type, ()):
            if key not in self.address:
                raise refused(f"is missing; type {self.type} needs it", key)
        return self

    @property
    def is_delta(self) -> bool:
        """Whether its tables are Delta tables, which the configuration names."""
        return self.type == DELTA

    @property
    def address(self) -> dict[str, str]:
        """The properties that say where it is, common to PyIceberg and Spark."""
        both = {"uri": self.uri, "warehouse": self.warehouse}
        return {name: value for name, value in both.items() if value}

    @property
    def stores(self) -> frozenset[str]:
        """Schemes of the stores its tables lie in, as far as the configuration says so."""
        places = map(place_of, (self.warehouse, *self.locations, *self.data_locations))
        named = {place.scheme for place in places if place is not None}
        prefixes = {name.partition(".")[0] for name in self.properties}
        return frozenset(named | {_STORES[name] for name in prefixes & _STORES.keys()})


def region_of(properties: Mapping[str, str]) -> str | None:
    """The region of S3, which Amazon's library wants even of a server that has none."""
    known = properties.get("s3.region") or properties.get("client.region")
    return known or ("us-east-1" if "s3.endpoint" in properties else None)


class SchemaRegistryConfig(Settings):
    """How to reach a schema registry that speaks Confluent's API."""

    url: str = ""
    """Its address, with the path of that API where it has one."""
    username: str = ""
    """User of HTTP's basic authentication; an API key."""
    password: str = Field(default="", repr=False)
    """The password, or the key's secret."""
    token: str = Field(default="", repr=False)
    """A bearer token, instead of them."""
    ca: str = ""
    """File with the certificates that are trusted; those of the system without it."""
    certificate: str = ""
    """File with the client's own certificate."""
    key: str = ""
    """File with its private key."""

    @property
    def address(self) -> str:
        """Its address, without what is nobody else's business in it."""
        return re.sub("(?<=://)[^/@]*@", "", self.url).rstrip("/")


class ClusterConfig(Settings):
    """How to reach a cluster."""

    name: SkipJsonSchema[str] = Field(exclude=True)
    """What the configuration and table properties call it: its key there."""
    bootstrap_servers: Text
    """host:port, comma-separated."""
    properties: Mapping[str, str] = {}
    """Further librdkafka properties (security and the like), from the gateway's configuration
    only."""
    java_properties: Mapping[str, str] = {}
    """The same for Kafka's Java client, which Spark uses."""
    schema_registry: SchemaRegistryConfig = SchemaRegistryConfig()
    """Where the schemas of its records are registered."""

    def client_properties(self) -> dict[str, Any]:
        """Properties every client of the cluster needs."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "log_level": 0,
            "reconnect.backoff.max.ms": 1000,
            **self.properties,
        }
