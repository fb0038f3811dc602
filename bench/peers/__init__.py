"""Others that do the same kind of work, each in a module of its own, run as processes of their own."""
