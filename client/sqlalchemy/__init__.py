"""The SQLAlchemy dialect: `create_engine("seamline://127.0.0.1:8474/")`.

SQLAlchemy loads it through its entry point; nothing else in the client loads it. It needs the extra
`sqlalchemy`.
"""
