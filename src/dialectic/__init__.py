"""Several language models argue until a plan holds."""
