"""The gateway's configuration: one frozen tree of typed values.

A value comes from a flag, else from the environment, else from the file, else from the default
written here. Units are in the names, unknown keys are errors, and secrets print as `******`; the
file can take them from elsewhere (see `references`).
`seamline config show` prints each value and where it came from.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from seamline.connectors.iceberg.catalog_config import CatalogConfig
from seamline.connectors.kafka.cluster import ClusterConfig
from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.config import references

ENVIRONMENT_PREFIX = "SEAMLINE_"
FILE_VARIABLE = "SEAMLINE_CONFIG"
FILE_NAME = "seamline.yaml"


@dataclasses.dataclass(frozen=True, slots=True)
class HttpConfig:
    """Where the gateway listens.

    Attributes:
        host: Address; anything but loopback needs `auth`.
        port: Port; 0 takes a free one.
        threads: Requests served at once.
        request_bytes_max: Largest request body.
        drain_seconds_max: When SIGTERM ends the gateway, how long statements that it has accepted
            may still run and be fetched; new ones are refused meanwhile.
    """

    host: str = "127.0.0.1"
    port: int = 8474
    threads: int = 32
    request_bytes_max: int = 1 << 20
    drain_seconds_max: int = 60


@dataclasses.dataclass(frozen=True, slots=True)
class AccessToken:
    """A bearer token of one principal, kept as its SHA-256 only.

    Attributes:
        name: The principal.
        sha256: Hexadecimal SHA-256 of the token.
    """

    name: str
    sha256: str

    def __post_init__(self) -> None:
        if re.fullmatch(r"[0-9a-fA-F]{64}", self.sha256) is None:
            raise _invalid("auth.tokens", f"the sha256 of {self.name!r} has not 64 hex digits")


@dataclasses.dataclass(frozen=True, slots=True)
class AuthConfig:
    """Who may use the gateway; without tokens anybody who reaches it.

    Attributes:
        tokens: The bearer tokens it takes.
    """

    tokens: tuple[AccessToken, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What one gateway, and one statement in it, may use.

    Attributes:
        statement_seconds_max: Longest run of a statement, and the default deadline.
        statements_running_max: Statements that run at once; more wait.
        statements_queued_max: Statements that may wait; more are refused.
        memory_bytes: Memory of one statement in DuckDB before it spills.
        spill_bytes: Disk that one statement may spill.
        result_bytes: Size of one result.
        result_seconds: How long a finished result nobody fetches is kept.
        duckdb_threads: Threads of one statement in DuckDB; 0 means all cores.
        duckdb_cold_bytes_max: A scan of more bytes of files goes to Spark.
        duckdb_tail_rows_max: A longer tail goes to Spark.
    """

    statement_seconds_max: int = 600
    statements_running_max: int = 16
    statements_queued_max: int = 256
    memory_bytes: int = 512 << 20
    spill_bytes: int = 10 << 30
    result_bytes: int = 4 << 30
    result_seconds: int = 600
    duckdb_threads: int = 0
    duckdb_cold_bytes_max: int = 4 << 30
    duckdb_tail_rows_max: int = 5_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class TailConfig:
    """The tails kept here so that statements need not read them from Kafka again.

    Attributes:
        follow: Whether tables are followed; without, every statement reads its tail itself.
        memory_bytes: Memory for decoded rows, of all tables together; a part of it is left to what
            is being read, merged and written.
        disk_bytes: Files of what does not stay in memory, of all tables together.
        idle_seconds: A table that no statement reads for so long is not followed any more.
    """

    follow: bool = True
    memory_bytes: int = 512 << 20
    disk_bytes: int = 10 << 30
    idle_seconds: int = 600


