"""Checks what this machine gives to programs: memory, open files, and proxies to others."""

from __future__ import annotations

import ipaddress
import os
import pathlib
import resource
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping

from seamline.gateway.config.model import LimitsConfig, SparkConfig, TailConfig
from seamline.gateway.doctor.findings import Finding, ok, warning

FILES_MIN = 1024
"""Open files below which a broker or a gateway with many clients fails."""
_GATEWAY_BYTES = 512 << 20
"""What a gateway takes besides the budgets of its configuration."""
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def look(limits: LimitsConfig, tail: TailConfig, spark: SparkConfig | None) -> Iterator[Finding]:
    """Checks whether the budgets of a configuration fit into memory, and the limit on open files.

    Args:
        limits: The limits of statements.
        tail: The budget of tails.
        spark: How Spark is started; None if it cannot be.
    """
    budgets = {
        "the gateway": _GATEWAY_BYTES + limits.memory_bytes,
        "tails": tail.memory_bytes,
    }
    if spark is not None and spark.remote is None:
        budgets["Spark"] = spark_bytes(spark.driver_memory)
    yield memory(memory_bytes(), budgets)
    yield open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def memory(there_bytes: int, budgets: Mapping[str, int]) -> Finding:
    """Compares the memory of this machine or container with what may be taken of it."""
    needed = sum(budgets.values())
    parts = ", ".join(f"{name} {size / 1e9:.1f} GB" for name, size in budgets.items())
    text = f"{there_bytes / 1e9:.1f} GB of memory; {parts}"
    if there_bytes < needed:
        return warning(
            f"{text}: the system may end one of them",
            "Lower limits.memory_bytes, tail.memory_bytes or spark.driver_memory.",
        )
    return ok(text)


def open_files(limit: int) -> Finding:
    """Checks the limit on open files."""
    if limit != resource.RLIM_INFINITY and limit < FILES_MIN:
        return warning(
            f"a process may have {limit:,} files open: connections and files may fail",
            f"ulimit -n {16 * FILES_MIN}",
        )
    return ok(f"a process may have {'any number of' if limit < 0 else f'{limit:,}'} files open")


def memory_bytes() -> int:
    """Returns the memory of this machine, or of its container if that has less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _CGROUP_LIMITS:
        try:
            sizes.append(int(pathlib.Path(name).read_text(encoding="ascii")))
        except (OSError, ValueError):  # there is no limit
            continue
    return min(sizes)


def spark_bytes(text: str) -> int:
    """Returns the size that `spark.driver_memory` names, such as 2g."""
    number, unit = text[:-1], text[-1:].lower()
    return int(float(number) * _UNITS[unit]) if unit in _UNITS else int(text or 0) << 20


# --- Proxies -------------------------------------------------------------------------------------


def proxies(urls: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[Finding]:
    """Checks which services are reached through a proxy of the environment.

    Args:
        urls: The address of each service that is reached over HTTP, by what it is.
        environment: The environment variables.
    """
    lowered = {name.lower(): value for name, value in environment.items()}
    for what, url in urls.items():
        parts = urllib.parse.urlsplit(url)
        proxy = urllib.parse.urlsplit(lowered.get(f"{parts.scheme}_proxy", "")).hostname
        host = parts.hostname or ""
        if proxy is None or not host:
            continue
        bypassed = {"no": lowered.get("no_proxy", "")}
        if urllib.request.proxy_bypass_environment(host, bypassed):  # type: ignore[attr-defined]
            continue
        if _is_near(host):
            yield warning(
                f"{what} at {host} would be asked through the proxy {proxy}, which cannot reach it",
                f"export no_proxy={','.join(filter(None, (bypassed['no'], host)))}",
            )
        else:
            yield ok(f"{what} at {host} is asked through the proxy {proxy}")


def _is_near(host: str) -> bool:
    """Returns whether a name or address means this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
