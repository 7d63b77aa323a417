"""Assigns types to a qualified query and brings it into canonical form.

The binder traverses the tree once, from the inside out. It returns each expression with its type,
in a form that both engines read alike: conversions are explicit, functions and ambiguous operators
are `Call`s, and moments like CURRENT_TIMESTAMP are literals.
"""
