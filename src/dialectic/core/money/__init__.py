"""Prices, quotes and statistics of earlier output."""
