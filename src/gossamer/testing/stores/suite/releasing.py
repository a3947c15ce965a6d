"""What a release does to a site: its clock, its next lease, and the end of one that is given up."""

from gossamer.records import Destination, Reason, SiteClock
from gossamer.testing.stores.suite.trial import DELAY, MOMENT, Trial, link, urls


async def test_a_release_frees_the_site_and_leaves_the_url_leased(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own()
    first = await trial.lease_one()
    assert (await trial.counts()).sites_busy == 1
    await trial.release(first)
    counts = await trial.counts()
    assert (counts.sites_busy, counts.leased, counts.queued) == (0, 1, 1)
    second = await trial.lease_one(at=2 * DELAY)
    assert (await trial.counts()).leased == 2
    assert await trial.spool(first, second) == set()


async def test_nothing_moves_not_before_earlier(trial: Trial) -> None:
    await trial.admit(*(link("a.example", path) for path in "1234"))
    await trial.own()
    first = await trial.lease_one()
    await trial.release(first, not_before=500)
    # Late or repeated calls with the same lease, a link, an owner that comes and goes, a spooled and a returned URL.
    await trial.release(first, not_before=0)
    await trial.release(first, not_before=0, requested=False)
    await trial.admit(link("a.example", "5", at_head=True, is_seed=True))
    await trial.spool(first, to=Destination.HEAD, reason=Reason.BUSY)
    await trial.store.disown("fetcher")
    await trial.own("other", at=1, delay=0)
    await trial.store.begin_run(latest_not_before_seconds=1000)
    await trial.reopen()
    assert await trial.lease(at=500 - MOMENT) == []
    assert len(await trial.lease(at=500 + MOMENT)) == 1


async def test_a_lease_without_a_request_leaves_the_clock_where_it_stood(trial: Trial) -> None:
    await trial.admit(*(link("a.example", path) for path in "1234"))
    await trial.own()
    await trial.release(await trial.lease_one(at=0), requested=False)
    lease = await trial.lease_one(at=MOMENT)
    await trial.release(lease, not_before=30)
    lease = await trial.lease_one(at=40)
    await trial.release(lease, requested=False, not_before=-1000)
    assert len(await trial.lease(at=40)) == 1


async def test_a_lease_without_a_request_can_still_be_held_until_a_later_time(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own()
    await trial.release(await trial.lease_one(), requested=False, not_before=5)
    assert await trial.lease(at=5 - MOMENT) == []
    assert len(await trial.lease(at=5 + MOMENT)) == 1


async def test_the_clock_of_a_release_comes_with_the_next_lease(trial: Trial) -> None:
    await trial.admit(*(link("a.example", path) for path in "123"))
    await trial.own()
    clock = SiteClock(last_request_at=trial.at(3.25), crawl_delay_seconds=2.5, failures=4)
    await trial.release(await trial.lease_one(), clock=clock)
    await trial.reopen()
    lease = await trial.lease_one(at=20)
    assert lease.clock == clock
    robots_only = SiteClock(last_request_at=trial.at(3.25), crawl_delay_seconds=7.0, failures=0)
    await trial.release(lease, clock=robots_only, requested=False)
    assert (await trial.lease_one(at=20)).clock == robots_only


async def test_a_retried_release_is_harmless(trial: Trial) -> None:
    """It must not free the site for a third holder once the next lease is out."""
    await trial.admit(*(link("a.example", path) for path in "123"))
    await trial.own()
    first = await trial.lease_one()
    await trial.release(first)
    await trial.release(first)
    second = await trial.lease_one(at=DELAY + MOMENT)
    await trial.release(first, not_before=9000, dropped=Reason.SITE_FAILING, clock=SiteClock(failures=9))
    assert await trial.lease(at=5000) == []
    await trial.release(second)
    third = await trial.lease_one(at=5000)
    assert (urls([third]), third.clock.failures) == (["https://a.example/3"], 0)


async def test_a_release_works_whether_the_url_was_spooled_before_or_after(trial: Trial) -> None:
    await trial.admit(*(link(site, path) for site in ("a.example", "b.example") for path in "12"))
    await trial.own()
    early, late = await trial.lease()
    await trial.spool(early)
    await trial.release(early, late)
    await trial.spool(late)
    assert len(await trial.lease(at=2 * DELAY)) == 2


async def test_a_url_that_went_back_is_not_leased_until_its_site_is_released(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own()
    lease = await trial.lease_one()
    await trial.spool(lease, to=Destination.HEAD, reason=Reason.STOPPED)
    assert await trial.lease(at=100) == []
    await trial.release(lease)
    assert len(await trial.lease(at=100)) == 1


async def test_what_a_dropped_site_has_queued_is_finished_at_once(trial: Trial) -> None:
    await trial.admit(*(link("a.example", str(number)) for number in range(100)), link("b.example", "1"))
    await trial.own()
    lease = next(lease for lease in await trial.lease() if lease.site == "a.example")
    await trial.release(lease, dropped=Reason.CRAWL_DELAY)
    counts = await trial.counts()
    assert counts.outcomes == {Reason.CRAWL_DELAY: 99}
    assert (counts.finished, counts.queued, counts.leased) == (99, 0, 2)
    # What was leased keeps its own way.
    await trial.spool(lease)
    await trial.finish(lease)
    assert (await trial.counts()).pages == 1


async def test_a_retried_drop_finishes_nothing_twice(trial: Trial) -> None:
    await trial.admit(*(link("a.example", path) for path in "123"))
    await trial.own()
    lease = await trial.lease_one()
    for _ in range(2):
        await trial.release(lease, dropped=Reason.SITE_FAILING)
    assert (await trial.counts()).outcomes == {Reason.SITE_FAILING: 2}


async def test_what_would_go_back_to_a_dropped_site_is_finished(trial: Trial) -> None:
    """By every way back: retries, a dead holder, a lost segment. The crawl could never end otherwise."""
    await trial.admit(*(link("a.example", path) for path in "123456"))
    await trial.own()
    leases = []
    for turn in range(5):
        leases.append(await trial.lease_one(at=turn * 100))
        await trial.release(leases[-1], dropped=Reason.SITE_FAILING if turn == 4 else None)
    assert (await trial.counts()).outcomes == {Reason.SITE_FAILING: 1}
    await trial.spool(leases[0], to=Destination.HEAD, reason=Reason.BUSY)
    await trial.spool(leases[1], to=Destination.TAIL, reason=Reason.DNS)
    await trial.spool(leases[2], segment="lost")
    await trial.spool(leases[3], segment="kept")
    await trial.store.unspool("lost")
    await trial.store.disown("fetcher")
    await trial.own(at=500)
    counts = await trial.counts()
    assert counts.outcomes == {Reason.SITE_FAILING: 5}
    assert (counts.queued, counts.leased, counts.spooled) == (0, 0, 1)
