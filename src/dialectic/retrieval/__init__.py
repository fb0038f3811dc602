"""Retrieval: cut documents into pieces, embed each once, search them. Knows no money."""
