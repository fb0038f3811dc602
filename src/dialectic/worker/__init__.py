"""The worker: claims jobs, runs them, records failures, does maintenance."""
