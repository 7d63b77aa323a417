"""Goal: every setting can be set by every source; whatever is wrong is named and never guessed.

Method: the settings are those that the model declares, so a new one is tested by being there. Each
is given good and bad values by the file (quoted, plain, by reference), a variable and a flag; what
is read is compared with what the value means by the convention of the setting's name. A good value
changes nothing else and says where it came from; a bad one is INVALID_CONFIG with its path and its
source, and without the value where that is a secret.
"""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.config.load import describe, load
from seamline.gateway.config.model import Config
from seamline.gateway.config.secrets import HIDDEN, is_secret

BASE: Mapping[str, Any] = {
    "catalogs": {"lake": {"type": "sql", "uri": "sqlite:///c", "warehouse": "file:///w"}},
    "clusters": {"main": {"bootstrap_servers": "127.0.0.1:1"}},
    "auth": {
        "tokens": [{"name": "ann", "sha256": "ab" * 32}],
        "jwt": {"jwks": "k", "issuer": "i", "audience": ["a"]},
    },
    "http": {"tls": {"certificate": "c", "key": "k", "client_ca": "a"}},
}
"""The least there can be, with one entry wherever there can be many, and what comes in pairs."""
OIDC = {"type": "oidc", "url": "https://idp", "client_id": "c", "client_secret": "s"}
BESIDE: Mapping[str, Mapping[str, Any]] = {
    "catalogs.lake.login.": {"type": "rest", "uri": "https://catalog", "login": OIDC},
    "clusters.main.login.": {"login": OIDC},
    "clusters.main.login.region": {"login": {"type": "aws_msk_iam", "region": "r"}},
    "clusters.main.login.role": {"login": {"type": "aws_msk_iam", "region": "r"}},
    "clusters.main.schema_registry.region": {"schema_registry": {"type": "glue", "region": "r"}},
    "clusters.main.schema_registry.group": {"schema_registry": {"type": "glue", "region": "r"}},
    "clusters.main.schema_registry.login.": {
        "schema_registry": {"url": "https://registry", "login": OIDC}
    },
}
"""What an entry has besides, where settings make sense only together; the longest path counts."""
LOGINS = ("catalogs.lake.login", "clusters.main.login", "clusters.main.schema_registry.login")
NOT_TAKEN = {
    *(f"{login}.{name}" for login in LOGINS if login != LOGINS[1] for name in ("region", "role")),
    f"{LOGINS[0]}.extensions",
}
"""Settings that a login has, but not for this."""
TABLE = "lake.default.orders"
ENTRIES = {
    "catalogs": "lake",
    "clusters": "main",
    "auth.tokens": "0",
    "tables": TABLE,
    f"tables.{TABLE}": "topic",
}
PROPERTY = "a.b-c_d"
"""A name of others, with dots."""

CHOSEN = {
    "auth.tokens.0.sha256": "CD" * 32,
    "auth.tokens.0.expires": "2027-01-01 00:00:00+02:00",
    "audit.literals": "redact",
    "http.proxy_header": "Forwarded",
    "http.tls.client_name": "(.*)@people",
    "http.external_url": "https://lake.example/sql",
    "catalogs.lake.type": "glue",
    "catalogs.lake.uri": "sqlite:///d",
    "catalogs.lake.warehouse": "file:///d",
    "default_catalog": "lake",
    "default_cluster": "main",
    "clusters.main.schema_registry.type": "confluent",
    **{
        f"{login}.{name}": value
        for login in LOGINS
        for name, value in {"type": "oidc", "url": "https://other", "extensions": "a=b,c=d"}.items()
    },
}
"""A good value of the settings that do not take any text."""
LISTS = {"http.trusted_proxies": ("10.0.0.0/8", "10.0.0.0/8,fd00::/8")}
"""Good values of lists that do not take any text."""
WRONG = {
    "auth.tokens.0.sha256": "no digest",
    "auth.tokens.0.expires": "2027-01-01 00:00:00",
    "audit.literals": "some",
    "http.proxy_header": "X-Real-IP",
    "http.tls.client_name": "(",
    "http.external_url": "lake.example",
    "default_catalog": "none",
    "default_cluster": "none",
}


