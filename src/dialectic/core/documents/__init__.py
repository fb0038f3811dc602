"""Documents: their parts, names, places and metadata."""
