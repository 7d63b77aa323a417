"""Statements asked for one after another on a terminal, with completion and a history."""
