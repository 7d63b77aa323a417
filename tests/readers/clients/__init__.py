"""One program per reader, run in an environment of its own; see `protocol`."""
