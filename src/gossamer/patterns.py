"""The patterns of `include` and `exclude`, which are matched against every link of every page.

RE2 matches them: its time grows with the length of the URL alone, whatever the pattern. With the standard library one
link could hold up a parser for longer than the crawl lasts. So RE2's syntax is the syntax of patterns; what it cannot
match in linear time is refused when the settings are read. The library is loaded only if there is a pattern.
"""

import re
from collections.abc import Callable
from importlib import import_module

from gossamer.errors import UsageError

#: For the compiled pattern and what RE2 remembers of matching it. If that is not enough, RE2 forgets and goes on, or
#: refuses the pattern.
MAX_BYTES = 8 << 20

_HINT = (
    "look-around, back-references, possessive and atomic forms are not supported, because they cannot be matched in"
    " linear time; write the pattern without them, or divide it between include and exclude"
)
#: What the standard library reads as "at most n", RE2 would silently read as these very characters.
_OPEN_REPETITION = re.compile(r"(?<!\\)(?:\\\\)*\{,(\d+)\}")
_END = re.compile(r"(?<!\\)(?:\\\\)*\\Z")


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A function that says whether the pattern is found in a URL. Raises UsageError, with RE2's reason."""
    repetition = _OPEN_REPETITION.search(pattern)
    if repetition is not None:
        most = repetition[1]
        raise UsageError(f"RE2 does not read {{,{most}}} as a repetition: write {{0,{most}}}")
    if _END.search(pattern):
        raise UsageError(r"RE2 has no \Z: write $, which matches at the end of the URL alone")
    re2 = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise UsageError(f"RE2 refuses it: {words} ({_HINT})") from None
    search = compiled.search

    def is_found_in(url: str) -> bool:
        # As bytes: of text, the library would count which characters its bytes belong to.
        return search(url.encode()) is not None

    return is_found_in
