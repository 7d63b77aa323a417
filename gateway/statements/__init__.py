"""The life of a statement: what is asked, its state, its limits, its result, and what is kept."""
