"""Settings for reaching catalogs and clusters, and the base class of settings groups.

Values only: nothing here connects, so reading the configuration loads no client.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

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

from seamline.connectors.logins import LOGINS
from seamline.connectors.places import place_of
from seamline.connectors.table_formats import TableFormat, by_catalog_type

Text = Annotated[str, Field(min_length=1)]

_NEEDED = {"sql": ("uri", "warehouse"), "rest": ("uri",), "hive": ("uri",)}
"""The settings that each type of catalog requires."""
_LOGIN_PROPERTIES = ("credential", "token", "oauth2-server-uri", "scope", "auth")
"""PyIceberg's properties for logins of its own."""
_STORES = {"s3": "s3", "gcs": "gs", "adls": "abfs"}
"""The URL scheme of the store that a prefix of property names configures."""


_EXTENSION = re.compile("(?!auth=)[A-Za-z]+=[ -~]+")
"""A name and its value, as RFC 7628 allows them."""


class Settings(BaseModel):
    """A group of settings. It is frozen and rejects undeclared settings."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )


def refused(problem: str, *path: str, value: str | None = None) -> ValidationError:
    """Returns the error that a validator raises for a nested value.

    Args:
        problem: What is wrong with the value.
        path: The keys that lead to the value.
        value: The value, where showing it helps.
    """
    error = PydanticCustomError("refused", "{problem}", {"problem": problem})
    return ValidationError.from_exception_data("", [{"type": error, "loc": path, "input": value}])


def _understood(location: str) -> str:
    if place_of(location) is None:
        raise refused("is not a location that all readers understand the same way", value=location)
    return location


def listed(locations: object) -> object:
    """Splits a comma-separated string, the form of lists in variables and flags, into a tuple."""
    return tuple(locations.split(",")) if isinstance(locations, str) else locations


Location = Annotated[str, AfterValidator(_understood)]
Locations = Annotated[tuple[Location, ...], BeforeValidator(listed)]


class LoginConfig(Settings):
    """A login with tokens, which are renewed before they expire."""

    type: str = ""
    """Who makes the tokens: `oidc` (client credentials), `aws_msk_iam`, `google` or `azure`."""
    url: str = ""
    """Address at which the identity provider issues tokens; https, except on loopback."""
    client_id: str = ""
    """The application's id. For `azure`, that of a user-assigned identity; for `google`, the
    address of the service account, where the credentials do not have it."""
    client_secret: str = Field(default="", repr=False)
    """The application's secret."""
    scope: str = ""
    """The scopes to request, separated by spaces."""
    audience: str = ""
    """The audience to request, for identity providers that require one."""
    ca: str = ""
    """File with the certificates to trust at `url`; by default, those of the system."""
    extensions: str = ""
    """`name=value` pairs, comma-separated, that are sent with the token, such as
    `logicalCluster=lkc-1,identityPoolId=pool-1`."""
    region: str = ""
    """The region of an MSK cluster."""
    role: str = ""
    """ARN of a role to assume, for `aws_msk_iam`."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if not any(getattr(self, name) for name in type(self).model_fields):
            return self
        login = LOGINS.get(self.type)
        if login is None:
            problem = f"is not a type of login; known here: {', '.join(LOGINS)}"
            raise refused(problem, "type", value=self.type)
        for name in login.needs:
            if not getattr(self, name):
                raise refused(f"is missing; the login {self.type} needs it", name)
        for name in type(self).model_fields:
            if name not in ("type", *login.needs, *login.takes) and getattr(self, name):
                raise refused(f"is not a setting of the login {self.type}", name)
        if self.url and not _is_confidential(self.url):
            raise refused("must be https, because secrets are sent there", "url")
        if not all(map(_EXTENSION.fullmatch, self._pairs)):
            problem = "must be name=value pairs, comma-separated, none of them named auth"
            raise refused(problem, "extensions")
        return self

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self.type)

    @property
    def _pairs(self) -> list[str]:
        return self.extensions.split(",") if self.extensions else []

    @property
    def sent_along(self) -> dict[str, str]:
        """The extensions by name."""
        return dict(pair.split("=", 1) for pair in self._pairs)


def _is_confidential(url: str) -> bool:
    """Whether nobody else can read what is sent to an address."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    is_loopback = host in ("localhost", "::1") or re.fullmatch(r"127(\.\d+){3}", host) is not None
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback))


