"""Benchmarks: CPU time, never the clock; run by hand, never by a test."""
