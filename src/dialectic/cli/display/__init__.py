"""Output of commands: live progress, quotes, results, graphs."""