class Setting(NamedTuple):
    """What the model declares: where it is, and the JSON schema of what it takes."""

    path: str
    schema: Mapping[str, Any]

    @property
    def kinds(self) -> set[str]:
        return {option["type"] for option in self.schema.get("anyOf", [self.schema])}


def declared() -> Iterator[Setting]:
    """Every group and setting; one property stands for all that others name."""
    schema = Config.model_json_schema()

    def below(path: str, node: Mapping[str, Any]) -> Iterator[Setting]:
        node = schema["$defs"].get(node.get("$ref", "").rpartition("/")[2], node)
        yield Setting(path, node)
        if _is_list(node):
            return
        for name, child in node.get("properties", {}).items():
            yield from below(f"{path}.{name}".lstrip("."), child)
        if entry := node.get("additionalProperties") or node.get("items"):
            yield from below(f"{path}.{ENTRIES.get(path, PROPERTY)}", entry)

    yield from below("", schema)


def _is_list(schema: Mapping[str, Any]) -> bool:
    """Whether it is a setting of several strings, which may be told as one, with commas."""
    return bool(schema.get("items", {}).get("type") == "string")


GROUPS = [f for f in declared() if f.kinds & {"object", "array"} and not _is_list(f.schema)]
SETTINGS = [s for s in declared() if s not in GROUPS and s.path not in NOT_TAKEN]


# --- Values --------------------------------------------------------------------------------------


