"""The gateway's configuration: one frozen tree of typed values, with a description of each.

The checks, the defaults and the text of the reference page are all here. Units are in the names.
Every value can be written as a string, as variables and flags are: sizes as 256MiB, times as 10m.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import urllib.parse
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveInt,
    create_model,
    model_validator,
)

from seamline.connectors.config import CatalogConfig, ClusterConfig, Settings, Text, listed, refused
from seamline.gateway.faces import FACES
from seamline.gateway.names import SYSTEM_CATALOG

# --- Numbers -------------------------------------------------------------------------------------


def _in_units(**units: int) -> BeforeValidator:
    """Also accepts a number with a unit."""

    def multiplied(value: object) -> object:
        match = re.fullmatch(r"(\d[\d_]*) *([A-Za-z]+)", str(value))
        if match is None:
            return value
        if match[2] not in units:
            raise refused(f"needs one of the units {', '.join(units)}", value=match[0])
        return int(match[1].replace("_", "")) * units[match[2]]

    return BeforeValidator(multiplied)


_LARGEST = 1 << 60
Port = Annotated[NonNegativeInt, Field(le=65535)]
Rate = Annotated[NonNegativeInt, Field(le=1_000_000)]
Threads = Annotated[PositiveInt, Field(le=4096)]
Bytes = Annotated[
    NonNegativeInt, Field(le=_LARGEST), _in_units(KiB=1 << 10, MiB=1 << 20, GiB=1 << 30)
]
Seconds = Annotated[NonNegativeInt, Field(le=_LARGEST), _in_units(s=1, m=60, h=3600, d=24 * 3600)]
PositiveSeconds = Annotated[Seconds, Field(gt=0)]


# --- Groups --------------------------------------------------------------------------------------


def _with_a_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise refused(f"is not a regular expression: {error}", value=pattern) from error
    if not groups:
        raise refused("has no group to capture the principal", value=pattern)
    return pattern


_MISSING_OF_TLS = {
    "certificate": "is missing; TLS needs a certificate and its key",
    "key": "is missing; TLS needs a certificate and its key",
    "client_ca": "is missing; the lists of revoked certificates are about those it has signed",
}


class TlsConfig(Settings):
    """The gateway's TLS; without a certificate it speaks plain HTTP. The files are watched."""

    certificate: Text | None = None
    """File with its certificate and the chain above it, in PEM."""
    key: Text | None = None
    """File with the certificate's key, in PEM, without a passphrase. It must not be readable by
    everyone on the machine."""
    client_ca: Text | None = None
    """File with the certificates of the authorities that sign clients' certificates, in PEM. A
    client with such a certificate needs no other proof of who it is."""
    client_crl: Text | None = None
    """File with the lists of certificates that these authorities have revoked, in PEM: one list
    from each. If a list has expired, no client of its authority can log in."""
    client_name: Annotated[Text, AfterValidator(_with_a_group)] = "(.*)"
    """A regular expression for the whole common name of a client's certificate; its first group is
    the principal."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        needed = {
            "certificate": self.key or self.client_ca,
            "key": self.certificate,
            "client_ca": self.client_crl,
        }
        for name, because in needed.items():
            if because is not None and getattr(self, name) is None:
                raise refused(_MISSING_OF_TLS[name], name)
        return self


def _address(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise refused("must be http://… or https://…, without a query", value=url)
    return url


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        raise refused("is not a network of addresses, such as 10.0.0.0/8", value=text) from error


Network = Annotated[str, AfterValidator(_network)]


class HttpConfig(Settings):
    """Where the gateway listens."""

    host: Text = "127.0.0.1"
    """Address; anything but loopback needs `auth` or `http.tls.client_ca`."""
    port: Port = 8474
    """Port; 0 picks a free one."""
    threads: Threads = 32
    """Requests handled at once, not counting those that wait for a statement or a client."""
    request_bytes_max: Bytes = 1 << 20
    """Largest request body."""
    external_url: Annotated[Text, AfterValidator(_address)] | None = None
    """How clients reach the gateway, as `https://host:port/path`, if that differs from what their
    requests say: behind a proxy that changes the host or terminates TLS. Answers in Trino's
    protocol contain it."""
    trusted_proxies: Annotated[tuple[Network, ...], BeforeValidator(listed)] = ()
    """Networks of the proxies that are trusted to say where a request comes from, such as
    `10.0.0.0/8`. Without any, a request comes from whoever has connected."""
    proxy_header: Literal["X-Forwarded-For", "Forwarded"] = "X-Forwarded-For"
    """The header in which these proxies say so; each must write it itself, or add to it."""
    drain_seconds_max: Seconds = 60
    """After SIGTERM, how long the statements that the gateway has accepted may still run and be
    fetched; new ones are refused meanwhile."""
    tls: TlsConfig = TlsConfig()
    """Its TLS."""

    def at(self, port: int) -> str:
        """Returns the host with a port; an IPv6 address is put in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{port}"

    def url(self, port: int) -> str:
        """Returns the address of the gateway when it listens at a port."""
        scheme = "http" if self.tls.certificate is None else "https"
        return f"{scheme}://{self.at(port)}"