@dataclasses.dataclass(frozen=True, slots=True)
class SparkConfig:
    """Spark, for large scans and for tiering.

    Attributes:
        remote: A Spark Connect address (`sc://host:port`, with `/;use_ssl=true;token=…` where it
            wants a token); None starts a local server when needed.
        master: Master of what is started here: the local server, and tiering.
        driver_memory: Its memory, as Spark writes it.
        packages: Resolve Spark's jars with Maven coordinates instead of the local cache.
        conf: Further Spark settings.
    """

    remote: str | None = None
    master: str = "local[*]"
    driver_memory: str = "2g"
    packages: bool = False
    conf: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class TokensConfig:
    """Tokens that repeat a read.

    Attributes:
        secret: Signs them; gateways that share a secret accept each other's. None takes the one
            kept under `state_directory`.
        age_seconds_max: Older ones are refused.
    """

    secret: str | None = None
    age_seconds_max: int = 7 * 24 * 3600


@dataclasses.dataclass(frozen=True, slots=True)
class IcebergConfig:
    """The Iceberg REST catalog, through which any engine reads the live tables.

    Attributes:
        location: Where the files of tails are put, as the engines reach it; None puts them under
            `state_directory`, which is right only where the engines share this machine's disk.
        hold_seconds: How long a statement that asks for a table again gets the same cut.
        lease_seconds: How long a virtual snapshot can be read after it was last given out.
        tail_offsets_max: A longer tail is not written.
    """

    location: str | None = None
    hold_seconds: int = 5
    lease_seconds: int = 3600
    tail_offsets_max: int = 20_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """The whole tree.

    Attributes:
        catalogs: Iceberg catalogs, by the name they have in SQL.
        clusters: Kafka clusters, by the name tables and SQL call them.
        default_catalog: Catalog of names that leave it out.
        default_cluster: Cluster of tables that name none.
        default_schema: Schema of names that leave it out.
        state_directory: Where the gateway keeps results, spills and its secret; by default
            `.seamline-gateway` beside the file.
        http: Where it listens.
        auth: Who may use it.
        limits: What it may use.
        tail: What it keeps of the log.
        spark: Its Spark.
        tokens: How it signs.
        iceberg: Its Iceberg catalog of live tables.
    """

    catalogs: Mapping[str, CatalogConfig]
    clusters: Mapping[str, ClusterConfig]
    default_catalog: str
    default_cluster: str
    default_schema: str = "default"
    state_directory: str = ""
    http: HttpConfig = HttpConfig()
    auth: AuthConfig = AuthConfig()
    limits: LimitsConfig = LimitsConfig()
    tail: TailConfig = TailConfig()
    spark: SparkConfig = SparkConfig()
    tokens: TokensConfig = TokensConfig()
    iceberg: IcebergConfig = IcebergConfig()

    def __post_init__(self) -> None:
        if self.default_catalog not in self.catalogs:
            raise _invalid("default_catalog", f"{self.default_catalog!r} is not under catalogs")
        if self.default_cluster not in self.clusters:
            raise _invalid("default_cluster", f"{self.default_cluster!r} is not under clusters")
        for name, catalog in self.catalogs.items():
            needed = {"sql": ("uri", "warehouse"), "rest": ("uri",)}.get(catalog.type, ())
            missing = [key for key in needed if key not in catalog.address]
            if missing:
                path = f"catalogs.{name}.{missing[0]}"
                raise _invalid(path, f"is missing; type {catalog.type} needs it")
        catalogs = {name.lower() for name in self.catalogs}
        for name in self.clusters:
            if name.lower() in catalogs:
                raise _invalid(f"clusters.{name}", "is called like a catalog; rename one of them")


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and where its values came from.

    Attributes:
        config: The values.
        sources: By dotted path, for what is not a default.
        secrets: Paths of values that were taken from elsewhere, and are not shown.
    """

    config: Config
    sources: Mapping[str, str]
    secrets: frozenset[str] = frozenset()


def find_file(explicit: str | None, environment: Mapping[str, str]) -> pathlib.Path | None:
    """The file to read: the one named, else `seamline.yaml` here, else the local stack's."""
    named = explicit or environment.get(FILE_VARIABLE)
    if named:
        path = pathlib.Path(named)
        if not path.is_file():
            raise SeamlineError(
                INVALID_CONFIG, f"there is no configuration file {path}", hint="Correct the path."
            )
        return path
    for path in (pathlib.Path(FILE_NAME), local_state_directory(environment) / FILE_NAME):
        if path.is_file():
            return path
    return None