def good(setting: Setting) -> list[tuple[str, Any]]:
    """(text, what it means) of values that a setting takes."""
    if "array" in setting.kinds:
        lists = LISTS.get(setting.path, ("file:///a", "file:///a,s3://b/c"))
        return [(text, text) for text in lists]
    if "boolean" in setting.kinds:
        return [("true", True), ("false", False), ("True", True)]
    if "string" in setting.kinds:
        text = CHOSEN.get(setting.path, "a: text, # with ümläuts")
        return [(text, text)]
    units = {"": 1}
    if "_bytes" in setting.path:
        units |= {"KiB": 1 << 10, " KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    if "_seconds" in setting.path:
        units |= {"s": 1, "m": 60, "h": 3600, " d": 86400}
    return [(f"{text}{unit}", int(text) * units[unit]) for text in ("7", "1_0") for unit in units]


def bad(setting: Setting) -> list[Any]:
    """What a setting does not take: texts, and what only a file can say."""
    if "array" in setting.kinds:
        return [{"a": "7"}, {}, None]
    found: list[Any] = [["7"], {"a": "7"}, {}]
    if "null" not in setting.kinds:
        found.append(None)
    if "integer" in setting.kinds:
        found += ["", "x", "1.5", "-1", "7 parsecs", "512Mi", "0x10", "1e3", "7 7", "true"]
        found += ["0"] if "exclusiveMinimum" in setting.schema else []
        found += [str(setting.schema["maximum"] + 1)] if "maximum" in setting.schema else []
    elif "boolean" in setting.kinds:
        found += ["", "maybe", "2", "-1"]
    elif setting.path.endswith(".extensions"):
        found += ["no", "a=,"]
    elif setting.path in CHOSEN or "minLength" in str(setting.schema):
        found += ["", *filter(None, [WRONG.get(setting.path)])]
    return found


# --- Sources -------------------------------------------------------------------------------------


class Told(NamedTuple):
    """Everything that is set, and the source of the value in question."""

    text: str
    environment: Mapping[str, str]
    flags: Mapping[str, str]
    source: str

    def load(self, folder: pathlib.Path) -> dict[str, tuple[str, str]]:
        """The configuration: path to (value, source)."""
        file = folder / "seamline.yaml"
        file.write_text(self.text, encoding="utf-8")
        loaded = load(file, environment=self.environment, flags=self.flags)
        return {path: (value, source) for path, value, source in describe(loaded)}

    def refused(self, folder: pathlib.Path) -> str:
        """What is said of it."""
        with pytest.raises(SeamlineError) as caught:
            self.load(folder)
        assert caught.value.code is INVALID_CONFIG
        assert caught.value.hint
        assert self.source.replace("<file>", str(folder / "seamline.yaml")) in caught.value.message
        return caught.value.message


class Plain(yaml.SafeDumper):
    """Writes texts without quotes, even where YAML would take them for numbers."""


Plain.yaml_implicit_resolvers = {}


def base(path: str) -> dict[str, Any]:
    """The least there can be with a setting."""
    tree = copy.deepcopy(dict(BASE))
    beside = [own for prefix, own in BESIDE.items() if path.startswith(prefix)]
    if beside:
        kind, entry, *_ = path.split(".")
        tree[kind][entry] |= copy.deepcopy(dict(beside[-1]))
    return tree


def file_with(path: str, value: Any, dumper: type[yaml.SafeDumper] = yaml.SafeDumper) -> str:
    """A file that sets a value besides the required ones."""
    tree = base(path)
    *groups, last = keys(path)
    node: Any = tree
    for key in groups:
        node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
    node[int(last) if isinstance(node, list) else last] = value
    return yaml.dump(tree, Dumper=dumper, allow_unicode=True)


def keys(path: str) -> list[str]:
    if path.startswith(f"tables.{TABLE}"):
        return ["tables", TABLE, *path.removeprefix(f"tables.{TABLE}").split(".")[1:]]
    front, is_property, _ = path.partition(f".{PROPERTY}")
    return [*front.split("."), PROPERTY] if is_property else path.split(".")


def tellings(path: str, value: Any) -> Iterator[Told]:
    """A value set by each source that can set it."""
    yield Told(file_with(path, value), {}, {}, "<file>")
    if isinstance(value, str):
        if value:  # without quotes it is null
            yield Told(file_with(path, value, Plain), {}, {}, "<file>")
        yield Told(file_with(path, "${env:TAKEN}"), {"TAKEN": value}, {}, "<file>, ${env:TAKEN}")
        yield from overrides(path, value)


def overrides(path: str, value: str) -> Iterator[Told]:
    """A value set by a variable and by a flag; lists and whole tables by the file alone."""
    if not path.startswith("auth.tokens.") and path != f"tables.{TABLE}":
        variable = f"SEAMLINE_{path.upper().replace('.', '__')}"
        yield Told(yaml.safe_dump(base(path)), {variable: value}, {}, variable)
        yield Told(yaml.safe_dump(base(path)), {}, {path: value}, "flag")


# --- Properties ----------------------------------------------------------------------------------


def named(setting: Setting) -> str:
    return setting.path or "(all)"


def shown(setting: Setting, value: Any, told: Told) -> str:
    """How `config show` prints it."""
    is_hidden = is_secret(keys(setting.path)[-1]) or "TAKEN" in told.environment
    return HIDDEN if is_hidden and isinstance(value, str) else str(value)


@pytest.mark.one_in(test=12)
@pytest.mark.parametrize("setting", SETTINGS, ids=named)
def test_every_source_can_tell_every_setting(setting: Setting, tmp_path: pathlib.Path) -> None:
    file = str(tmp_path / "seamline.yaml")
    before = Told(yaml.safe_dump(base(setting.path)), {}, {}, "").load(tmp_path)
    for text, value in good(setting):
        for told in tellings(setting.path, text):
            after = told.load(tmp_path)
            source = told.source.replace("<file>", file)
            assert after.pop(setting.path) == (shown(setting, value, told), source), told
            assert after == {path: was for path, was in before.items() if path != setting.path}


@pytest.mark.one_in(test=12)
@pytest.mark.parametrize("setting", SETTINGS, ids=named)
def test_what_a_setting_does_not_take_is_named(setting: Setting, tmp_path: pathlib.Path) -> None:
    for value in bad(setting):
        for told in tellings(setting.path, value):
            said = told.refused(tmp_path)
            assert f"{setting.path} " in said, told
            if isinstance(value, str) and len(value) > 4:
                is_hidden = is_secret(keys(setting.path)[-1]) or "TAKEN" in told.environment
                assert (value in said) is not is_hidden, told


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("group", GROUPS, ids=named)
def test_a_key_that_no_group_declares_is_named(group: Setting, tmp_path: pathlib.Path) -> None:
    if "properties" not in group.schema:
        return  # its keys are anybody's
    path = f"{group.path}.htpp".lstrip(".")
    values: list[Any] = ["7", {"port": "7"}, [], None]
    for value in values:
        for told in tellings(path, value):
            if group.path or not told.environment:  # other programs have variables, too
                said = told.refused(tmp_path)
                assert f"{path} is not a setting; known here: " in said
                assert all(name in said for name in group.schema["properties"])


@pytest.mark.one_in(test=3)
@pytest.mark.parametrize("group", GROUPS, ids=named)
def test_what_is_no_group_is_named(group: Setting, tmp_path: pathlib.Path) -> None:
    other: list[Any] = [{"a": "7"}] if "array" in group.kinds else [["7"], []]
    for value in (None, "", "7", *other):
        if group.path:
            for told in tellings(group.path, value):
                assert f"{group.path} " in told.refused(tmp_path), told
        else:
            said = Told(yaml.safe_dump(value), {}, {}, "<file>").refused(tmp_path)
            assert "must hold keys and values" in said or "catalogs is missing" in said


@pytest.mark.one_in(test=6)
@pytest.mark.parametrize("setting", SETTINGS, ids=named)
def test_a_group_over_a_value_is_named(setting: Setting, tmp_path: pathlib.Path) -> None:
    *_, last = keys(setting.path)
    if last == PROPERTY or setting.path.startswith("tables."):
        return  # a longer name is another property, or another table's
    text = file_with(setting.path, good(setting)[0][0])
    for told in overrides(f"{setting.path}.below", "7"):
        said = told._replace(text=text).refused(tmp_path)
        assert f"{setting.path}.below cannot be set" in said
        assert f"{last} is a value, not a group" in said


@pytest.mark.parametrize("kind", ["catalogs", "clusters"])
def test_the_name_of_an_entry_is_its_key(kind: str, tmp_path: pathlib.Path) -> None:
    path = f"{kind}.{ENTRIES[kind]}.name"
    for told in tellings(path, ENTRIES[kind]):
        assert f"{path} is not a setting" in told.refused(tmp_path)
    empty = f"{kind}: {{}}\n"
    assert f"{kind} " in Told(yaml.safe_dump(BASE) + empty, {}, {}, "<file>").refused(tmp_path)


def test_all_that_is_wrong_is_said_at_once(tmp_path: pathlib.Path) -> None:
    text = file_with("http", {"port": "x", "prot": "1"})
    told = Told(text, {"SEAMLINE_TAIL__FOLLOW": "maybe"}, {"limits.memory_bytes": "-1"}, "flag")
    said = [line.split(" ")[0] for line in told.refused(tmp_path).splitlines()]
    assert sorted(said) == ["http.port", "http.prot", "limits.memory_bytes", "tail.follow"]


_KEYS = st.sampled_from(sorted({key for found in declared() for key in keys(found.path)}))
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates()
_TREES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_KEYS | st.none() | st.integers() | st.text(), inner, max_size=4)
    ),
)