def _require_bearer(login: LoginConfig, *, others: str, address: tuple[str, str]) -> None:
    """Requires a login to be the only one, and its tokens to be sent to nobody else.

    Args:
        login: The login.
        others: Other logins that are set.
        address: The setting that says where tokens are sent, and its value.
    """
    if not LOGINS[login.type].is_bearer:
        raise refused("is a login to Kafka only", "login", "type", value=login.type)
    if others:
        raise refused(f"and {others}: set only one of them", "login")
    if not _is_confidential(address[1]):
        raise refused("must be https, because tokens are sent there", address[0])


class CatalogConfig(Settings):
    """How to reach a catalog."""

    name: SkipJsonSchema[str] = Field(exclude=True)
    """Its name in statements and in the configuration, where it is the key."""
    type: Text
    """PyIceberg's catalog type: `sql`, `rest`, `hive`, `glue`, …; or `delta` for the Delta tables
    listed under `tables`."""
    uri: str = ""
    """Address of the catalog, for types that have one."""
    warehouse: str = ""
    """Where tables are stored; a REST catalog may have names for its warehouses."""
    properties: Mapping[str, str] = {}
    """Further PyIceberg properties."""
    spark: Mapping[str, str] = {}
    """Further properties of this catalog in Spark, without their prefix."""
    locations: Locations = ()
    """Locations outside the warehouse where tables may be stored."""
    reader_properties: Mapping[str, str] = {}
    """Properties with keys for clients that read tables through the gateway's Iceberg REST catalog
    and ask for credentials. Use keys that can only read."""
    data_locations: Locations = ()
    """Locations outside a table's own location where its files may be stored: for files that were
    added in place or are written elsewhere."""
    login: LoginConfig = LoginConfig()
    """A login with tokens, for catalogs of type `rest`, instead of PyIceberg's `credential` or
    `token`."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        types = by_catalog_type()
        if self.type not in types:
            problem = f"is not a type of catalog; known here: {', '.join(types)}"
            raise refused(problem, "type", value=self.type)
        for key in _NEEDED.get(self.type, ()):
            if key not in self.address:
                raise refused(f"is missing; type {self.type} needs it", key)
        return self

    @model_validator(mode="after")
    def _has_one_login(self) -> Self:
        if self.login:
            if self.type != "rest":
                raise refused("is a setting of the type rest", "login")
            if self.login.extensions:
                raise refused("is not a setting of logins to catalogs", "login", "extensions")
            others = [f"properties.{name}" for name in _LOGIN_PROPERTIES if name in self.properties]
            _require_bearer(self.login, others=", ".join(others), address=("uri", self.uri))
        return self

    @property
    def format(self) -> TableFormat:
        """The format of its tables."""
        return by_catalog_type()[self.type]

    @property
    def address(self) -> dict[str, str]:
        """The address properties, which PyIceberg and Spark have in common."""
        both = {"uri": self.uri, "warehouse": self.warehouse}
        return {name: value for name, value in both.items() if value}

    @property
    def stores(self) -> frozenset[str]:
        """URL schemes of the stores that hold its tables, as far as the configuration shows."""
        places = map(place_of, (self.warehouse, *self.locations, *self.data_locations))
        named = {place.scheme for place in places if place is not None}
        prefixes = {name.partition(".")[0] for name in self.properties}
        return frozenset(named | {_STORES[name] for name in prefixes & _STORES.keys()})


def region_of(properties: Mapping[str, str]) -> str | None:
    """Returns the S3 region; Amazon's library requires one even for servers that have none."""
    region = properties.get("s3.region") or properties.get("client.region")
    return region or ("us-east-1" if "s3.endpoint" in properties else None)


