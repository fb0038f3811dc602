"""Where files are kept. Knows keys and bytes; it does not know what a file means."""
