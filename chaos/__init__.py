"""Chaos: kills, freezes and cuts off a running engine, and says whether its promises held.

Each experiment is a module with a `run` that takes its size and a seed and returns a `Report`.
docs/chaos.md says what each one does and promises.
"""
