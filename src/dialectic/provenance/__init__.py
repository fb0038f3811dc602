"""Where the points of a document come from, and what became of the others. Pure.

A link says that two texts say the same, never that something is true. Knows no database, no
provider and no money.
"""

# Every derived statement names it; a changed constant is a new version.
METHOD = "points/2"
