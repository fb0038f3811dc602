"""Make a request fit its window: compress, combine, retrieve."""
