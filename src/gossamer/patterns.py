"""The patterns of `include` and `exclude`, which are matched against every link of every page.

RE2 matches them: its time grows with the length of the URL alone, whatever the pattern. With the standard library one
link could hold up a parser for longer than the crawl lasts. So RE2's syntax is the syntax of patterns; what it cannot
match in linear time is refused when the settings are read. The library is loaded only if there is a pattern.
"""

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType
from typing import Any

from gossamer.errors import UsageError

#: For the compiled pattern and what RE2 remembers of matching it. If that is not enough, RE2 forgets and goes on, or
#: refuses the pattern.
MAX_BYTES = 8 << 20

_HINT = (
    "look-around, back-references, possessive and atomic forms are not supported, because they cannot be matched in"
    " linear time; write the pattern without them, or divide it between include and exclude"
)
_GLOB_HINT = r"patterns are regular expressions: for *.pdf write \.pdf$"
#: RE2's words for what other libraries support.
_UNSUPPORTED = re.compile(r"invalid perl operator|bad repetition operator|invalid escape sequence: \\\d")
#: What the standard library reads as "at most n", RE2 would silently read as these very characters.
_OPEN_REPETITION = re.compile(r"(?<!\\)(?:\\\\)*(\{,(\d+)\})")
_END = re.compile(r"(?<!\\)(?:\\\\)*(\\Z)")
#: Parentheses, and the quoted text, escapes and character classes in which a parenthesis is only a character.
_PARENTHESES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|[()]", re.DOTALL)


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A function that says whether the pattern is found in a URL. Raises UsageError: what is wrong, and where."""
    repetition = _OPEN_REPETITION.search(pattern)
    if repetition is not None:
        wrong, most = repetition[1], repetition[2]
        raise UsageError(f"RE2 does not read {wrong} as a repetition{_at(repetition.start(1))}: write {{0,{most}}}")
    end = _END.search(pattern)
    if end is not None:
        raise UsageError(rf"RE2 has no \Z{_at(end.start(1))}: write $, which matches at the end of the URL alone")
    re2 = import_module("re2")
    try:
        compiled = re2.compile(pattern, _options(re2))
    except re2.error as error:
        raise UsageError(_refusal(re2, pattern, _message(error))) from None
    search = compiled.search

    def is_found_in(url: str) -> bool:
        # As bytes: of text, the library would count which characters its bytes belong to.
        return search(url.encode()) is not None

    return is_found_in


def compile_patterns(patterns: Iterable[str]) -> Callable[[str], bool] | None:
    """A function that says whether any of the patterns is found in a URL; None if there are no patterns."""
    compiled = [compile_pattern(pattern) for pattern in patterns]
    if len(compiled) < 2:
        return compiled[0] if compiled else None

    def is_any_found_in(url: str) -> bool:
        return any(is_found_in(url) for is_found_in in compiled)

    return is_any_found_in


def _options(re2: ModuleType) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_BYTES
    return options


def _message(error: Exception) -> str:
    reason = error.args[0]
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _refusal(re2: ModuleType, pattern: str, message: str) -> str:
    what, _, fragment = message.partition(": ")
    if what in {"missing )", "unexpected )"}:
        place = _unbalanced(pattern)
        words = f"{what}{' for the (' if what == 'missing )' else ''}{_at(place)}"
    elif what == "missing ]":
        words = f"{what} for the [{_at(_place(re2, pattern, message, fragment))}"
    elif fragment:
        words = f"{what} {fragment}{_at(_place(re2, pattern, message, fragment))}"
    else:
        words = what
    if pattern.startswith("*"):
        words += f" ({_GLOB_HINT})"
    return f"RE2 refuses it: {words}" + (f" ({_HINT})" if _UNSUPPORTED.match(message) else "")


def _at(place: int) -> str:
    return f" at character {place + 1}" if place >= 0 else ""


def _place(re2: ModuleType, pattern: str, message: str, fragment: str) -> int:
    """Where the fragment is that RE2 names: the first place up to which the pattern has the same fault."""
    place = pattern.find(fragment)
    while pattern.find(fragment, place + 1) >= 0:
        try:
            re2.compile(pattern[: place + len(fragment)], _options(re2))
        except re2.error as error:
            if _message(error) == message:
                break
        place = pattern.find(fragment, place + 1)
    return place


def _unbalanced(pattern: str) -> int:
    """Where a parenthesis is that has no partner; -1 if all have one."""
    opened: list[int] = []
    for token in _PARENTHESES.finditer(pattern):
        if token[0] == "(":
            opened.append(token.start())
        elif token[0] == ")":
            if not opened:
                return token.start()
            opened.pop()
    return opened[-1] if opened else -1
