"""What the descriptors of this process are: each one looked at, sockets matched to who is at their other end.

`count_descriptors` is for the metrics, every few seconds; `look_at_descriptors` is part of a diagnosis
(`diagnosis.py`), and takes longer.
"""

import contextlib
import os
import resource
import socket
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

#: More are not listed by name: the counts are complete in any case.
MOST_NAMES = 20
MOST_PEERS = 5
#: Where a descriptor cannot be opened to list the others, so many numbers are tried one by one.
MOST_TRIED = 1 << 16

#: Files whose kind is remembered: most of a process's are open for long.
MOST_KNOWN = 256

#: Folders and files of the data directory, by what they are for; the first that fits counts.
_PLACES = (
    ("frontier.db", "store"),
    ("queues", "store"),
    ("spool", "spool"),
    ("warc", "sinks"),
    ("index", "sinks"),
    ("pages", "sinks"),
    ("commit", "sinks"),
    ("log", "log"),
)
_TABLE_SUFFIXES = (".parquet", ".parquet.open")
#: Of linux/tcp_states.h.
_STATES = {
    1: "ESTABLISHED",
    2: "SYN_SENT",
    3: "SYN_RECV",
    4: "FIN_WAIT1",
    5: "FIN_WAIT2",
    6: "TIME_WAIT",
    7: "CLOSED",
    8: "CLOSE_WAIT",
    9: "LAST_ACK",
    10: "LISTEN",
    11: "CLOSING",
}
_CONNECTING = frozenset({"SYN_SENT", "SYN_RECV"})
_DNS_PORT = 53
_WEB_PORTS = {80: "http", 443: "https"}
_POSTGRES_SOCKET = ".s.PGSQL."

Endpoint = tuple[str, int]


class Peer(msgspec.Struct, frozen=True):
    """Who is at the other end of the most connections."""

    kind: str
    address: str
    connections: int


class Descriptors(msgspec.Struct, frozen=True, kw_only=True):
    """All descriptors of one process at one moment."""

    total: int = 0
    soft_limit: int | None = None
    """None is no limit."""
    hard_limit: int | None = None
    kinds: dict[str, int] = {}
    """By `DESCRIPTOR_KINDS`."""
    others: dict[str, int] = {}
    """What `other` is, by name."""
    states: dict[str, dict[str, int]] = {}
    """Of TCP connections, by kind."""
    peers: list[Peer] = []
    temporary: list[str] = []
    """Files in the directory for temporary ones, and files that have no name any more."""


class _Socket(NamedTuple):
    """What a socket says of itself; addresses of the internet as (address, port), of this machine as (path, 0)."""

    is_internet: bool
    is_stream: bool
    is_listening: bool
    local: Endpoint | None
    peer: Endpoint | None
    state: str


class _Open(NamedTuple):
    """One descriptor: what the system calls it, and what it says if it is a socket."""

    number: int
    name: str
    mode: int
    socket: _Socket | None


