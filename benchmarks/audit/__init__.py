"""What an audit costs. Run it as `python -m benchmarks.audit`."""
