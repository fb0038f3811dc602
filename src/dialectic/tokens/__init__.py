"""Token counts of what is sent."""
