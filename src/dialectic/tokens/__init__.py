"""Token counts of what is really sent."""