class PortConfig(Settings):
    """A face with a port of its own."""

    port: Port | None = None
    """Port; 0 picks a free one."""


class AccessToken(Settings):
    """A bearer token of one principal, kept only as its SHA-256."""

    name: Text
    """The principal."""
    sha256: Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")]
    """Hexadecimal SHA-256 of the token."""
    groups: Annotated[tuple[Text, ...], BeforeValidator(listed)] = ()
    """Groups of the principal, which access rules may name."""
    expires: AwareDatetime | None = None
    """The moment from which it is no longer accepted, with a time zone."""

    def has_expired(self) -> bool:
        """Whether it is no longer accepted."""
        return self.expires is not None and datetime.datetime.now(datetime.UTC) >= self.expires


def _secured(address: str) -> str:
    host = urllib.parse.urlsplit(address).hostname or ""
    is_file = "://" not in address
    if not is_file and not address.startswith("https://") and host not in _THIS_MACHINE:
        raise refused("must be https://…, or a file", value=address)
    return address


_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})


class JwtConfig(Settings):
    """The identity provider whose JSON Web Tokens are accepted; none without `jwks`."""

    jwks: Annotated[Text, AfterValidator(_secured)] | None = None
    """Its keys, as a JSON Web Key Set: an https address, or a file, which is watched."""
    issuer: Text | None = None
    """The value of `iss` in its tokens."""
    audience: Annotated[tuple[Text, ...], BeforeValidator(listed)] = ()
    """The values of `aud` that are accepted; a token needs one of them."""
    principal_claim: Text = "sub"
    """The claim that names the principal; with dots, a claim inside others."""
    groups_claim: Text | None = None
    """The claim that lists the principal's groups; with dots, a claim inside others."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        needed = ("jwks", "issuer", "audience")
        missing = [name for name in needed if not getattr(self, name)]
        if missing and len(missing) < len(needed):
            raise refused(
                "is missing; tokens are accepted only from one issuer, for one audience", missing[0]
            )
        return self


class TokenFile(Settings):
    """What `auth.token_file` holds."""

    tokens: tuple[AccessToken, ...] = ()
    """Bearer tokens."""


class AuthConfig(Settings):
    """Who may use the gateway; without any method of authentication, anyone who can reach it."""

    tokens: tuple[AccessToken, ...] = ()
    """The bearer tokens that are accepted."""
    token_file: Text | None = None
    """File of further tokens: YAML with a list `tokens` of the same entries; watched for
    changes."""
    passwords: Text | None = None
    """File of users and the hashes of their passwords (bcrypt or argon2), in the format of htpasswd
    and Trino; watched for changes."""
    jwt: JwtConfig = JwtConfig()
    """Whose JSON Web Tokens are accepted."""
    groups: Text | None = None
    """File of groups and their members, as `group:user,user`; watched for changes."""
    rules: Text | None = None
    """File of access rules, watched for changes; without it, every principal may do everything."""

    @property
    def takes_credentials(self) -> bool:
        """Whether a request can authenticate without a client certificate."""
        return bool(self.tokens or self.token_file or self.passwords or self.jwt.jwks)


class AuditConfig(Settings):
    """Where the audit log is written: nowhere, unless a file or a topic is named."""

    file: Text | None = None
    """File of JSON lines, or `-` for standard output; if it is moved away, a new one of the same
    name is started."""
    topic: Text | None = None
    """Topic of the default cluster, instead of a file."""
    literals: Literal["keep", "redact"] = "keep"
    """Whether the texts of statements are written as they are, or only with a ? for each string and
    number."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if self.file is not None and self.topic is not None:
            raise refused("cannot be combined with file", "topic")
        return self


