"""What is known of one URL or of some sites in PostgreSQL, in transactions that only read."""

from collections.abc import Collection

from gossamer.frontier.store import SiteState
from gossamer.frontier.stores.entries import signed
from gossamer.frontier.stores.postgres_pool import Connection
from gossamer.frontier.stores.postgres_sites import site_key
from gossamer.frontier.stores.postgres_statements import literal, statement
from gossamer.frontier.stores.searching import BLOCKS_AT_ONCE, FirstLook, Look, Piece, site_state
from gossamer.records import Candidate


async def site_states(connection: Connection, names: Collection[str]) -> dict[str, SiteState]:
    rows = await connection.fetch(statement("look_sites"), [site_key(name) for name in names])
    states = (site_state(name.decode(), columns) for name, *columns in rows)
    return {state.name: state for state in states if state.name in names}


async def look(connection: Connection, candidate: Candidate) -> FirstLook:
    """All of one moment."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        rows = await connection.fetch(statement("look_sites"), [site_key(candidate.site)])
        if not rows:
            return FirstLook(Look(site=None), 0, 0, Piece([]))
        *_, key, head, head_offset = rows[0]
        seen = await connection.fetch(statement("find_seen"), literal([key]), literal([signed(candidate.fingerprint)]))
        path = signed(candidate.path_fingerprint)
        variants = await connection.fetch(statement("find_variants"), literal([key]), literal([path]))
        held = await connection.fetchrow(statement("look_held"), key, candidate.fingerprint.to_bytes(8, "little"))
        number, segment, entry = held or (0, None, b"")
        known = Look(
            site=site_state(candidate.site, rows[0][1:]),
            is_seen=bool(seen),
            variants=variants[0]["number"] if variants and candidate.path_fingerprint else 0,
            number=number,
            segment=segment,
            entry=entry,
        )
        first = await piece(connection, key, head - 1) if known.may_be_queued else Piece([])
        return FirstLook(known, key, head_offset, first)


async def piece(connection: Connection, key: int, after: int) -> Piece:
    """What comes behind a place of a site's queue. Blocks keep their places as long as they have URLs."""
    return Piece(await connection.fetch(statement("look_blocks"), key, after, BLOCKS_AT_ONCE))
