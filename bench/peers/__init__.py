"""Others that do the same kind of work, each in a module and in processes of its own."""
