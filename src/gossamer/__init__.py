"""Gossamer: a broad web crawler."""
