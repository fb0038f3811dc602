"""The HTTP API of the engine, under /api/v1."""
