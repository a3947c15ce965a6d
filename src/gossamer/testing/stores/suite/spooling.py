"""From the lease to the end: spooled once, back into the queue, finished, or lost with its segment."""

from gossamer.records import Destination, Move, Reason
from gossamer.testing.stores.suite.trial import DELAY, Trial, link, urls


async def test_a_leased_url_is_spooled_once(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own()
    lease = await trial.lease_one()
    assert await trial.spool(lease, segment="first") == set()
    assert await trial.spool(lease, segment="second") == {lease.number}
    assert await trial.spool(lease, segment="second", to=Destination.TAIL, reason=Reason.DNS) == {lease.number}
    assert await trial.store.segments() == {"first": 1}
    assert await trial.store.spooled("first") == {lease.number}
    assert await trial.store.spooled("second") == set()


async def test_a_retried_spool_is_not_refused_and_changes_nothing(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example") for number in range(4)))
    await trial.own()
    leases = await trial.lease()
    await trial.release(*leases)
    destinations = (Destination.PAGE, Destination.OUTCOME, Destination.TAIL, Destination.HEAD)
    moves = [Move(lease, to, Reason.DNS) for lease, to in zip(leases, destinations, strict=True)]
    assert await trial.store.spool("segment", moves) == set()
    before = await trial.counts()
    again = await trial.store.spool("segment", moves)
    # What went back may be refused the second time: nothing of it is in the segment.
    assert not again & {lease.number for lease in leases[:2]}
    assert await trial.counts() == before


async def test_a_retried_return_does_not_touch_the_next_lease_of_the_same_url(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own()
    old = await trial.lease_one()
    await trial.release(old)
    await trial.spool(old, to=Destination.TAIL, reason=Reason.RESET)
    new = await trial.lease_one(at=100)
    await trial.spool(old, to=Destination.TAIL, reason=Reason.RESET)
    await trial.spool(old)
    assert (await trial.counts()).leased == 1
    assert await trial.spool(new) == set()


async def test_the_tail_is_behind_everything_and_one_attempt_more(trial: Trial) -> None:
    await trial.admit(*(link("a.example", path) for path in "123"))
    await trial.own()
    first = await trial.lease_one()
    await trial.release(first)
    await trial.spool(first, to=Destination.TAIL, reason=Reason.TIMEOUT)
    await trial.admit(link("a.example", "4"))
    drained = await trial.drain_queue(at=100)
    assert [(lease.url[-1], lease.attempt, lease.returned) for lease in drained] == [
        ("2", 0, 0),
        ("3", 0, 0),
        ("1", 1, 0),
        ("4", 0, 0),
    ]


async def test_later_is_behind_everything_and_costs_no_attempt(trial: Trial) -> None:
    await trial.admit(*(link("a.example", path) for path in "123"))
    await trial.own()
    first = await trial.lease_one()
    await trial.release(first, requested=False)
    await trial.spool(first, to=Destination.LATER, reason=Reason.ORIGIN_HELD)
    await trial.admit(link("a.example", "4"))
    assert (await trial.counts()).retries == {Reason.ORIGIN_HELD: 1}
    drained = await trial.drain_queue(at=100)
    assert [(lease.url[-1], lease.attempt, lease.returned) for lease in drained] == [
        ("2", 0, 0),
        ("3", 0, 0),
        ("1", 0, 0),
        ("4", 0, 0),
    ]


async def test_the_head_is_where_it_was_taken_from_as_it_was(trial: Trial) -> None:
    await trial.admit(link("a.example", "1", depth=5, hops=2, is_seed=True), link("a.example", "2"))
    await trial.own()
    first = await trial.lease_one()
    await trial.release(first)
    await trial.spool(first, to=Destination.HEAD, reason=Reason.BUSY)
    again = await trial.lease_one(at=100)
    assert again.number != first.number
    for name in ("url", "site", "slot", "fingerprint", "depth", "hops", "is_seed", "attempt", "returned"):
        assert getattr(again, name) == getattr(first, name), name


async def test_attempts_add_up_and_survive_every_way_back(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own()
    at = 0.0
    for to in (Destination.TAIL, Destination.TAIL, Destination.HEAD, Destination.LATER, Destination.TAIL):
        lease = await trial.lease_one(at=at)
        await trial.release(lease)
        await trial.spool(lease, to=to, reason=Reason.CONNECT)
        at += 100
    lease = await trial.lease_one(at=at)
    assert (lease.attempt, lease.returned) == (3, 0)
    await trial.release(lease)
    await trial.store.disown("fetcher")
    await trial.own(at=at)
    lease = await trial.lease_one(at=at + 100)
    assert (lease.attempt, lease.returned) == (3, 1)
    await trial.release(lease)
    await trial.spool(lease, segment="lost")
    await trial.store.unspool("lost")
    lease = await trial.lease_one(at=at + 200)
    assert (lease.attempt, lease.returned) == (3, 2)


async def test_what_went_back_is_counted_by_its_reason(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example") for number in range(5)))
    await trial.own()
    leases = await trial.lease()
    await trial.release(*leases)
    await trial.spool(*leases[:2], to=Destination.TAIL, reason=Reason.DNS)
    await trial.spool(leases[2], to=Destination.HEAD, reason=Reason.BUSY)
    await trial.spool(*leases[3:])
    counts = await trial.counts()
    assert counts.retries == {Reason.DNS: 2, Reason.BUSY: 1}
    assert (counts.queued, counts.finished) == (3, 0)


async def test_spooling_touches_no_clock(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own()
    lease = await trial.lease_one()
    await trial.release(lease, not_before=50)
    await trial.spool(lease)
    await trial.finish(lease)
    assert await trial.lease(at=49) == []
    assert len(await trial.lease(at=51)) == 1


async def test_segments_are_known_with_what_is_in_them(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example") for number in range(6)))
    await trial.own()
    leases = await trial.lease()
    await trial.spool(*leases[:1], segment="00001-000-00000001")
    await trial.spool(*leases[1:3], segment="00001-000-00000002", to=Destination.OUTCOME)
    await trial.spool(*leases[3:5], segment="00001-000-00000002")
    await trial.spool(leases[5], segment="00001-000-00000003", to=Destination.TAIL, reason=Reason.DNS)
    await trial.reopen()
    assert await trial.store.segments() == {"00001-000-00000001": 1, "00001-000-00000002": 4}
    assert await trial.store.spooled("00001-000-00000002") == {lease.number for lease in leases[1:5]}
    await trial.finish(leases[0], segment="00001-000-00000001")
    assert await trial.store.segments() == {"00001-000-00000002": 4}


async def test_what_is_finished_is_counted_with_its_reason_and_its_bytes(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example") for number in range(4)))
    await trial.own()
    leases = await trial.lease()
    await trial.spool(*leases[:2])
    await trial.spool(*leases[2:], to=Destination.OUTCOME, reason=Reason.STATUS)
    await trial.finish(*leases[:2], received_bytes=3_000_000_000)
    await trial.finish(leases[2], reason=Reason.STATUS, received_bytes=5)
    counts = await trial.counts()
    assert counts.outcomes == {Reason.PAGE: 2, Reason.STATUS: 1}
    assert (counts.pages, counts.finished, counts.spooled) == (2, 3, 1)
    assert counts.received_bytes == 6_000_000_005


async def test_a_retried_finish_counts_once(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own()
    lease = await trial.lease_one()
    await trial.spool(lease)
    await trial.finish(lease, lease)
    before = await trial.counts()
    await trial.finish(lease)
    assert await trial.counts() == before
    assert (before.pages, before.received_bytes) == (1, 100)


async def test_only_what_is_in_the_segment_is_finished(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("b.example", "1"))
    await trial.own()
    spooled, leased = await trial.lease()
    await trial.spool(spooled, segment="right")
    await trial.finish(spooled, segment="wrong")
    await trial.finish(leased, segment="right")
    counts = await trial.counts()
    assert (counts.finished, counts.leased, counts.spooled) == (0, 1, 1)


async def test_a_finished_url_is_not_spooled_again(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own()
    lease = await trial.lease_one()
    await trial.work_off(lease)
    await trial.spool(lease, segment="other")
    await trial.spool(lease, segment="other", to=Destination.HEAD, reason=Reason.STOPPED)
    counts = await trial.counts()
    assert (counts.finished, counts.queued, counts.spooled) == (1, 0, 0)


async def test_a_lost_segment_sends_its_urls_back_to_the_head(trial: Trial) -> None:
    await trial.admit(*(link(site, path) for site in ("a.example", "b.example") for path in "123"))
    await trial.own()
    leases = await trial.lease()
    await trial.release(*leases)
    await trial.spool(*leases, segment="lost")
    await trial.store.unspool("lost")
    assert await trial.store.segments() == {}
    counts = await trial.counts()
    assert (counts.queued, counts.spooled) == (6, 0)
    again = await trial.lease(at=2 * DELAY)
    assert sorted(urls(again)) == ["https://a.example/1", "https://b.example/1"]


async def test_every_lost_segment_is_noted_on_the_url(trial: Trial) -> None:
    """So that a page that makes every segment unreadable is not fetched for ever."""
    await trial.admit(link("a.example", "1"))
    await trial.own()
    for times in range(4):
        lease = await trial.lease_one(at=100 * times)
        assert (lease.attempt, lease.returned) == (0, times)
        await trial.release(lease)
        await trial.spool(lease, segment=f"lost {times}")
        await trial.store.unspool(f"lost {times}")


async def test_two_urls_of_one_site_come_back_from_a_lost_segment(trial: Trial) -> None:
    await trial.admit(*(link("a.example", path) for path in "1234"))
    await trial.own()
    for turn in range(2):
        lease = await trial.lease_one(at=turn * 100)
        await trial.release(lease)
        await trial.spool(lease, segment="lost")
    await trial.store.unspool("lost")
    drained = urls(await trial.drain_queue(at=1000))
    assert sorted(drained[:2]) == ["https://a.example/1", "https://a.example/2"]
    assert drained[2:] == ["https://a.example/3", "https://a.example/4"]


async def test_a_retried_unspool_is_harmless_and_an_unknown_segment_is_nothing(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own()
    lease = await trial.lease_one()
    await trial.release(lease)
    await trial.spool(lease, segment="lost")
    await trial.store.unspool("unknown")
    assert (await trial.counts()).spooled == 1
    await trial.store.unspool("lost")
    await trial.store.unspool("lost")
    await trial.finish(lease, segment="lost")
    counts = await trial.counts()
    assert (counts.queued, counts.finished) == (1, 0)


async def test_a_lost_segment_leaves_the_clock_alone(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own()
    lease = await trial.lease_one()
    await trial.release(lease, not_before=50)
    await trial.spool(lease, segment="lost")
    await trial.store.unspool("lost")
    assert await trial.lease(at=49) == []
    assert len(await trial.lease(at=51)) == 1
