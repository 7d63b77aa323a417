"""From a bound query and facts to a physical plan. Pure: values in, values out, no I/O, no clock."""
