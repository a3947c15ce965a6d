"""What a Redis server says of its own state, for the metrics; the names are theirs."""

import time

from gossamer.frontier.stores.redis_server import RedisServer

_FIGURES = {
    "redis_ops_per_second": "instantaneous_ops_per_sec",
    "redis_commands_processed_total": "total_commands_processed",
    "redis_memory_used_bytes": "used_memory",
    "redis_memory_max_bytes": "maxmemory",
    "redis_connected_clients": "connected_clients",
}


async def vitals(server: RedisServer) -> dict[str, float]:
    """Of a server that does not answer now: that it is not up, and nothing else."""
    began_at = time.monotonic()
    if await server.ask_once(b"PING") is None:
        return {"redis_up": 0.0}
    latency_seconds = time.monotonic() - began_at
    text = await server.ask_once(b"INFO")
    said = dict(line.split(":", 1) for line in (text or b"").decode(errors="replace").split("\r\n") if ":" in line)
    found = {"redis_up": 1.0, "redis_latency_seconds": latency_seconds}
    for name, field in _FIGURES.items():
        if said.get(field, "").isdecimal():
            found[name] = float(said[field])
    hits, misses = (float(said.get(field) or 0) for field in ("keyspace_hits", "keyspace_misses"))
    if hits + misses:
        found["redis_hit_ratio"] = hits / (hits + misses)
    return found