class LimitsConfig(Settings):
    """What one gateway, and one statement in it, may use."""

    statement_seconds_max: PositiveSeconds = 600
    """Maximum run time of a statement, and the default deadline."""
    statements_running_max: Threads = 16
    """Statements that run at once; more wait."""
    statements_queued_max: NonNegativeInt = 256
    """Statements that may wait; more are refused."""
    principal_running_max: Threads = 12
    """Statements of one principal that run at once, if there are several principals."""
    principal_queued_max: NonNegativeInt = 64
    """Statements of one principal that may wait, if there are several principals."""
    statements_per_minute_max: Rate = 0
    """Statements that are accepted in any minute; 0 sets no limit."""
    principal_statements_per_minute_max: Rate = 0
    """Statements of one principal that are accepted in any minute; 0 sets no limit."""
    principal_results_max: PositiveInt = 256
    """Statements of one principal that are kept after they have ended; the oldest are released."""
    principal_history_max: NonNegativeInt = 100
    """Statements of one principal that are still listed after their results have been released."""
    results_bytes: Bytes = 32 << 30
    """Size of all results that are kept; the oldest results of the principal that has the most are
    released."""
    principal_results_bytes: Bytes = 16 << 30
    """Size of the results of one principal that are kept, if there are several principals; the
    oldest are released."""
    scan_bytes_max: Bytes = 0
    """Bytes that one statement may read, from files and from tails that the gateway reads for it; 0
    sets no limit."""
    memory_bytes: Bytes = 512 << 20
    """Memory of one statement in DuckDB before it spills."""
    principal_memory_bytes: Bytes = 0
    """Memory that the running statements of one principal may hold in DuckDB's processes, if there
    are several principals; the largest statement is ended. 0 sets no limit."""
    statements_memory_bytes: Bytes = 0
    """Memory that all running statements may hold in DuckDB's processes; the largest statement is
    ended. 0 sets no limit."""
    spill_bytes: Bytes = 10 << 30
    """Disk space that one statement may use to spill."""
    result_bytes: Bytes = 4 << 30
    """Largest size of one result."""
    result_seconds: PositiveSeconds = 600
    """How long a finished result that nobody fetches is kept."""
    duckdb_threads: Annotated[NonNegativeInt, Field(le=4096)] = 0
    """Threads of one statement in DuckDB; 0 means all cores."""
    duckdb_cold_bytes_max: Bytes = 4 << 30
    """A scan that reads more bytes of files than this runs on Spark."""
    duckdb_tail_rows_max: NonNegativeInt = 5_000_000
    """A statement with a longer tail than this runs on Spark."""


class TailConfig(Settings):
    """The tails kept here so that statements need not read them from Kafka again."""

    follow: bool = True
    """Whether tables are followed; otherwise every statement reads its tail itself."""
    memory_bytes: Bytes = 512 << 20
    """Memory for decoded rows, of all tables together; part of it is reserved for what is being
    read, merged and written."""
    disk_bytes: Bytes = 10 << 30
    """Disk space for what does not stay in memory, of all tables together."""
    idle_seconds: PositiveSeconds = 600
    """A table that no statement reads for this long is no longer followed."""


