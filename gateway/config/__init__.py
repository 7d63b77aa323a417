"""The configuration: one frozen tree, and where each value came from."""