def look_at_descriptors(data: Path, store_endpoints: frozenset[Endpoint], web: Mapping[int, str]) -> Descriptors:
    """`web` has the scheme of each connection of the client, by its descriptor; of others the port tells."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = list(_open_descriptors(_numbers()))
    served = _served_ports(found)
    kinds: Counter[str] = Counter()
    others: Counter[str] = Counter()
    peers: Counter[tuple[str, str]] = Counter()
    states: dict[str, Counter[str]] = {}
    temporary: list[str] = []
    root = data.resolve()
    for one in found:
        if one.socket is not None:
            kind, name = _kind_of_socket(one.socket, store_endpoints, served, web.get(one.number, ""))
            if one.socket.state:
                states.setdefault(kind, Counter())[one.socket.state] += 1
            if one.socket.is_internet and one.socket.peer is not None:
                peers[kind, _shown(one.socket.peer)] += 1
        else:
            kind, name = _kind_of_file(one.name, one.mode, root)
            if _is_temporary(one, root):
                temporary.append(one.name)
        kinds[kind] += 1
        if kind == "other":
            others[name] += 1
    return Descriptors(
        total=len(found),
        soft_limit=None if soft == resource.RLIM_INFINITY else soft,
        hard_limit=None if hard == resource.RLIM_INFINITY else hard,
        kinds=dict(kinds.most_common()),
        others=_most(others),
        states={kind: dict(counted.most_common()) for kind, counted in states.items()},
        peers=[Peer(kind, address, count) for (kind, address), count in peers.most_common(MOST_PEERS)],
        temporary=sorted(temporary)[:MOST_NAMES],
    )


def count_descriptors(data: Path, store_endpoints: frozenset[Endpoint], web: Mapping[int, str]) -> dict[str, int]:
    """By kind. Those of the client are not looked at: they are most of them, and `web` says what they are.

    Raises OSError where none is left to list the others with.
    """
    numbers = _listed()
    kinds = Counter(web[number] for number in numbers if number in web)
    found = list(_open_descriptors(number for number in numbers if number not in web))
    served = _served_ports(found)
    root = data.resolve()
    for one in found:
        if one.socket is not None:
            kinds[_kind_of_socket(one.socket, store_endpoints, served, "")[0]] += 1
        else:
            kinds[_kind_of_file(one.name, one.mode, root)[0]] += 1
    return dict(kinds)


def _served_ports(found: Iterable[_Open]) -> set[int]:
    return {one.socket.local[1] for one in found if one.socket and one.socket.is_listening and one.socket.local}


def _open_descriptors(numbers: Iterable[int]) -> Iterator[_Open]:
    for number in numbers:
        # Another thread may close one at any moment, and the one that lists them is closed by now.
        with contextlib.suppress(OSError):
            mode = os.fstat(number).st_mode
            yield _Open(number, _name(number), mode, _look_at_socket(number) if stat.S_ISSOCK(mode) else None)


def _numbers() -> Sequence[int]:
    with contextlib.suppress(OSError):
        return _listed()
    # Listing needs a descriptor itself, and all are in use.
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return range(MOST_TRIED if soft == resource.RLIM_INFINITY else min(soft, MOST_TRIED))


def _listed() -> list[int]:
    try:
        names = os.listdir("/proc/self/fd")  # noqa: PTH208 (names alone)
    except FileNotFoundError:
        names = os.listdir("/dev/fd")  # noqa: PTH208 (elsewhere than on Linux)
    return sorted(int(name) for name in names if name.isdecimal())


def _name(number: int) -> str:
    """Such as a path, `pipe:[123]` or `anon_inode:[eventpoll]`; empty where the system does not tell."""
    try:
        return os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115 (a third of what a Path takes)
    except OSError:
        return ""


def _look_at_socket(number: int) -> _Socket:
    # No copy is made of the descriptor: there may be none left. It stays open, whatever is raised.
    looked = socket.socket(fileno=number)
    try:
        is_internet = looked.family in {socket.AF_INET, socket.AF_INET6}
        is_stream = looked.type == socket.SOCK_STREAM
        return _Socket(
            is_internet=is_internet,
            is_stream=is_stream,
            is_listening=bool(is_stream and looked.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)),
            local=_endpoint(looked.getsockname()),
            peer=_peer(looked),
            state=_state(looked) if is_internet and is_stream else "",
        )
    finally:
        looked.detach()


def _peer(looked: socket.socket) -> Endpoint | None:
    try:
        return _endpoint(looked.getpeername())
    except OSError:
        return None


def _endpoint(address: object) -> Endpoint | None:
    if isinstance(address, tuple) and len(address) >= 2 and isinstance(address[1], int):
        return str(address[0]).partition("%")[0].removeprefix("::ffff:"), address[1]
    if isinstance(address, str | bytes):
        return os.fsdecode(address), 0
    return None


def _state(looked: socket.socket) -> str:
    if not hasattr(socket, "TCP_INFO"):
        return ""
    with contextlib.suppress(OSError):
        return _STATES.get(looked.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0], "")
    return ""


def _kind_of_socket(
    found: _Socket, store_endpoints: frozenset[Endpoint], served: set[int], scheme: str
) -> tuple[str, str]:
    if not found.is_internet:
        path = found.peer[0] if found.peer else ""
        if path and ((path, 0) in store_endpoints or _POSTGRES_SOCKET in path):
            return "store", path
        # The event loop wakes itself through one, and signals come through it.
        return "other", f"socket of {path}" if path else "socket pair"
    if found.is_listening or (found.is_stream and found.local is not None and found.local[1] in served):
        return "serving", ""
    if scheme:
        return scheme, ""
    if found.peer is None:
        return ("connecting", "") if found.state in _CONNECTING else ("other", f"socket {found.state or 'unconnected'}")
    if found.peer in store_endpoints:
        return "store", ""
    if found.peer[1] == _DNS_PORT:
        return "dns", ""
    kind = _WEB_PORTS.get(found.peer[1])
    return (kind, "") if kind else ("other", f"connection to port {found.peer[1]}")


@lru_cache(maxsize=MOST_KNOWN)
def _kind_of_file(opened: str, mode: int, root: Path) -> tuple[str, str]:
    if stat.S_ISFIFO(mode):
        return "pipes", ""
    if opened.startswith("anon_inode:"):
        return "other", opened.removeprefix("anon_inode:").strip("[]")
    if not opened.startswith("/"):
        return "other", opened.partition(":")[0] or _kind_of_mode(mode)
    path = Path(opened.removesuffix(" (deleted)"))
    if not path.is_relative_to(root):
        return "other", opened
    inside = path.relative_to(root)
    top = inside.parts[0] if inside.parts else ""
    if top == "log" and inside.name.endswith(_TABLE_SUFFIXES):
        return "sinks", ""
    # The embedded store has files beside its own, with endings of their own.
    kind = next((kind for place, kind in _PLACES if top == place or top.startswith(f"{place}-")), "other")
    return kind, f"data directory: {top}"


def _kind_of_mode(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    return "device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "directory" if stat.S_ISDIR(mode) else "unknown"


def _is_temporary(one: _Open, root: Path) -> bool:
    if not stat.S_ISREG(one.mode) or not one.name.startswith("/"):
        return False
    if one.name.endswith(" (deleted)"):
        return True
    path = Path(one.name)
    return path.is_relative_to(tempfile.gettempdir()) and not path.is_relative_to(root)


def _shown(endpoint: Endpoint) -> str:
    return f"[{endpoint[0]}]:{endpoint[1]}" if ":" in endpoint[0] else f"{endpoint[0]}:{endpoint[1]}"


def _most(counted: Counter[str]) -> dict[str, int]:
    """The rest together."""
    shown = dict(counted.most_common(MOST_NAMES))
    rest = counted.total() - sum(shown.values())
    return shown | ({"others": rest} if rest else {})
