"""The version of this distribution, in one place for packaging, HTTP headers and `--version`."""

VERSION = "0.2.0"
