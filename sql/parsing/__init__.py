"""Turns the text of a statement into a value that says its kind, and its query as a tree."""
