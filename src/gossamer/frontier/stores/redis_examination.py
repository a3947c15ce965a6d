"""What a Redis server is, how it is set, and what is on it; and how the frontier of a crawl is removed from it."""

import ipaddress
import re

from gossamer.errors import UsageError
from gossamer.frontier.stores.examination import Finding, Verdict
from gossamer.frontier.stores.redis_codec import header_of
from gossamer.frontier.stores.redis_keys import (
    CRAWLS_KEY,
    VERSION,
    check_crawl,
    header_key,
    meta_key,
    slot_keys_pattern,
)
from gossamer.frontier.stores.redis_pool import packed
from gossamer.frontier.stores.redis_server import RedisServer
from gossamer.units import counted

#: Debian 12 has it; scripts that say what they need begin with it.
OLDEST = (7, 0)
#: While a server saves itself it is copied, page by page, as it changes: it must not take half of the machine.
MOST_OF_MEMORY = 0.45
#: A set of integers stays compact up to so many; ours have up to 400 on the average.
LEAST_INTSET = 512
#: For a person who waits for an answer.
PATIENCE_SECONDS = 5.0
#: Keys of one step when a frontier is removed.
REMOVED_AT_ONCE = 500

#: Findings that say whether what was acknowledged survives a power loss.
DURABILITY = frozenset({"appendonly", "appendfsync", "no-appendfsync-on-rewrite"})

_NOT_VISIBLE = "not visible"
_LET_SEE = ", or let us see it: ACL SETUSER its user with +config|get"


async def examine(url: str) -> list[Finding]:
    """Everything that can be told about a server. Raises StoreUnavailable if it does not answer."""
    server = RedisServer(url, "", pool=1, client_name="gossamer-check")
    try:
        findings = await settings_of(server, patience_seconds=PATIENCE_SECONDS)
        crawls = await server.ask("examine", b"HGETALL", CRAWLS_KEY)
        for crawl, created_by in zip(crawls[::2], crawls[1::2], strict=True):
            findings.append(await _crawl_on(server, crawl.decode(), created_by.decode(errors="replace")))
    finally:
        await server.close()
    return findings


async def settings_of(server: RedisServer, *, patience_seconds: float | None) -> list[Finding]:
    """Version and settings; what `open` looks at."""
    text = (await server.ask("open", b"INFO", patience_seconds=patience_seconds)).decode(errors="replace")
    known = dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))
    names = ("appendfsync", "no-appendfsync-on-rewrite", "set-max-intset-entries", "protected-mode")
    words = await server.ask_if_allowed("open", b"CONFIG", b"GET", *(name.encode() for name in names)) or []
    settings = {name.decode(): value.decode() for name, value in zip(words[::2], words[1::2], strict=True)}
    return [
        _version(known),
        _role(known),
        _policy(known),
        _append_only(known),
        _fsync(settings.get("appendfsync", _NOT_VISIBLE)),
        _fsync_on_rewrite(settings.get("no-appendfsync-on-rewrite", _NOT_VISIBLE)),
        _memory(known),
        _intsets(settings.get("set-max-intset-entries", _NOT_VISIBLE)),
        _password(server, settings.get("protected-mode", _NOT_VISIBLE)),
    ]


def _version(known: dict[str, str]) -> Finding:
    if "valkey_version" in known:
        return Finding("server", f"Valkey {known['valkey_version']}")
    version = known.get("redis_version", "unknown")
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if numbers < OLDEST:
        return Finding("server", f"Redis {version}", Verdict.REFUSED, "use Redis 7.0 or newer, or Valkey")
    return Finding("server", f"Redis {version}")


def _role(known: dict[str, str]) -> Finding:
    if known.get("cluster_enabled", "0") != "0":
        return Finding("role", "cluster", Verdict.REFUSED, "use a server with cluster-enabled no")
    role = known.get("role", "unknown")
    if role == "slave":
        return Finding("role", "replica", Verdict.REFUSED, "give the address of its primary")
    return Finding("role", "primary" if role == "master" else role)


def _policy(known: dict[str, str]) -> Finding:
    policy = known.get("maxmemory_policy", _NOT_VISIBLE)
    if policy != "noeviction":
        advice = "set maxmemory-policy noeviction: with any other it forgets URLs when its memory is full"
        return Finding("maxmemory-policy", policy, Verdict.REFUSED, advice)
    return Finding("maxmemory-policy", policy)


def _append_only(known: dict[str, str]) -> Finding:
    if known.get("aof_enabled") != "1":
        advice = "set appendonly yes: without it a restart of the server loses what it was told"
        return Finding("appendonly", "no", Verdict.REFUSED, advice)
    return Finding("appendonly", "yes")