class SchemaRegistryConfig(Settings):
    """How to reach a schema registry."""

    type: Literal["confluent", "glue", "azure"] = "confluent"
    """`confluent` for Confluent's API, which most registries speak; `glue` for AWS Glue; `azure`
    for Azure Schema Registry."""
    url: str = ""
    """Its address, including the path of Confluent's API if there is one; `glue` needs none."""
    region: str = ""
    """The region, for `glue`."""
    group: str = ""
    """The registry of `glue` (by default, `default-registry`), or the schema group of `azure`, that
    has the schemas of new records and of tables that are inferred."""
    username: str = ""
    """User name for HTTP basic authentication, or an API key."""
    password: str = Field(default="", repr=False)
    """The password, or the key's secret."""
    token: str = Field(default="", repr=False)
    """A bearer token, instead of a user name and password."""
    ca: str = ""
    """File with the trusted certificates; by default, those of the system."""
    certificate: str = ""
    """File with the client's own certificate."""
    key: str = ""
    """File with the client certificate's private key."""
    login: LoginConfig = LoginConfig()
    """A login with tokens, instead of a token or a user name and password."""

    @model_validator(mode="after")
    def _has_one_login(self) -> Self:
        if self.login:
            others = "a token or a username" if self.token or self.username else ""
            _require_bearer(self.login, others=others, address=("url", self.url))
        return self

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        is_confidential = not self.url or _is_confidential(self.url)
        if self.type == "glue":
            if not self.region:
                raise refused("is missing; the type glue needs it", "region")
            if self.login or self.token or self.username:
                raise refused("uses the AWS credentials of the process, no other login", "type")
        elif self.region:
            raise refused("is a setting of the type glue", "region")
        if self.group and self.type == "confluent":
            raise refused("is a setting of the types glue and azure", "group")
        if self.type == "azure" and not (self.url and (self.login or self.token)):
            raise refused("is missing; the type azure needs url, and login or token", "url")
        if self.type != "confluent" and not is_confidential:
            raise refused("must be https, except on loopback", "url")
        return self

    @property
    def address(self) -> str:
        """Its address without the credentials in it and without trailing slashes."""
        if self.type == "glue" and not self.url:
            return f"https://glue.{self.region}.amazonaws.com"
        return re.sub("(?<=://)[^/]*@", "", self.url).rstrip("/")

    @property
    def public(self) -> dict[str, str]:
        """What readers elsewhere, with credentials of their own, need to know of it."""
        return {"type": self.type, "url": self.address, "region": self.region, "group": self.group}

    @property
    def credentials(self) -> tuple[str, str]:
        """User name and password; those in its url if no others are set. Both may be empty."""
        credentials = re.search("://([^/:@]*):?([^/]*)@", self.url)
        if self.username or credentials is None:
            return self.username, self.password
        return urllib.parse.unquote(credentials[1]), urllib.parse.unquote(credentials[2])


class ClusterConfig(Settings):
    """How to reach a cluster."""

    name: SkipJsonSchema[str] = Field(exclude=True)
    """Its name in table properties and in the configuration, where it is the key."""
    bootstrap_servers: Text
    """host:port, comma-separated."""
    properties: Mapping[str, str] = {}
    """Further librdkafka properties (such as security settings). They come only from the gateway's
    configuration."""
    java_properties: Mapping[str, str] = {}
    """The same for Kafka's Java client, which Spark uses."""
    login: LoginConfig = LoginConfig()
    """A login with tokens (SASL/OAUTHBEARER). With it, Spark's workers read with librdkafka, too,
    unless `java_properties` are set."""
    schema_registry: SchemaRegistryConfig = SchemaRegistryConfig()
    """Where the schemas of its records are registered."""

    def client_properties(self) -> dict[str, Any]:
        """Returns the properties that every client of the cluster needs, without its tokens."""
        of_login = {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}
        return {
            **(of_login if self.login else {}),
            "bootstrap.servers": self.bootstrap_servers,
            "log_level": 0,
            "reconnect.backoff.max.ms": 1000,
            **self.properties,
        }
