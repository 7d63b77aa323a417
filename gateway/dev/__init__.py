"""Tools for trying Seamline out: an embedded stack, and the demo."""
