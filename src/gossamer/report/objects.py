"""The largest live objects of this process, how many there are of each type, and what was there the last time.

Part of a diagnosis (`diagnosis.py`); a crawl that nobody asks for one never imports it. The collector knows containers
alone, so strings are reached through what refers to them. All references that are taken here are local ones: when the
functions return, nothing lives longer for having been looked at.
"""

import gc
import heapq
import re
import sys
import time
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from types import ModuleType
from typing import Any

import msgspec

from gossamer.report.holders import held_by, type_name

#: Shown of each list.
SHOWN = 20
#: Kept in the file for the next report to compare with: what grows is not always among the first.
REMEMBERED = 200
#: CPU time for following references, after all objects were counted: enough for half a million of them. Who waits for
#: the event loop meanwhile waits no longer than for the costliest page.
BUDGET_SECONDS = 1.0
#: Between two looks at the clock: some milliseconds.
REFERENCES_A_LOOK = 2048
#: When the budget ends early, what was looked at is spread evenly over all: each round takes every so-many-th.
ROUNDS = 16
#: Containers of this size come first: a leak is one of them, or is held by one.
LARGE_BYTES = 4096
#: Then types that have no more objects than this: caches and the like are one of a kind, and pages are not.
RARE = 20_000
#: Of a container with more only every so-many-th item is counted, for all; what is large in it is found all the same.
MOST_COUNTED = 20_000
#: Holders are asked of the collector, which looks at all there is: some 50 ms for a million.
MOST_OBJECTS_FOR_HOLDERS = 4_000_000
#: Containers of plain values within such containers, which the collector does not know either.
DEPTH = 3

EXCERPT_CHARACTERS = 60
#: Passwords are looked for in this much, so that one which the excerpt would cut is still known as one.
_LOOKED_AT = 2000

_ATOMS = frozenset({int, float, complex, bool, type(None), type(Ellipsis), type(NotImplemented), type, range})
_TEXTS = frozenset({str, bytes, bytearray})
_CONTAINERS = frozenset({list, tuple, dict, set, frozenset, deque})
_SIZED = _TEXTS | _CONTAINERS
_CREDENTIALS = re.compile(r"([a-z][a-z0-9+.-]{0,30}://)[^/\s\"'@]*(?:@|(\Z))", re.IGNORECASE)
_NAMED_SECRETS = re.compile(
    r"(password|passwd|passphrase|secret|token|authorization|cookie)([\"']?\s*[:=]\s*[\"']?)"
    r"(?:(?:basic|bearer)\s+)?[^\s\"'&,;]+",
    re.IGNORECASE,
)
_HIDDEN = "***"


class LargeObject(msgspec.Struct, frozen=True, kw_only=True):
    """One of the largest."""

    type: str
    bytes: int
    """Of itself, without what it refers to."""
    length: int | None = None
    excerpt: str = ""
    """Of a string: its beginning, escaped. May be from the web."""
    held_by: str = ""
    """What refers to it, and what to that, up to something that has a name."""
    holders: int = 0
    since: float
    """Of the first report that has seen it."""
    was_there: bool = False
    grown_bytes: int = 0
    """Since the last report."""


class TypeCount(msgspec.Struct, frozen=True):
    """All objects of one type."""

    type: str
    count: int
    bytes: int
    change: int | None = None
    """Of the count, since the last report."""


class Known(msgspec.Struct, frozen=True, array_like=True):
    """By which the next report knows an object again."""

    id: int
    type: str
    bytes: int
    mark: int
    """Of a string's beginning and end: an address may be another's by then."""
    since: float


class Objects(msgspec.Struct, frozen=True, kw_only=True):
    """What lives in a process."""

    tracked: int = 0
    """Objects that the collector knows."""
    looked_at: int = 0
    is_capped: bool = False
    """Not all were looked at: what is large may be missing, and the counts of strings are too low."""
    largest: list[LargeObject] = []
    types: list[TypeCount] = []
    """Strings and bytes are estimated: who is referred to n times counts as an n-th each time."""
    known: list[Known] = []
    counts: dict[str, int] = {}


