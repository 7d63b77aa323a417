"""For trying out: an embedded stack, and the demo."""
