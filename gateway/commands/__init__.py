"""Statements that are not queries: SHOW, CREATE TABLE, and metadata tables."""
