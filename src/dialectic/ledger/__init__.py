"""Money: reserved before a call, settled with its response, never twice."""
