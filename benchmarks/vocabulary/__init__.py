"""What the pure pieces cost: URLs, robots.txt, decoding, parsing. Run it as `python -m benchmarks.vocabulary`."""
