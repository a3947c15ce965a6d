"""What each sink adds to a page. Run it as `python -m benchmarks.sinks`."""
