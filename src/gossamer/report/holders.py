"""What refers to an object: from its nearest holder up to something that has a name. `objects.py` asks it.

Nothing of the program's own is run by looking: attributes are read from where they lie. Frames are never touched,
because one that was looked at keeps its variables alive.
"""

import gc
import sys
import types
from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

#: From one holder to the next; a name is mostly found after one or two.
MOST_STEPS = 5
#: Of one step; what has more holders is in use everywhere, and any of them will do.
MOST_HOLDERS = 20_000

_CONTAINERS = (list, tuple, set, frozenset, deque, dict)
_RUNNING = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)
_SKIPPED = (types.FrameType, types.TracebackType)


class _Chain:
    """The way up from one object."""

    def __init__(self, found: object, path: Sequence[object]) -> None:
        self.words: list[str] = []
        self.holders = 0
        self.is_done = False
        self.below: object = None
        """The object before the current one; a dict is often only a part of who has it."""
        self.current = found
        # The innermost of the containers that the collector does not know comes last.
        for container in reversed(path):
            self.step(container)

    def step(self, holder: object) -> None:
        word, is_name = _describe(holder, self.current, self.below)
        if is_name and self.words and _is_dict_of(holder, self.current):
            # The name has taken in what the dict is.
            self.words.pop()
        self.words.append(word)
        self.below, self.current = self.current, holder
        self.is_done = is_name

    def shown(self) -> str:
        return ", in ".join(self.words)


def type_name(kind: type) -> str:
    module = getattr(kind, "__module__", "")
    name = getattr(kind, "__qualname__", "?")
    return str(name) if module in {"builtins", ""} else f"{module}.{name}"


def held_by(objects: Sequence[tuple[object, Sequence[object]]], own: Collection[int]) -> list[tuple[str, int]]:
    """Of each object, with the containers that it was reached through: what holds it, in words, and how many do.

    `own` has the addresses of what refers to it only because it is being looked at.
    """
    chains = [_Chain(found, path) for found, path in objects]
    skipped = {*own, id(chains), id(objects), *map(id, objects), *(id(path) for _, path in objects)}
    skipped |= {id(chain) for chain in chains} | {id(vars(chain)) for chain in chains}
    for number in range(MOST_STEPS):
        unfinished = [chain for chain in chains if not chain.is_done]
        if not unfinished:
            break
        _climb(unfinished, skipped | {id(unfinished)}, is_first=number == 0)
    return [(chain.shown(), chain.holders) for chain in chains]


def _climb(chains: list[_Chain], skipped: set[int], *, is_first: bool) -> None:
    """One step up, for all of them in one pass of the collector."""
    by_id: dict[int, list[_Chain]] = {}
    for chain in chains:
        by_id.setdefault(id(chain.current), []).append(chain)
    holders = gc.get_referrers(*(chain.current for chain in chains))
    best: dict[int, tuple[int, object]] = {}
    for holder in holders[:MOST_HOLDERS]:
        if id(holder) in skipped or isinstance(holder, _SKIPPED) or holder is by_id or holder is best:
            continue
        for held in by_id.keys() & set(map(id, gc.get_referents(holder))):
            rank = _rank(holder)
            if is_first:
                for chain in by_id[held]:
                    chain.holders += 1
            if held not in best or rank < best[held][0]:
                best[held] = (rank, holder)
    for held, of_it in by_id.items():
        for chain in of_it:
            if held in best:
                chain.step(best[held][1])
            else:
                # Held by what runs, or by what is written in C.
                chain.is_done = True


def _rank(holder: object) -> int:
    """The lower, the more it says."""
    if isinstance(holder, types.ModuleType | type):
        return 0
    if isinstance(holder, _RUNNING):
        return 2
    if isinstance(holder, types.CellType | types.FunctionType | types.MethodType):
        return 4
    return 3 if type(holder) in _CONTAINERS else 1


def _describe(holder: object, held: object, below: object) -> tuple[str, bool]:
    """In words, and whether that is a name, where the way up ends."""
    kind = type(holder)
    if kind is dict:
        return _describe_dict(holder, held)
    if kind in _CONTAINERS:
        return f"{kind.__name__} of {len(holder):,}", False  # type: ignore[arg-type]
    if isinstance(holder, _RUNNING):
        return f"{kind.__name__} {holder.__qualname__}", True
    if isinstance(holder, types.FunctionType):
        return f"function {holder.__module__}.{holder.__qualname__}", True
    if isinstance(holder, types.CellType | types.MethodType):
        return kind.__name__, False
    if isinstance(holder, types.ModuleType):
        return f"module {holder.__name__}", True
    name = _attribute(holder, held, below)
    owner = type_name(holder) if isinstance(holder, type) else type_name(kind)
    if name:
        # What the collector does not know is a record of something; who has it says more.
        return f"{owner}.{name}", gc.is_tracked(holder)
    # One of a library's, written in C: what has it may say more.
    return owner, False


def _describe_dict(holder: Any, held: object) -> tuple[str, bool]:
    module = sys.modules.get(name) if isinstance(name := holder.get("__name__"), str) else None
    if module is not None and vars(module) is holder:
        return f"{name}.{_key(holder, held) or '?'}", True
    return f"dict of {len(holder):,}", False


def _attribute(holder: object, held: object, below: object) -> str:
    """The name by which an object has another: in its slots, or in its dict, which may itself be what is held."""
    if _is_dict_of(holder, held):
        return _key(held, below)
    if found := _key(_attributes(holder), held):
        return found
    for base in type(holder).__mro__:
        for name, slot in vars(base).items():
            if isinstance(slot, types.MemberDescriptorType) and _slot(slot, holder) is held:
                return name
    return ""


def _is_dict_of(holder: object, held: object) -> bool:
    if type(held) is not dict:
        return False
    attributes = _attributes(holder)
    # The dict of a class is only shown through a view, which is equal to it.
    return attributes is held or (isinstance(holder, type) and attributes == held)


def _attributes(holder: object) -> Any:
    try:
        found = object.__getattribute__(holder, "__dict__")
    except (AttributeError, TypeError):
        return {}
    return found if isinstance(found, dict | types.MappingProxyType) else {}


def _slot(slot: types.MemberDescriptorType, holder: object) -> object:
    try:
        return slot.__get__(holder)
    except (AttributeError, TypeError):
        return None


def _key(holder: Any, held: object) -> str:
    """Only names of the program's own: a key that is no identifier may be from the web."""
    try:
        return next((key for key, value in holder.items() if value is held and _is_name(key)), "")
    except RuntimeError:
        # Another thread has changed it meanwhile.
        return ""


def _is_name(key: object) -> bool:
    return isinstance(key, str) and len(key) < 100 and key.isascii() and key.isidentifier()
