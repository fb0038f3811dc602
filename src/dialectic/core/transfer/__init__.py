"""The format of an exported project."""
