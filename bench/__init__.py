"""Measures, side by side with others and with what the database itself can do."""
