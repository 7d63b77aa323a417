"""Which aggregates may be merged from partial aggregates of files that were read before.

off    none: every file is read each time
exact  those that are what they would be over all rows at once; the default
all    sums and averages of doubles, too, which depend on an order of rows that nothing defines
"""

OFF, EXACT, ALL = CHOICES = ("off", "exact", "all")
