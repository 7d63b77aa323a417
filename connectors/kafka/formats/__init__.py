"""Formats of records: the one decoder, and how columns are inferred."""
