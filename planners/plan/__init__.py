"""The logical and the physical plan of a statement, as frozen values."""
