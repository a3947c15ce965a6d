"""What can go wrong with *us*. What goes wrong with a page is data (an outcome with its reason), never one of these.

GossamerError             what happened, which value, what to do
└── UsageError            a bad flag, setting or input file; the command line exits with 2
"""


class GossamerError(Exception):
    """Shown to the user as one line; its text names the value and says what to do."""

    exit_code = 1


class UsageError(GossamerError):
    """The user can mend it by changing what was typed, set or given."""

    exit_code = 2
