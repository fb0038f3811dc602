"""The worker: claims jobs, carries them out, records failures, does maintenance."""
