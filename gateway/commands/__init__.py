"""Statements that are not queries: SHOW, CREATE TABLE, and the tables about tables."""
