"""What serving the simulated web costs: see `__main__`."""
