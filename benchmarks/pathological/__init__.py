"""What pages made to hurt a parser cost. Run it as `python -m benchmarks.pathological`."""
