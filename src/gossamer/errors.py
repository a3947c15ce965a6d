"""What can go wrong with *us*. What goes wrong with a page is data (an outcome with its reason), never one of these.

GossamerError             what happened, which value, what to do
├── UsageError            a bad flag, setting or input file; the command line exits with 2
├── StoreUnavailable      the store cannot be reached, read or written; exits with 3
└── CrashLoop             processes of the crawl die again and again without getting anywhere; exits with 4
"""


class GossamerError(Exception):
    """Shown to the user as one line; its text names the value and says what to do."""

    exit_code = 1


class UsageError(GossamerError):
    """The user can mend it by changing what was typed, set or given."""

    exit_code = 2


class StoreUnavailable(GossamerError):  # noqa: N818 (the word that the manual uses for this state)
    """Nothing that was acknowledged is lost; the crawl can be resumed when the store is back."""

    exit_code = 3


class CrashLoop(GossamerError):  # noqa: N818 (the word that the manual uses for this state)
    """Stopped, because going on would only repeat it; the crawl can be resumed when the cause is mended."""

    exit_code = 4
