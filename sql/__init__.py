"""What a statement means: parse, qualify, types, predicates, functions, render.

Pure: nothing here does I/O.
"""
