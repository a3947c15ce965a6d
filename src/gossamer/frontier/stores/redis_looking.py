"""What is known of one URL or of some sites on a Redis server, without changing anything there.

What is held, and the first `ITEMS` of the queue, are read by one script. The rest of a long queue is read by plain
commands, each for so many items more: a server that serves a crawl does nothing else while it runs a script.
"""

from collections.abc import Collection, Sequence

from gossamer.frontier.slots import slot_of
from gossamer.frontier.store import Sighting, SiteState
from gossamer.frontier.stores import redis_codec as codec
from gossamer.frontier.stores.entries import signed
from gossamer.frontier.stores.redis_keys import key_in_slot
from gossamer.frontier.stores.redis_queues import Queues
from gossamer.frontier.stores.redis_server import RedisServer
from gossamer.frontier.stores.searching import Look, Search
from gossamer.records import Candidate

#: Items of a queue that are read at once, up to 2 KB each, in a millisecond. Nearly all queues are shorter: of a long
#: one all but some thousands of URLs are in blocks, a thousand of them behind each item.
ITEMS = 2_000
#: Items before these that are read again, to find the place again in a queue from which others take meanwhile.
OVERLAP = 200
#: Of a queue that changes so much that the place is not found again.
ATTEMPTS = 5
#: Sites of one call.
SITES = 500


class RedisLooking:
    """Part of the store."""

    def __init__(self, server: RedisServer, headers: Sequence[bytes], queues: Queues) -> None:
        self._server = server
        self._headers = headers
        self._queues = queues

    async def site_states(self, sites: Collection[str]) -> dict[str, SiteState]:
        names = list(dict.fromkeys(sites))
        states: dict[str, SiteState] = {}
        for begin in range(0, len(names), SITES):
            by_slot: dict[int, list[str]] = {}
            for name in names[begin : begin + SITES]:
                by_slot.setdefault(slot_of(name, len(self._headers)), []).append(name)
            answers = await self._server.run(
                "site_states",
                "site_states",
                [self._headers[slot] for slot in by_slot],
                codec.encode([*by_slot.values()]),
            )
            for (slot, of_slot), (*owner, records) in zip(by_slot.items(), answers, strict=True):
                for name, record in zip(of_slot, records, strict=True):
                    if record is not None:
                        states[name] = codec.state_of(name, slot, record, codec.Owner(*owner))
        return states

    async def find(self, candidate: Candidate) -> Sighting:
        slot = slot_of(candidate.site, len(self._headers))
        search, items, offset = await self._look(candidate, slot)
        for _ in range(ATTEMPTS):
            if not search.may_be_queued or await self._go_through(search, candidate.site, slot, items, offset):
                return search.sighting()
            search, items, offset = await self._look(candidate, slot)
        return search.unsettled() if search.may_be_queued else search.sighting()

    async def _look(self, candidate: Candidate, slot: int) -> tuple[Search, list[bytes], int]:
        path = str(signed(candidate.path_fingerprint)) if candidate.path_fingerprint else ""
        *owner, record, is_seen, variants, number, segment, entry, items = await self._server.run(
            "find",
            "find",
            [self._headers[slot]],
            candidate.site.encode(),
            candidate.fingerprint.to_bytes(8, "little"),
            str(signed(candidate.fingerprint)).encode(),
            path.encode(),
            b"%d" % ITEMS,
        )
        look = Look(
            site=codec.state_of(candidate.site, slot, record, codec.Owner(*owner)) if record else None,
            is_seen=bool(is_seen),
            variants=variants,
            number=number,
            segment=segment.decode() or None,
            entry=entry,
        )
        return Search(candidate, look), items, codec.offset_of(record) if record else 0

    async def _go_through(self, search: Search, site: str, slot: int, items: list[bytes], offset: int) -> bool:
        """Whether all of the queue was read, or enough of it."""
        end = len(items)
        is_end = end < ITEMS
        while True:
            for item in items:
                block = codec.block_of(item)
                entries = item if block is None else await self._queues.read(slot, site, block)
                if entries is None:
                    return False
                if search.go_through(entries, offset):
                    return True
                offset = 0
            if is_end:
                return True
            # Some before these may have been taken since, or put there: so the last of them is looked for.
            begin = max(0, end - OVERLAP)
            read = await self._items(slot, site, begin, OVERLAP + ITEMS)
            if items[-1] not in read[:-1]:
                return read[-1:] == items[-1:] and len(read) < OVERLAP + ITEMS
            is_end = len(read) < OVERLAP + ITEMS
            end = begin + len(read)
            items = read[read.index(items[-1]) + 1 :]

    async def _items(self, slot: int, site: str, begin: int, count: int) -> list[bytes]:
        key = key_in_slot(self._server.crawl, slot, b"q:" + site.encode())
        return list(await self._server.ask("find", b"LRANGE", key, b"%d" % begin, b"%d" % (begin + count - 1)))