class SparkConfig(Settings):
    """Spark, for large scans and for tiering."""

    remote: Text | None = None
    """A Spark Connect address (`sc://host:port`, with `/;use_ssl=true;token=…` if it needs a
    token); without it, a local server is started when needed."""
    master: Text = "local[*]"
    """Spark master of what is started here: the local server, and tiering."""
    driver_memory: Text = "2g"
    """Memory of the driver that is started here, as Spark writes it."""
    start_early: bool = False
    """Start the local server with the gateway, in the background, so that the first statement that
    needs it does not wait; it takes its memory from then on."""
    packages: bool = False
    """Resolve Spark's jars with Maven coordinates instead of the local cache."""
    conf: Mapping[str, str] = {}
    """Further Spark settings."""


class TokensConfig(Settings):
    """Tokens that repeat a read."""

    secret: Annotated[str, Field(min_length=16)] | None = None
    """Secret that signs them, of at least 16 characters; gateways that share a secret accept each
    other's tokens. Without it, one is kept under `state_directory`."""
    age_seconds_max: PositiveSeconds = 7 * 24 * 3600
    """Older tokens are refused."""


class IcebergConfig(Settings):
    """The Iceberg REST catalog, through which any engine reads the live tables."""

    location: Text | None = None
    """Where the files of tails are put, as an address that the engines can reach. By default, this
    is a folder `_seamline` of the warehouse if that is in object storage, else a folder under
    `state_directory`, which is right only if the engines share this machine's disk and user."""
    hold_seconds: Seconds = 5
    """How long a statement that loads a table again gets the same seam."""
    lease_seconds: PositiveSeconds = 3600
    """How long a virtual snapshot can be read after it was last given out."""
    tail_offsets_max: PositiveInt = 20_000_000
    """A tail of more offsets than this is not written."""
    writes: bool = False
    """Whether clients may also change the catalog: create, write, alter, rename and drop tables
    that have no topic. Cannot be combined with `auth.rules`."""


# --- The tree ------------------------------------------------------------------------------------


def _named(entries: Any) -> Any:
    """Gives each entry its name, which is its key."""
    if not isinstance(entries, Mapping):
        return entries
    for key, entry in entries.items():
        if isinstance(entry, Mapping) and "name" in entry:
            raise refused("is not a setting; the key above it is the name", key, "name")
    return {k: {**e, "name": k} if isinstance(e, Mapping) else e for k, e in entries.items()}


T = TypeVar("T", bound=Settings)


def _with_ports(config: type[T]) -> type[T]:
    """Adds a section for each face that has a port of its own."""
    sections: dict[str, Any] = {}
    for name, face in FACES.items():
        if face.has_port:
            about = f"{face.protocol}, at `http.host` and with `http.tls`; without a port it is not"
            section = create_model(
                f"{name.title()}Config", __base__=PortConfig, __doc__=f"{about} offered."
            )
            where = f"Where it listens for {face.protocol}."
            sections[name] = (section, Field(section(), description=where))
    return create_model(
        config.__name__,
        __base__=config,
        __doc__=config.__doc__,
        __module__=config.__module__,
        **sections,
    )


