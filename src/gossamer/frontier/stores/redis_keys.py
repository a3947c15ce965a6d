"""How the keys of a crawl are called on a Redis server. common.lua has the rest of the names."""

from gossamer.errors import UsageError

#: Goes up with every change of the keys or of what stands in them.
VERSION = 3
#: A hash that lists the crawls of the server, and who made each.
CRAWLS_KEY = b"gossamer:crawls"


def check_crawl(crawl: str) -> None:
    """Its name is part of keys, and of a pattern when it is removed."""
    if not (crawl.isascii() and crawl.isalnum()):
        raise UsageError(f"{crawl!r} cannot be the name of a crawl on a server: it is made of letters and digits")


def meta_key(crawl: str) -> bytes:
    """A hash: what is true of the whole crawl."""
    return f"g:{crawl}:meta".encode()


def header_key(crawl: str, slot: int) -> bytes:
    """All keys of a slot begin with the same part in braces, which keeps them together on a cluster."""
    return f"{{g:{crawl}:{slot}}}:h".encode()


def key_in_slot(crawl: str, slot: int, name: bytes) -> bytes:
    """Of what common.lua lists under this name."""
    return header_key(crawl, slot)[:-1] + name


def slot_keys_pattern(crawl: str) -> bytes:
    """Of all keys of all slots."""
    return f"{{g:{crawl}:*".encode()
