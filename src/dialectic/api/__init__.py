"""The HTTP API: everything the engine does, for programs and people, under /api/v1."""
