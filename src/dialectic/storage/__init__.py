"""File storage. Knows keys and bytes, not what a file means."""
