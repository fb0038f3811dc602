"""Live events: read once for all who follow them, in one process."""
