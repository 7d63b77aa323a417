"""`seamline spark-conf`: prints the Spark settings that make a gateway's live tables a catalog.

They are printed as lines of spark-defaults.conf, as options of spark-shell and spark-sql, or as
JSON. `--check` asks the gateway first and says what is wrong.
"""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import click

from seamline.commands.options import (
    PASSWORD_VARIABLE,
    TOKEN_VARIABLE,
    credentials_of,
    gateway_options,
    profile_of,
    url_of,
)
from seamline.dbapi.credentials import Credentials
from seamline.dbapi.transport import Transport
from seamline.errors import GATEWAY_UNAVAILABLE, INVALID_ARGUMENT, SeamlineError
from seamline.spark.catalog import CATALOG, EXTENSIONS, configuration, packages

FORMS = ("defaults", "shell", "json")


@click.command("spark-conf")
@gateway_options
@click.option("--name", default=CATALOG, show_default=True, help="Name of the catalog in Spark.")
@click.option("--warehouse", help="One of the gateway's catalogs; by default its default one.")
@click.option("--planned", is_flag=True, help="Let the gateway plan scans (Iceberg 1.11 or newer).")
@click.option(
    "--spark-version", default="4.0.5", show_default=True, help="Spark version, to choose the jar."
)
@click.option("--form", type=click.Choice(FORMS), default="defaults", show_default=True)
@click.option("--check", is_flag=True, help="Check first that the gateway answers.")
def spark_conf(
    name: str,
    warehouse: str | None,
    planned: bool,
    spark_version: str,
    form: str,
    check: bool,
    **options: Any,
) -> None:
    """Print the settings that let any Spark read the live tables."""
    try:
        jar = packages(spark_version)
    except ValueError as error:
        raise SeamlineError(
            INVALID_ARGUMENT, str(error), hint="--spark-version must look like 3.5.6 or 4.0.5"
        ) from error
    profile = profile_of(options)
    url, credentials = url_of(options, profile), credentials_of(options, profile)
    if check:
        _check(url, credentials, planned)
    token, password = credentials.given_token(), credentials.password or ""
    if form == "shell" and (token or password):
        variable = TOKEN_VARIABLE if credentials.user is None else PASSWORD_VARIABLE
        click.echo(f"set {variable} first, because everyone can read command lines", err=True)
        token = password = f"env:{variable}"  # Iceberg replaces this with the variable's value
    settings = {
        "spark.jars.packages": jar,
        "spark.sql.extensions": EXTENSIONS,
        **configuration(
            url,
            token,
            user=credentials.user,
            password=password,
            name=name,
            warehouse=warehouse,
            planned=planned,
        ),
    }
    click.echo(_text(settings, form))


def _text(settings: dict[str, str], form: str) -> str:
    if form == "json":
        return json.dumps(settings, indent=2)
    if form == "shell":
        options = [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in settings.items()]
        return "spark-sql \\\n  " + " \\\n  ".join(options)
    width = max(map(len, settings))
    return "\n".join(f"{key.ljust(width)}  {value}" for key, value in settings.items())


def _check(url: str, credentials: Credentials, planned: bool) -> None:
    """Reports whether the gateway answers, and whether this machine can read what it writes."""
    path = "/iceberg-plan" if planned else "/iceberg"
    config = Transport(url, credentials).json("GET", f"{path}/v1/config", None)
    defaults = config.get("defaults", {})
    if not config.get("endpoints"):
        raise SeamlineError(GATEWAY_UNAVAILABLE, f"{url}{path} is not an Iceberg catalog")
    click.echo(f"{url}{path} answers, with {len(config['endpoints'])} routes", err=True)
    probe = str(defaults.get("seamline.probe", ""))
    if "://" not in probe.replace("file://", "") and probe:
        try:
            with open(probe.removeprefix("file://"), encoding="utf-8"):  # noqa: PTH123 - any path
                click.echo("the tails it writes can be read from this machine", err=True)
        except OSError as error:
            click.echo(
                f"warning: this machine cannot read the tails that the gateway writes: {error}. "
                "Set iceberg.location to storage that Spark's executors reach.",
                err=True,
            )
            sys.exit(1)
    elif probe:
        click.echo(f"executors must reach {probe.rsplit('/', 1)[0]}", err=True)
