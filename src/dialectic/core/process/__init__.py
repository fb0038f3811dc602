"""A process: its definition, its checks, its reductions."""
