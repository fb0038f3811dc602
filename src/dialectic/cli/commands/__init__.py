"""One module per noun: the commands."""
