"""From a bound query and facts to a physical plan. Pure: no I/O, no clock."""
