"""Files that people give, read as text. Knows their forms, but not what becomes of them."""