class _Found:
    """The largest so far, each once, with the containers of plain values that it was reached through."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, int, object, tuple[object, ...]]] = []
        self._ids: set[int] = set()
        self.least_bytes = 0

    def offer(self, found: object, size: int, path: tuple[object, ...] = ()) -> None:
        if size <= self.least_bytes or id(found) in self._ids:
            return
        # Its address breaks ties, so that objects are never compared.
        entry = (size, id(found), found, path)
        self._ids.add(id(found))
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
            return
        self._ids.discard(heapq.heapreplace(self._heap, entry)[1])
        self.least_bytes = self._heap[0][0]

    def largest(self) -> list[tuple[int, object, tuple[object, ...]]]:
        return [(size, found, path) for size, _, found, path in sorted(self._heap, key=lambda one: (-one[0], one[1]))]


class _Walk:
    """One pass over everything, within a budget of CPU time."""

    def __init__(self, budget_seconds: float) -> None:
        self._budget_seconds = budget_seconds
        self._ends_at = 0.0
        self._references = 0
        self.found = _Found(REMEMBERED)
        self.counts: dict[type, list[float]] = {}
        self.untracked: set[type] = set()
        self.tracked = 0
        self.looked_at = 0
        self.is_capped = False

    def run(self, objects: list[object]) -> None:
        """Empties the list, which refers to everything there is."""
        self.tracked = len(objects)
        large: list[object] = []
        for place, one in enumerate(objects):
            size = sys.getsizeof(one, 0)
            self._count(type(one), size, 1)
            if size > self.found.least_bytes:
                self.found.offer(one, size)
            if size >= LARGE_BYTES:
                large.append(one)
                objects[place] = None
        self._ends_at = time.thread_time() + self._budget_seconds
        common = {kind for kind, (count, _) in self.counts.items() if count > RARE}
        modules = {id(vars(one)): vars(one) for one in list(sys.modules.values()) if type(one) is ModuleType}
        self._follow(modules.values(), {})
        self._follow(large, modules)
        self._follow((one for one in objects if type(one) not in common), modules)
        for first in range(ROUNDS):
            self._follow((one for one in islice(objects, first, None, ROUNDS) if type(one) in common), modules)
        objects.clear()

    def _follow(self, objects: Iterable[object], done: Mapping[int, object]) -> None:
        for one in objects:
            if self.is_capped:
                return
            if one is None or (type(one) is dict and id(one) in done):
                continue
            self.looked_at += 1
            if type(one) in _CONTAINERS and len(one) > MOST_COUNTED:  # type: ignore[arg-type]
                self._look_into_many(one, len(one))  # type: ignore[arg-type]
            else:
                self._look_into(gc.get_referents(one), ())

    def _look_into_many(self, container: object, length: int) -> None:
        """Much faster than one by one, and nothing as large as the container itself is made for it."""
        every = length // MOST_COUNTED + 1
        size_of, found = sys.getsizeof, self.found
        path = () if gc.is_tracked(container) else (container,)
        counted: list[object] = []
        for number, one in enumerate(_items(container)):
            if size_of(one, 0) > found.least_bytes and not gc.is_tracked(one) and type(one) not in _ATOMS:
                found.offer(one, size_of(one, 0), path)
            if number % every == 0:
                counted.append(one)
                if time.thread_time() > self._ends_at:
                    self.is_capped = True
                    return
        one = None
        self._look_into(counted, path, every)

    def _look_into(self, referents: Iterable[object], path: tuple[object, ...], every: int = 1) -> None:
        """`path` has the containers that the collector does not know, from the outermost to this one."""
        is_tracked, size_of, references_to = gc.is_tracked, sys.getsizeof, sys.getrefcount
        for one in referents:
            kind = type(one)
            if kind in _ATOMS or is_tracked(one):
                continue
            self._references += 1
            if not self._references % REFERENCES_A_LOOK and time.thread_time() > self._ends_at:
                self.is_capped = True
            if self.is_capped:
                return
            size = size_of(one, 0)
            # This name, where it is taken from and the argument refer to it, too.
            self._count(kind, size, every / max(1, references_to(one) - 3))
            self.untracked.add(kind)
            if size > self.found.least_bytes:
                self.found.offer(one, size, path)
            if kind in _TEXTS or len(path) >= DEPTH:
                continue
            if kind in _CONTAINERS and len(one) > MOST_COUNTED:  # type: ignore[arg-type]
                self._look_into_many(one, len(one))  # type: ignore[arg-type]
            else:
                self._look_into(_referents(one), (*path, one), every)

    def _count(self, kind: type, size: float, share: float) -> None:
        counted = self.counts.get(kind)
        if counted is None:
            counted = self.counts[kind] = [0.0, 0.0]
        counted[0] += share
        counted[1] += size * share


def _referents(untracked: object) -> Iterable[object]:
    """A struct that the collector is told to leave alone does not tell it of its fields."""
    fields = getattr(type(untracked), "__struct_fields__", ())
    return [getattr(untracked, name, None) for name in fields] if fields else gc.get_referents(untracked)


def _items(container: Any) -> Iterator[object]:
    try:
        if isinstance(container, dict):
            for name, value in container.items():
                yield name
                yield value
        else:
            yield from container
    except RuntimeError:
        # Another thread has changed it meanwhile.
        return


def look_at_objects(last: Objects, *, now: float, secrets: Collection[str] = ()) -> Objects:
    """`last` is the report before this one, of the same process; `secrets` never appear in an excerpt."""
    is_collecting = gc.isenabled()
    # A collection in between would forget containers of plain values that were known at the beginning.
    gc.disable()
    try:
        return _look_at_objects(last, now, secrets)
    finally:
        if is_collecting:
            gc.enable()


def _look_at_objects(last: Objects, now: float, secrets: Collection[str]) -> Objects:
    objects = gc.get_objects()
    # Made after the list, so that it is not in it.
    walk = _Walk(BUDGET_SECONDS)
    walk.run(objects)
    largest = walk.found.largest()
    before = {(one.id, one.type): one for one in last.known}
    known = [_known(found, size, before, now) for size, found, _ in largest]
    shown = largest[:SHOWN]
    holders = [("", 0)] * len(shown)
    if walk.tracked <= MOST_OBJECTS_FOR_HOLDERS:
        # These refer to the same objects as those that are asked for.
        own = {id(walk), id(walk.found), id(walk.found._heap), id(largest), id(shown)}
        own |= {id(entry) for entry in (*walk.found._heap, *largest)}
        holders = held_by([(found, path) for _, found, path in shown], own)
    counts: dict[str, tuple[int, int]] = {}
    for kind, (count, size) in walk.counts.items():
        number, total = counts.get(type_name(kind), (0, 0))
        counts[type_name(kind)] = number + round(count), total + round(size)
    # Of what the collector does not know, only complete reports have comparable counts.
    estimated = {type_name(kind) for kind in walk.untracked} if walk.is_capped or last.is_capped else set()
    comparable = last.counts.keys() - estimated
    by_size = sorted(counts.items(), key=lambda item: -item[1][1])
    return Objects(
        tracked=walk.tracked,
        looked_at=walk.looked_at,
        is_capped=walk.is_capped or walk.tracked > MOST_OBJECTS_FOR_HOLDERS,
        largest=[
            _shown(found, mark, before.get((mark.id, mark.type)), held, secrets)
            for (_, found, _), mark, held in zip(shown, known, holders, strict=False)
        ],
        types=[
            TypeCount(name, count, size, count - last.counts[name] if name in comparable else None)
            for name, (count, size) in by_size[:SHOWN]
        ],
        known=known,
        counts={name: count for name, (count, _) in by_size[:REMEMBERED]},
    )


def _known(found: object, size: int, before: dict[tuple[int, str], Known], now: float) -> Known:
    kind, mark = type_name(type(found)), _mark(found)
    last = before.get((id(found), kind))
    # A string cannot grow; what has its address and another size is another one.
    was_there = last is not None and last.mark == mark and (last.bytes == size or type(found) not in {str, bytes})
    return Known(id(found), kind, size, mark, last.since if was_there and last is not None else now)


def _mark(found: object) -> int:
    if isinstance(found, str):
        return zlib.crc32((found[:64] + found[-64:]).encode(errors="surrogatepass"))
    return zlib.crc32(found[:64] + found[-64:]) if isinstance(found, bytes) else 0


def _shown(
    found: object, mark: Known, last: Known | None, held: tuple[str, int], secrets: Collection[str]
) -> LargeObject:
    was_there = last is not None and last.since == mark.since
    return LargeObject(
        type=mark.type,
        bytes=mark.bytes,
        length=len(found) if type(found) in _SIZED else None,  # type: ignore[arg-type]
        excerpt=excerpt(found, secrets),
        held_by=held[0],
        holders=held[1],
        since=mark.since,
        was_there=was_there,
        grown_bytes=mark.bytes - last.bytes if was_there and last is not None else 0,
    )


def excerpt(found: object, secrets: Collection[str] = ()) -> str:
    """The beginning of a string, in ASCII and without what looks like a password; of anything else nothing."""
    if isinstance(found, str):
        text = found[:_LOOKED_AT]
    elif isinstance(found, bytes | bytearray):
        text = bytes(found[:_LOOKED_AT]).decode("latin-1")
    else:
        return ""
    is_cut = len(text) == _LOOKED_AT
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)

    def hidden(match: re.Match[str]) -> str:
        # What goes on to the end of what was looked at may be a password whose "@" comes later.
        is_whole = match[2] is not None and not is_cut
        return match[0] if is_whole else f"{match[1]}{_HIDDEN}@"

    text = _NAMED_SECRETS.sub(rf"\1\2{_HIDDEN}", _CREDENTIALS.sub(hidden, text))
    return ascii(text[:EXCERPT_CHARACTERS])[1:-1][:EXCERPT_CHARACTERS]
