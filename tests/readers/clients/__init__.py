"""One program a reader, run in an environment of its own; see `protocol`."""
