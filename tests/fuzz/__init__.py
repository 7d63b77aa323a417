"""Random valid queries over random tables, answered alike by everything that can answer them."""
