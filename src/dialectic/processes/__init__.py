"""The processes that come with the program: data, no code."""
