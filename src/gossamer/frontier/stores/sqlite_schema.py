"""Whether a file is a frontier of ours, and how one is made."""

import sqlite3
import time
from importlib import resources
from pathlib import Path

from gossamer.errors import StoreUnavailable, UsageError
from gossamer.units import counted

#: Marks the file as ours, as SQLite's `file` magic does: "Goss".
APPLICATION_ID = 0x476F7373
#: Goes up with every change of the schema, and of what stands in it.
SCHEMA_VERSION = 4


def create(connection: sqlite3.Connection, slots: int) -> None:
    """The tables, in a transaction that somebody else began."""
    schema = resources.files(__package__).joinpath("sqlite_schema.sql").read_text("utf-8")
    for statement in schema.split(";\n"):
        connection.execute(statement)
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)", [("slots", slots), ("clock_offset", time.time() - time.monotonic())]
    )
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def check_identity(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is empty; raises UsageError if it is neither that nor ours."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not tables and not application:
        return True
    if (application, version) != (APPLICATION_ID, SCHEMA_VERSION):
        raise UsageError(
            f"{path} is not a frontier of this version of Gossamer: give another data directory,"
            " or resume with the version that made it"
        )
    return False


def check_slots(connection: sqlite3.Connection, path: Path, slots: int) -> None:
    (made_with,) = connection.execute("SELECT value FROM meta WHERE name = 'slots'").fetchone()
    if made_with != slots:
        raise UsageError(
            f"the frontier in {path} was created with {counted(made_with, 'slot')}, not {slots}:"
            " the number is fixed when a crawl is created"
        )


def gone(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"the frontier in {path} is gone: it was made before, so something has removed it; bring it back"
        " from a backup, or start a new crawl"
    )
