"""What a statement means: parse, qualify, types, predicates, functions, render, error table.

Pure: nothing here does I/O. `seamline.errors` is also all that the client imports of us, so
this package file stays empty of imports and the base install stays light.
"""
