"""Types of a qualified query, and its canonical form.

Goes through the tree once, from the inside out. Each expression comes back with its type, in a form
that both engines read alike: conversions explicit, functions and ambiguous operators as `Call`s,
moments like CURRENT_TIMESTAMP as literals.
"""
