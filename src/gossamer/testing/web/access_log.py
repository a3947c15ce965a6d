"""What the simulated web writes down of every request: one line each, by one file per server process.

Times are of the machine's monotonic clock, which all processes share, in nanoseconds. `started_at_ns` is when the
request line was read, `ended_at_ns` when the last bytes of the answer were handed to the kernel (so never later than
the client has them), or when the client was seen to have left. A request that was cut off has `aborted` set.

Fields are separated by tabs; a host, path or user agent comes from the client, so whatever could break the line is
percent-encoded in it.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from gossamer.errors import UsageError

#: All of printable ASCII but the percent sign; tab, line ends and everything else are encoded.
_SAFE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


class Request(NamedTuple):
    """One request as the server saw it."""

    started_at_ns: int
    ended_at_ns: int
    aborted: bool
    scheme: str
    host: str
    """As in the Host header: with its port, if the client sent one."""
    path: str
    """With the query, as received."""
    status: int
    """0 if the request was cut off before there was one."""
    body_bytes: int
    """Bytes of body sent, as on the wire."""
    client_port: int
    user_agent: str


def line(request: Request) -> str:
    return "\t".join(
        (
            str(request.started_at_ns),
            str(request.ended_at_ns),
            "1" if request.aborted else "0",
            request.scheme,
            _encoded(request.host),
            _encoded(request.path),
            str(request.status),
            str(request.body_bytes),
            str(request.client_port),
            _encoded(request.user_agent),
        )
    )


def read(files: Iterable[Path]) -> Iterator[Request]:
    """All whole lines of the files, in no order; a last line without its end was being written when the server died."""
    for file in files:
        text = ""
        try:
            with file.open(encoding="ascii", newline="\n") as lines:
                for text in lines:
                    if text.endswith("\n"):
                        yield _request(text)
        except ValueError:
            raise UsageError(f"{file}: no access log of the simulated web, at or after {text!r:.120}") from None
        except OSError as error:
            raise UsageError(f"cannot read {str(file)!r}: {error.strerror or error}") from None


def _request(text: str) -> Request:
    start, end, aborted, scheme, host, path, status, size, port, agent = text[:-1].split("\t")
    return Request(
        int(start),
        int(end),
        aborted == "1",
        scheme,
        _decoded(host) if "%" in host else host,
        _decoded(path) if "%" in path else path,
        int(status),
        int(size),
        int(port),
        _decoded(agent) if "%" in agent else agent,
    )


def _encoded(text: str) -> str:
    # Printable ASCII is exactly what is safe. Asking that first costs the server a tenth of what `quote` does.
    if text.isascii() and text.isprintable() and "%" not in text:
        return text
    return quote(text, safe=_SAFE, errors="surrogateescape")


def _decoded(text: str) -> str:
    return unquote(text, errors="surrogateescape")
