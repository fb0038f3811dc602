"""Processes: definition, checks and reductions."""
