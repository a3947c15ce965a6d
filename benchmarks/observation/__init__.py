"""What looking at a crawl costs. Run it as `python -m benchmarks.observation`."""