@examples(100)
@given(tree=st.dictionaries(_KEYS, _TREES), is_whole=st.booleans())
def test_whatever_a_file_holds_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any], is_whole: bool
) -> None:
    text = yaml.safe_dump({**BASE, **tree} if is_whole else tree)
    try:
        Told(text, {}, {}, "").load(tmp_path_factory.getbasetemp())
    except SeamlineError as error:
        assert error.code is INVALID_CONFIG


@examples(100)
@given(st.data())
def test_the_nearest_source_wins(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    setting = data.draw(
        st.sampled_from([s for s in SETTINGS if not s.path.startswith("auth.tokens.")])
    )
    values = st.none() | st.sampled_from(good(setting))
    by_file, by_variable, by_flag = (data.draw(values) for _ in range(3))
    variable, _ = overrides(setting.path, "")
    told = Told(
        file_with(setting.path, by_file[0]) if by_file else yaml.safe_dump(base(setting.path)),
        {variable.source: by_variable[0]} if by_variable else {},
        {setting.path: by_flag[0]} if by_flag else {},
        "flag" if by_flag else variable.source if by_variable else "<file>",
    )
    winner = by_flag or by_variable or by_file
    if winner is not None:
        found = told.load(folder)[setting.path]
        source = told.source.replace("<file>", str(folder / "seamline.yaml"))
        assert found == (shown(setting, winner[1], told), source)