def _fsync(value: str) -> Finding:
    advice = {
        "always": "",
        "everysec": "a crash of the machine loses the last second, and so does, rarely, a server that is killed while"
        " its disk is slow; set appendfsync always to lose nothing, which costs more",
        "no": "set appendfsync everysec: as it is, a crash of the machine loses half a minute",
    }.get(value, f"look whether appendfsync is everysec or always{_LET_SEE}")
    return Finding("appendfsync", value, Verdict.ADVICE if advice else Verdict.GOOD, advice)


def _fsync_on_rewrite(value: str) -> Finding:
    name = "no-appendfsync-on-rewrite"
    if value == "no":
        return Finding(name, value)
    advice = "set it to no: while the server rewrites its file, a crash of the machine loses up to half a minute"
    return Finding(name, value, Verdict.ADVICE, advice if value == "yes" else f"look whether it is no{_LET_SEE}")


def _memory(known: dict[str, str]) -> Finding:
    limit, total = int(known.get("maxmemory", 0)), int(known.get("total_system_memory", 0))
    used = known.get("used_memory_human", "?")
    advice = f"set maxmemory to {int(total * MOST_OF_MEMORY) >> 20}mb or less" if total else "set maxmemory"
    advice += ": while it saves itself, a server may take up to twice its memory"
    if not limit:
        return Finding("maxmemory", f"without limit, {used} used", Verdict.ADVICE, advice)
    value = f"{limit >> 20} MiB of {total >> 20} MiB, {used} used"
    return Finding("maxmemory", value, *((Verdict.ADVICE, advice) if limit > total * MOST_OF_MEMORY else ()))


def _intsets(value: str) -> Finding:
    if not value.isdecimal():
        advice = f"look whether set-max-intset-entries is {LEAST_INTSET} or more"
    elif int(value) < LEAST_INTSET:
        advice = f"set set-max-intset-entries {LEAST_INTSET}: as it is, each URL takes six times the memory"
    else:
        return Finding("set-max-intset-entries", value)
    return Finding("set-max-intset-entries", value, Verdict.ADVICE, advice)


def _password(server: RedisServer, protected_mode: str) -> Finding:
    address = server.address
    if address.has_password:
        return Finding("password", "asked for")
    if address.path or _is_loopback(address.host):
        advice = "set protected-mode yes, or a password: other machines may be able to reach it"
        is_open = protected_mode == "no"
        return Finding("password", "none", *((Verdict.ADVICE, advice) if is_open else ()))
    advice = "set requirepass, or a user with a password: anyone who reaches it can change the crawl"
    return Finding("password", "none", Verdict.REFUSED, advice)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _crawl_on(server: RedisServer, crawl: str, created_by: str) -> Finding:
    version, slots = await server.ask("examine", b"HMGET", meta_key(crawl), b"version", b"slots")
    if version is None:
        advice = "it was removed, but not all of it: remove it again"
        return Finding(f"crawl {crawl}", f"in parts, made by {created_by}", Verdict.ADVICE, advice)
    if int(version) != VERSION:
        return Finding(f"crawl {crawl}", f"of another version of Gossamer, made by {created_by}")
    headers = [packed(header_key(crawl, slot)) for slot in range(int(slots))]
    admitted = finished = 0
    for raw, counters, *_ in await server.run("examine", "counts", headers, b"0"):
        admitted += int(header_of(raw).admitted)
        finished += sum(
            int(number) for name, number in zip(counters[::2], counters[1::2], strict=True) if name.startswith(b"o ")
        )
    return Finding(
        f"crawl {crawl}", f"{counted(admitted, 'URL')} admitted, {finished:,} finished, made by {created_by}"
    )


async def remove(url: str, crawl: str) -> None:
    """The frontier of one crawl, in small steps. Processes of that crawl that still run are told that it is gone."""
    check_crawl(crawl)
    server = RedisServer(url, crawl, pool=1, client_name="gossamer-remove")
    try:
        listed = await server.ask("remove", b"HEXISTS", CRAWLS_KEY, crawl.encode(), patience_seconds=PATIENCE_SECONDS)
        slots = await server.ask("remove", b"HGET", meta_key(crawl), b"slots")
        if not listed and slots is None:
            raise UsageError(f"there is no crawl {crawl} on {server.name}: gossamer store check shows those that are")
        # First what every verb looks at: nothing writes to the rest from then on.
        headers = [header_key(crawl, slot) for slot in range(int(slots or 0))]
        await server.ask("remove", b"UNLINK", meta_key(crawl), *headers)
        cursor = b"0"
        while True:
            cursor, keys = await server.ask(
                "remove", b"SCAN", cursor, b"MATCH", slot_keys_pattern(crawl), b"COUNT", b"%d" % REMOVED_AT_ONCE
            )
            if keys:
                await server.ask("remove", b"UNLINK", *keys)
            if cursor == b"0":
                break
        # Last: until here it can be begun again.
        await server.ask("remove", b"HDEL", CRAWLS_KEY, crawl.encode())
    finally:
        await server.close()
