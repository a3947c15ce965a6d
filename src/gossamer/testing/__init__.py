"""What Gossamer ships for tests, benchmarks and demonstrations. No crawl needs any of it."""
