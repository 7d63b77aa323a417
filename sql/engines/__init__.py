"""Bound trees as the SQL of the two engines."""
