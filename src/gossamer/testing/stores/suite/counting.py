"""What is told about the whole: counts, runs, the clock, and the copies of robots.txt."""

from gossamer.records import Destination, Reason, RobotsCopy
from gossamer.testing.stores.suite.trial import DELAY, MOMENT, Trial, link


async def test_an_empty_frontier_counts_nothing(trial: Trial) -> None:
    counts = await trial.counts()
    assert (counts.admitted, counts.finished, counts.sites, counts.outcomes, counts.retries) == (0, 0, 0, {}, {})


async def test_counts_follow_a_url_through_its_states(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))

    async def states() -> tuple[int, int, int, int]:
        counts = await trial.counts()
        return counts.queued, counts.leased, counts.spooled, counts.finished

    assert await states() == (1, 0, 0, 0)
    await trial.own()
    lease = await trial.lease_one()
    assert await states() == (0, 1, 0, 0)
    await trial.release(lease)
    assert await states() == (0, 1, 0, 0)
    await trial.spool(lease)
    assert await states() == (0, 0, 1, 0)
    await trial.finish(lease)
    assert await states() == (0, 0, 0, 1)


async def test_sites_are_busy_waiting_or_ready(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example", path) for number in range(4) for path in "12"))
    await trial.admit(link("single.example"))
    await trial.own()

    async def sites(at: float) -> tuple[int, int, int, int]:
        counts = await trial.counts(at=at)
        return counts.sites, counts.sites_busy, counts.sites_waiting, counts.sites_ready

    assert await sites(0) == (5, 0, 5, 5)
    leases = await trial.lease()
    assert await sites(100) == (5, 5, 0, 0)
    await trial.release(*leases, not_before=50)
    assert await sites(50 - MOMENT) == (5, 0, 4, 0)
    assert await sites(50 + MOMENT) == (5, 0, 4, 4)


async def test_no_site_ready_is_not_finished(trial: Trial) -> None:
    """A crawl that stops when nothing is ready loses what is cooling, leased or spooled."""
    await trial.admit(link("a.example", "1"))
    await trial.own()
    lease = await trial.lease_one()
    for step in (trial.release, trial.spool):
        counts = await trial.counts(at=1000)
        assert (counts.sites_ready, counts.sites_waiting) == (0, 0)
        assert counts.finished < counts.admitted
        await step(lease)
    counts = await trial.counts(at=1000)
    assert counts.finished < counts.admitted
    # Its links come before its end.
    await trial.admit(link("a.example", "2"))
    await trial.finish(lease)
    counts = await trial.counts(at=DELAY / 2)
    assert (counts.sites_ready, counts.finished, counts.admitted) == (0, 1, 2)


async def test_refused_candidates_are_not_counted_as_admitted(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "1"))
    await trial.admit(link("a.example", "1"))
    assert (await trial.counts()).admitted == 1


async def test_runs_are_numbered_from_one(trial: Trial) -> None:
    """The trial began the first."""
    assert await trial.store.begin_run(latest_not_before_seconds=60) == 2
    await trial.reopen()
    assert await trial.store.begin_run(latest_not_before_seconds=60) == 3


async def test_an_absurdly_far_not_before_is_clamped_on_resume(trial: Trial) -> None:
    await trial.admit(*(link(site, path) for site in ("far.example", "near.example") for path in "12"))
    await trial.own()
    for lease in await trial.lease():
        await trial.release(lease, not_before=1e9 if lease.site == "far.example" else 40)
    await trial.reopen()
    await trial.store.begin_run(latest_not_before_seconds=1000)
    assert await trial.lease(at=40 - MOMENT) == []
    assert [lease.site for lease in await trial.lease(at=40 + MOMENT)] == ["near.example"]
    assert await trial.lease(at=1000 - MOMENT) == []
    # The run began a little later than the trial, by what the check itself took.
    assert [lease.site for lease in await trial.lease(at=1000 + 300)] == ["far.example"]


async def test_politeness_clocks_survive_a_restart(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own()
    await trial.release(await trial.lease_one(), not_before=50)
    await trial.reopen()
    await trial.store.begin_run(latest_not_before_seconds=1000)
    await trial.own()
    assert await trial.lease(at=50 - MOMENT) == []
    assert len(await trial.lease(at=50 + MOMENT)) == 1


async def test_time_is_an_argument(trial: Trial) -> None:
    """No verb looks at a clock of its own: the same frontier answers for any moment, in any order."""
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own(at=1e6)
    await trial.release(await trial.lease_one(at=1e6), not_before=1e6 + 50)
    assert await trial.lease(at=0) == []
    assert await trial.lease(at=1e6 + 49) == []
    assert (await trial.counts(at=1e6 + 51)).sites_ready == 1
    assert (await trial.counts(at=0)).sites_ready == 0
    assert len(await trial.lease(at=1e6 + 51)) == 1


async def test_the_clock_of_the_store_never_goes_back(trial: Trial) -> None:
    last = trial.at(0)
    for _ in range(3):
        other = await trial.another()
        for store in (trial.store, other, trial.store):
            now = await store.now()
            assert now >= last - MOMENT
            last = max(last, now)
        await trial.reopen()
        await trial.store.begin_run(latest_not_before_seconds=60)
    assert last < trial.at(300)


async def test_what_was_acknowledged_survives_a_restart(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example", path) for number in range(5) for path in "12"))
    epochs = await trial.own()
    leases = await trial.lease()
    await trial.release(*leases)
    await trial.spool(leases[0], leases[1])
    await trial.spool(leases[2], to=Destination.TAIL, reason=Reason.DNS)
    await trial.finish(leases[0])
    before = await trial.counts()
    await trial.reopen()
    assert await trial.counts() == before
    assert await trial.own() == epochs
    assert await trial.spool(*leases[3:]) == set()
    await trial.finish(*leases[1:2], *leases[3:])
    assert (await trial.counts()).finished == 4


async def test_a_copy_of_robots_txt_comes_back_as_it_was_saved(trial: Trial) -> None:
    full = RobotsCopy(
        origin="https://a.example:8443",
        access="parsed",
        body=bytes(range(256)) * 2000,
        fetched_at=trial.at(1.5),
        expires_at=trial.at(86400.25),
        failures=3,
    )
    bare = RobotsCopy(origin="http://[2001:db8::1]", access="unavailable")
    await trial.store.save_robots([full, bare])
    await trial.reopen()
    asked = [full.origin, bare.origin, "https://unknown.example", "*"]
    assert await trial.store.load_robots(asked) == {full.origin: full, bare.origin: bare}
    assert await trial.store.load_robots([bare.origin]) == {bare.origin: bare}


async def test_a_newer_copy_of_robots_txt_replaces_the_one_before(trial: Trial) -> None:
    origin = "https://a.example"
    copies = [
        RobotsCopy(origin=origin, access="parsed", body=b"old", failures=1),
        RobotsCopy(origin=origin, access="x"),
    ]
    for copy in copies:
        for _ in range(2):
            await trial.store.save_robots([copy])
        assert await trial.store.load_robots({origin}) == {origin: copy}
