"""Live events: one reader per process serves all followers."""
