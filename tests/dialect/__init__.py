"""SQLAlchemy's own suite for dialects, over ours."""
