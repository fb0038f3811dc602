"""The nouns and rules of the dialectic: pure code, without files, network, clock or chance."""
