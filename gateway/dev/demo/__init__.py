"""The demo: Seamline's main job end to end on the embedded stack, as `make demo` runs it."""
