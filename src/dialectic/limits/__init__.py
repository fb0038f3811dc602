"""Rate limits, permits and circuit breakers of endpoints, shared by all workers."""
