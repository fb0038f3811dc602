"""Trials with programs that are not ours: a model server, and a generated client of the API."""
