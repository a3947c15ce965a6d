"""What the frontier costs per URL. Run it as `python -m benchmarks.frontier`."""
