"""Make a request fit its model's context window: compress, combine, retrieve."""
