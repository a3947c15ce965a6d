"""Real processes, real sockets, the simulated web."""
