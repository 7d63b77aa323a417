"""Statements at a terminal: where they end, how far they are, and results as people read them."""
