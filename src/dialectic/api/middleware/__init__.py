"""Middleware that every request passes before its route."""