@_with_ports
class Config(Settings):
    """The whole tree."""

    catalogs: Annotated[Mapping[str, CatalogConfig], BeforeValidator(_named), Field(min_length=1)]
    """Catalogs, by their names in SQL."""
    clusters: Annotated[Mapping[str, ClusterConfig], BeforeValidator(_named), Field(min_length=1)]
    """Kafka clusters, by the name that tables and SQL use for them."""
    tables: Mapping[str, Mapping[str, str]] = {}
    """Properties of tables by their full names, such as `lake.sales.orders`: what `seamline table
    adopt` writes into a table, for tables that are read-only. For a Delta table, they also give its
    `location`, unless that is the folder of its names in the warehouse."""
    default_catalog: str = Field(default_factory=lambda found: next(iter(found["catalogs"])))
    """Catalog for names that leave it out; the first one, unless another is named."""
    default_cluster: str = Field(default_factory=lambda found: next(iter(found["clusters"])))
    """Cluster for tables that name none; the first one, unless another is named."""
    default_schema: Text = "default"
    """Default schema for names without one."""
    state_directory: Text = ""
    """Where the gateway keeps results, spills and its secret; by default `.seamline-gateway` beside
    the configuration file."""
    http: HttpConfig = HttpConfig()
    """Where it listens."""
    auth: AuthConfig = AuthConfig()
    """Who may use it."""
    audit: AuditConfig = AuditConfig()
    """Its audit log."""
    limits: LimitsConfig = LimitsConfig()
    """What it may use."""
    tail: TailConfig = TailConfig()
    """What it keeps of the log."""
    spark: SparkConfig = SparkConfig()
    """Its Spark."""
    tokens: TokensConfig = TokensConfig()
    """How it signs tokens."""
    iceberg: IcebergConfig = IcebergConfig()
    """Its Iceberg catalog of live tables."""

    @property
    def asks_who(self) -> bool:
        """Whether clients must authenticate; otherwise everybody may do everything."""
        return self.auth.takes_credentials or self.http.tls.client_ca is not None

    def shared(self) -> LimitsConfig:
        """Returns the limits in effect.

        Without authentication there is only one principal, who may use what all may use together.
        """
        if self.asks_who:
            return self.limits
        return self.limits.model_copy(
            update={
                "principal_running_max": self.limits.statements_running_max,
                "principal_queued_max": self.limits.statements_queued_max,
                "principal_results_bytes": self.limits.results_bytes,
                "principal_memory_bytes": 0,
            }
        )

    @property
    def ports(self) -> dict[str, int]:
        """The ports of the faces that are given one of their own, by the names of the faces."""
        given = ((name, getattr(self, name).port) for name, face in FACES.items() if face.has_port)
        return {name: port for name, port in given if port is not None}

    @model_validator(mode="after")
    def _ports_let_somebody_in(self) -> Self:
        if self.ports and self.http.tls.client_ca and not self.auth.takes_credentials:
            problem = (
                "needs auth.tokens, token_file, passwords or jwt: client certificates "
                "are not checked there"
            )
            raise refused(problem, next(iter(self.ports)), "port")
        return self

    @model_validator(mode="after")
    def _rules_hold_for_writers(self) -> Self:
        if self.iceberg.writes and self.auth.rules is not None:
            problem = (
                "cannot be combined with auth.rules: whoever writes a table's metadata "
                "can make it name the files of other tables"
            )
            raise refused(problem, "iceberg", "writes")
        return self

    @model_validator(mode="after")
    def _names_are_free(self) -> Self:
        for kind, named in (("catalogs", self.catalogs), ("clusters", self.clusters)):
            for name in named:
                if name.lower() == SYSTEM_CATALOG:
                    raise refused("is the gateway's own catalog; give it another name", kind, name)
        return self

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        for kind, named in (("catalog", self.catalogs), ("cluster", self.clusters)):
            name = getattr(self, f"default_{kind}")
            if name not in named:
                raise refused(f"is not under {kind}s", f"default_{kind}", value=name)
        for name in self.tables:
            if name.partition(".")[0] not in self.catalogs or name.count(".") < 2:
                raise refused("is not a full name: catalog.schema.table", "tables", name)
            catalog = self.catalogs[name.partition(".")[0]]
            is_placed = bool(catalog.warehouse) or "location" in self.tables[name]
            if not (catalog.format.is_listed or is_placed):
                problem = "is missing, and its catalog has no warehouse"
                raise refused(problem, "tables", name, "location")
        catalogs = {name.lower() for name in self.catalogs}
        for name in self.clusters:
            if name.lower() in catalogs:
                raise refused("is also the name of a catalog; rename one of them", "clusters", name)
        return self
