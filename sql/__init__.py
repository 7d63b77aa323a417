"""SQL semantics: parsing, name resolution, types, predicates, functions and rendering.

Pure: nothing here does I/O.
"""