def local_state_directory(environment: Mapping[str, str]) -> pathlib.Path:
    """Where `seamline local` keeps everything, unless told otherwise."""
    named = environment.get("SEAMLINE_HOME")
    return pathlib.Path(named) if named else pathlib.Path.home() / ".seamline"


def load(
    file: pathlib.Path | None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Loaded:
    """Reads the configuration.

    Args:
        file: A YAML file, or None.
        environment: Variables; `SEAMLINE_HTTP__PORT` sets `http.port`.
        flags: Values by dotted path, as given on the command line.

    Raises:
        SeamlineError: INVALID_CONFIG, naming the path of the value and what is wrong with it.
    """
    environment = os.environ if environment is None else environment
    if file is None:
        raise SeamlineError(
            INVALID_CONFIG,
            "there is no configuration file",
            hint="Start the local stack with `seamline local up`, or write seamline.yaml and pass "
            "--config.",
        )
    tree, referred = references.resolve(_read(file), environment)
    sources: dict[str, str] = {}
    _record(tree, "", str(file), sources)
    sources.update({path: f"{file}, {names}" for path, names in referred.items()})
    for name, value in sorted(environment.items()):
        path = _path_of_variable(name)
        if path is not None:
            _set(tree, path, value, name)
            sources[path] = name
            referred.pop(path, None)
    for path, value in (flags or {}).items():
        _set(tree, path, value, f"--set {path}")
        sources[path] = "flag"
        referred.pop(path, None)
    tree.setdefault("state_directory", str(file.resolve().parent / ".seamline-gateway"))
    _fill_defaults(tree)
    config = _build(Config, tree, "")
    assert isinstance(config, Config)
    return Loaded(config, sources, frozenset(referred))


def describe(loaded: Loaded) -> list[tuple[str, str, str]]:
    """(path, value, source) of every value, secrets hidden."""
    return [
        (path, _shown(path, name, value, loaded), loaded.sources.get(path, "default"))
        for path, name, value in _leaves(loaded.config, "", "")
    ]


# --- Reading -------------------------------------------------------------------------------------


def _read(file: pathlib.Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SeamlineError(INVALID_CONFIG, f"{file} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise SeamlineError(INVALID_CONFIG, f"{file} is not YAML: {error}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise SeamlineError(INVALID_CONFIG, f"{file} must hold keys and values")
    return tree


def _record(tree: Any, path: str, source: str, sources: dict[str, str]) -> None:
    if isinstance(tree, dict):
        for key, value in tree.items():
            _record(value, f"{path}.{key}" if path else str(key), source, sources)
    elif isinstance(tree, list) and tree:
        for index, value in enumerate(tree):
            _record(value, f"{path}.{index}", source, sources)
    else:
        sources[path] = source


_NOT_SETTINGS = frozenset({FILE_VARIABLE, "SEAMLINE_HOME", "SEAMLINE_URL", "SEAMLINE_TOKEN"})


def _path_of_variable(name: str) -> str | None:
    if not name.startswith(ENVIRONMENT_PREFIX) or name in _NOT_SETTINGS:
        return None
    path = name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
    known = {field.name for field in dataclasses.fields(Config)}
    return path if path.split(".")[0] in known else None


def _set(tree: dict[str, Any], path: str, value: str, source: str) -> None:
    *parents, last = path.split(".")
    node = tree
    for key in parents:
        node = node.setdefault(key, {})
        if not isinstance(node, dict):
            raise SeamlineError(INVALID_CONFIG, f"{source}: {key} is a value, not a group")
    node[last] = value


def _fill_defaults(tree: dict[str, Any]) -> None:
    """A single catalog or cluster is the default one."""
    for kind in ("catalog", "cluster"):
        named = tree.get(f"{kind}s")
        if not isinstance(named, dict) or not named:
            raise _invalid(f"{kind}s", f"at least one {kind} is needed")
        tree.setdefault(f"default_{kind}", next(iter(named)))
        for name, entry in named.items():
            if not isinstance(entry, dict):
                raise _invalid(f"{kind}s.{name}", "must hold keys and values")
            entry["name"] = str(name)


def _build(wanted: Any, value: Any, path: str) -> Any:
    """A value of the wanted type from what YAML, the environment or a flag gave."""
    origin = typing.get_origin(wanted)
    arguments = typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        inner = next(argument for argument in arguments if argument is not type(None))
        return _build(inner, value, path)
    if dataclasses.is_dataclass(wanted):
        return _build_dataclass(wanted, value, path)
    if origin is tuple:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise _invalid(path, "must be a list")
        return tuple(_build(arguments[0], v, f"{path}[{i}]") for i, v in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise _invalid(path, "must hold keys and values")
        return {str(k): _build(arguments[1], v, f"{path}.{k}") for k, v in value.items()}
    return _build_leaf(wanted, value, path)


def _build_dataclass(wanted: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise _invalid(path, "must hold keys and values")
    hints = typing.get_type_hints(wanted)
    names = {field.name: field for field in dataclasses.fields(wanted)}
    unknown = [str(key) for key in value if key not in names]
    if unknown:
        raise _invalid(_join(path, unknown[0]), f"is not a setting; known here: {', '.join(names)}")
    for name, field in names.items():
        no_default = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if no_default and name not in value:
            raise _invalid(_join(path, name), "is missing")
    return wanted(**{name: _build(hints[name], v, _join(path, name)) for name, v in value.items()})


def _build_leaf(wanted: Any, value: Any, path: str) -> Any:
    if wanted is bool:
        folded = str(value).lower()
        if folded not in {"true", "false"}:
            raise _invalid(path, f"{value!r} is not true or false")
        return folded == "true"
    if wanted is int:
        match = re.fullmatch(r"(-?\d+)\s*(KiB|MiB|GiB)?", str(value).replace("_", ""))
        if match is None or isinstance(value, bool):
            raise _invalid(path, f"{value!r} is not a whole number")
        return int(match[1]) * {None: 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[match[2]]
    if wanted is str:
        if isinstance(value, dict | list) or value is None:
            raise _invalid(path, "must be a text")
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise _invalid(path, f"cannot be set to {value!r}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _invalid(path: str, problem: str) -> SeamlineError:
    return SeamlineError(INVALID_CONFIG, f"{path} {problem}")


# --- Showing -------------------------------------------------------------------------------------

_HIDDEN = "******"
_SECRET_NAME = re.compile(
    r"secret|password|passphrase|token|credential|sasl\.jaas|sha256|(access|account|api)[-_.]?key"
    r"|connection-string|\.pem$|keystore\.key",
    re.IGNORECASE,
)
_SECRET_PARTS = (
    re.compile(r"(?<=://)(?P<kept>[^/@\s:]*:)[^@\s]+(?=@)"),
    re.compile(r"(?P<kept>\b(?:\w*(?:password|secret|token|key|sig))=)[^&;\s]+", re.IGNORECASE),
)
"""What is secret inside of an address: the password of its user, and parameters."""


def _shown(path: str, name: str, value: Any, loaded: Loaded) -> str:
    text = str(value)
    if not value or isinstance(value, int):
        return text
    if path in loaded.secrets or _SECRET_NAME.search(name):
        return _HIDDEN
    for part in _SECRET_PARTS:
        text = part.sub(rf"\g<kept>{_HIDDEN}", text)
    return text


def _leaves(value: Any, path: str, name: str) -> list[tuple[str, str, Any]]:
    """(path, its last name, value); the name of a property has dots of its own."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        pairs = [(str(i), item) for i, item in enumerate(value)]
    else:
        return [(path, name, value)]
    return [leaf for key, item in pairs for leaf in _leaves(item, _join(path, key), key)]
