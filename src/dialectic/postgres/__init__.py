"""The parts of the embedded PostgreSQL: its programs, its places, its locks, its data, its door."""
