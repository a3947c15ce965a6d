"""What is put right after a death: of one process while the others run, or of a whole run before anything starts.

The order matters. A commit that counts is brought to its end first, because its segments must not come back; only then
do claimed segments go back to `ready`. Open segments are settled when the slots under which they were written are free.
"""

import contextlib
import logging

from gossamer.run.data_directory import DataDirectory
from gossamer.run.orders import Orders
from gossamer.run.wiring import Workshop
from gossamer.sinks.commit import recover
from gossamer.spool.directory import SpoolDirectory, segments_in
from gossamer.spool.recovery import Recovered, recover_lost, recover_open, recover_ready, return_claimed
from gossamer.spool.suspects import Suspects
from gossamer.units import counted

log = logging.getLogger("gossamer.run")


async def mend_all(data: DataDirectory, workshop: Workshop) -> None:
    """Called by the leader while it is alone."""
    store, spool = workshop.store, workshop.spool
    spool.create()
    last = data.processes()
    for owner in () if last is None else last.owners:
        await store.disown(owner)
    await recover(data.root, store)
    return_claimed(spool)
    # What the dead were at; one that dies before it has made its own note must not be blamed by it.
    for note in spool.claimed.glob("*.note"):
        note.unlink(missing_ok=True)
    _say_damaged(await recover_open(spool, store))
    with contextlib.closing(Suspects(spool.root)) as suspects:
        suspects.refresh()
        forgotten = await recover_ready(spool, store, suspects=suspects)
        lost = await recover_lost(spool, store)
        _keep_suspects(spool, suspects)
    if forgotten:
        log.warning("the store has forgotten %d segments; what was in them is fetched again", forgotten)
    if lost:
        log.warning("%s missing from the spool; what was in it is fetched again", counted(len(lost), "segment"))


def _say_damaged(recovered: Recovered) -> None:
    if recovered.damaged:
        log.warning("%d open segments are damaged and in quarantine; their URLs are fetched again", recovered.damaged)


def _keep_suspects(spool: SpoolDirectory, suspects: Suspects) -> None:
    """What is known of segments that are gone is of no use any more."""
    names = [*segments_in(spool.open), *segments_in(spool.ready)]
    try:
        suspects.remove_all_but({name.id for name in names})
    except OSError as error:
        log.warning("what is known of segments that are gone cannot be removed: %s", error)


async def mend_after(data: DataDirectory, workshop: Workshop, dead: Orders) -> None:
    """Called by the supervisor when one process has died and the others run on."""
    store, spool = workshop.store, workshop.spool
    if dead.kind == "fetcher":
        await store.disown(dead.owner)
        _say_damaged(await recover_open(spool, store, fetcher=dead.index))
    else:
        await recover(data.root, store, parser=dead.name)
        return_claimed(spool, dead.name)
