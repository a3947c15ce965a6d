"""What PostgreSQL and the way to it can answer with: whether it passes, and if not, what to do about it."""

import asyncpg  # type: ignore[import-untyped]

from gossamer.errors import GossamerError, StoreUnavailable
from gossamer.frontier.stores.server import Judge, Trouble

#: All that asyncpg raises, and the sockets below it (a time-out is an OSError, too).
ERRORS: tuple[type[Exception], ...] = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
#: Codes of https://www.postgresql.org/docs/current/errcodes-appendix.html, or what they begin with.
_PASSING = {
    "40001": Trouble.AGAIN,  # serialization_failure
    "40P01": Trouble.AGAIN,  # deadlock_detected
    "55P03": Trouble.AGAIN,  # lock_not_available
    "08P01": None,  # protocol_violation: of the class that follows, and does not pass
    "08": Trouble.AWAY,  # the connection is broken, or cannot be made
    "25006": Trouble.AWAY,  # read_only_sql_transaction: a standby, until it is the server
    "25P03": Trouble.AWAY,  # idle_in_transaction_session_timeout: we were stopped for a while
    "53100": Trouble.FULL,  # disk_full
    "53200": Trouble.FULL,  # out_of_memory
    "53300": Trouble.AWAY,  # too_many_connections
    "57014": Trouble.AWAY,  # query_canceled: it took too long
    "57P01": Trouble.AWAY,  # admin_shutdown
    "57P02": Trouble.AWAY,  # crash_shutdown
    "57P03": Trouble.STARTING,  # cannot_connect_now
    "57P05": Trouble.AWAY,  # idle_session_timeout
    "58030": Trouble.AWAY,  # io_error
}
#: Of a table, a function, a schema, a database; and the database was dropped while we were connected.
_GONE = {"42P01", "42883", "3F000", "3D000", "57P04"}
_ADVICE = {
    "28P01": "the password is not accepted: correct it in the URL of the store",
    "28000": "it lets nobody in from here: correct the user in the URL of the store, or pg_hba.conf on the server",
    "42501": "the user has no right to do that: GRANT it, or give the owner of the frontier in the URL of the store",
    "26000": "a pooler between us and the server forgets prepared statements: set it to session pooling",
    "08P01": "something between us and the server does not speak its protocol: give the address of the server itself",
}


class MetAnother(Exception):  # noqa: N818 (it is no error: the transaction is made again)
    """Two transactions have made the same site at the same moment; this one is rolled back, and made again."""


def missing(server: str, crawl: str) -> StoreUnavailable:
    """The frontier was there, and is not any more."""
    return StoreUnavailable(
        f"the frontier of crawl {crawl} is not on {server}: it was created before, so something removed it;"
        " bring it back from a backup, or start a new crawl"
    )


def judge_of(server: str, crawl: str | None, *, was_reached: bool = False) -> Judge:
    """For `Calls`. Without a crawl nothing is known to have been there: then a missing database is a wrong URL.

    With `was_reached` it has spoken to us before: what answers in its place with something else, a proxy, say, or
    another program on its port, is not there for long.
    """

    def judge(error: Exception) -> Trouble | GossamerError:
        if isinstance(error, MetAnother):
            return Trouble.AGAIN
        if isinstance(error, asyncpg.PostgresError):
            return _judge_answer(error)
        if isinstance(error, asyncpg.OutdatedSchemaCacheError):
            return Trouble.AGAIN
        if isinstance(error, asyncpg.ProtocolError) or (isinstance(error, OSError) and "SSL upgrade" in str(error)):
            return Trouble.AWAY if was_reached else _refusal(error)
        # The connection broke, or was closed, in the middle of an operation: the pool has closed it, too. What else is
        # called an error of the interface is a fault of ours.
        if isinstance(error, OSError | asyncpg.InternalClientError) or "clos" in str(error):
            return Trouble.AWAY
        return _refusal(error)

    def _judge_answer(error: asyncpg.PostgresError) -> Trouble | GossamerError:
        code = error.sqlstate or ""
        passing = _PASSING.get(code, _PASSING.get(code[:2]))
        if passing is not None:
            return passing
        if code in _GONE and crawl is not None:
            return missing(server, crawl)
        if code == "3D000":
            return StoreUnavailable(f"{server} has no such database: create it, or correct the URL of the store")
        return _refusal(error, code)

    def _refusal(error: Exception, code: str = "") -> StoreUnavailable:
        said = f"{error} ({code})" if code else str(error)
        advice = _ADVICE.get(code, "this does not pass by itself")
        if isinstance(error, OSError | asyncpg.InternalClientError):
            advice = "it is no PostgreSQL, or has no TLS: correct the URL of the store"
        return StoreUnavailable(f"{server} answered: {said}; {advice}")

    return judge
