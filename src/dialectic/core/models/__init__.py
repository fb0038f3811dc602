"""Models, endpoints, messages and usage."""
