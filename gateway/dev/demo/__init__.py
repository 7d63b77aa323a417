"""The main job, end to end, on the embedded stack: what `make demo` runs."""
