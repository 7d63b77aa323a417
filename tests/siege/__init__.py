"""A gateway under attack, beside clients who must not notice."""
