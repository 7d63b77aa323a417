"""A dialect of SQLAlchemy: `create_engine("seamline://127.0.0.1:8474/")`.

SQLAlchemy loads it by its entry point, and nothing else of the client does; it needs the extra
`sqlalchemy`.
"""
