"""The host name in a TLS ClientHello (RFC 8446 §4.1.2, RFC 6066 §3), read before a TLS context is chosen.

The library's own callback comes too late: by then the protocol versions of the first context are settled.
"""

_HANDSHAKE = 22
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_RECORD_HEADER_BYTES = 5
#: Of what stands before the session id: the message's type and length, the version, the random bytes.
_FIXED_BYTES = 4 + 2 + 32


def server_name(received: bytes) -> str | None:
    """In lower case; empty if none is named, or if this is no ClientHello; None if more must be received first."""
    if len(received) < _RECORD_HEADER_BYTES:
        return None
    end = _RECORD_HEADER_BYTES + int.from_bytes(received[3:5], "big")
    if received[0] != _HANDSHAKE:
        return ""
    if len(received) < end:
        return None
    hello = received[_RECORD_HEADER_BYTES:end]
    if hello[:1] != bytes([_CLIENT_HELLO]):
        return ""
    _, rest = _vector(hello[_FIXED_BYTES:], 1)  # session id
    _, rest = _vector(rest, 2)  # cipher suites
    _, rest = _vector(rest, 1)  # compression methods
    extensions, _ = _vector(rest, 2)
    while extensions:
        kind = int.from_bytes(extensions[:2], "big")
        content, extensions = _vector(extensions[2:], 2)
        if kind == _SERVER_NAME:
            names, _ = _vector(content, 2)
            name, _ = _vector(names[1:], 2)
            return name.decode("ascii", "replace").lower()
    return ""


def _vector(data: bytes, size: int) -> tuple[bytes, bytes]:
    """What a length of `size` bytes announces, and what follows it; short data gives short answers."""
    end = size + int.from_bytes(data[:size], "big")
    return data[size:end], data[end:]
