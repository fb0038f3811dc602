"""A whole trial against a model server that is not ours: `make trial-local`."""
