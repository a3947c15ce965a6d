"""What is known of an origin's robots.txt, as every store keeps it."""

import zlib

import msgspec

from gossamer.records import RobotsCopy


def encode_robots(copy: RobotsCopy) -> bytes:
    """Lightly compressed: they are written once a day for each origin, and most are a kilobyte of English words."""
    return zlib.compress(msgspec.msgpack.encode(copy), 1)


def decode_robots(encoded: bytes) -> RobotsCopy:
    return msgspec.msgpack.decode(zlib.decompress(encoded), type=RobotsCopy)
