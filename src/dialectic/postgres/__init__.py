"""The parts of the embedded PostgreSQL: programs, paths, locks, data folder, socket."""
