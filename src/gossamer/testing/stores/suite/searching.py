"""Where a URL was found, is, and how it is found again; what is known of its site."""

import asyncio

from msgspec.structs import replace

from gossamer.frontier.slots import slot_of
from gossamer.frontier.store import LONGEST_VIA, AdmitLimits, SiteState, UrlState
from gossamer.records import Candidate, Destination, Lease, Reason, SiteClock
from gossamer.testing.stores.suite.trial import DELAY, NO_LIMITS, SLOTS, Trial, link
from gossamer.url import stable_hash

#: Pages that link to https://a.example/one, and one that does not.
VIAS = (
    "",
    "https://a.example/",
    "https://a.example/one",
    "https://a.example/one/and/more",
    "https://a.example/on",
    "https://a.example",
    "http://a.example/one",
    "https://b.example/one?two=|three#\0\n'\"",
    "https://a.example/öné/\U0001f578",
    "h",
    "世",
    "\0",
    "https://a.example/" + "x" * (LONGEST_VIA - 18),
    "https://b.example/" + "世" * (LONGEST_VIA - 18),
)
#: More than a block of any store has, and more than the memory of Redis keeps of a queue under test.
MANY = 120


def found_on(via: str, path: str, site: str = "a.example") -> Candidate:
    return replace(link(site, path), via=via)


def vias(leases: list[Lease]) -> dict[str, str]:
    return {lease.url: lease.via for lease in leases}


async def test_where_a_url_was_found_stays_with_it_until_it_is_leased(trial: Trial) -> None:
    candidates = [found_on(via, f"one{'é' * number}") for number, via in enumerate(VIAS)]
    await trial.admit(*candidates)
    await trial.reopen()
    await trial.own()
    expected = {candidate.url: candidate.via for candidate in candidates}
    assert vias(await trial.drain_queue(at=0)) == expected


async def test_where_a_long_url_was_found_stays_with_it(trial: Trial) -> None:
    """Also where they have more in common than a byte can count."""
    long = "x" * 400
    candidates = [
        found_on("https://a.example/" + long[:number], long + str(number)) for number in (0, 230, 237, 238, 239, 400)
    ]
    await trial.admit(*candidates)
    await trial.own()
    assert vias(await trial.drain_queue(at=0)) == {candidate.url: candidate.via for candidate in candidates}


async def test_a_page_with_a_very_long_url_is_not_kept_as_the_place_where_a_url_was_found(trial: Trial) -> None:
    await trial.admit(
        found_on("https://a.example/" + "x" * (LONGEST_VIA - 17), "1"), found_on("https://b.example/", "2")
    )
    await trial.own()
    assert list(vias(await trial.drain_queue(at=0)).values()) == ["", "https://b.example/"]


async def test_where_a_url_was_found_stays_with_it_when_it_goes_back(trial: Trial) -> None:
    """To the tail and to the head, because its holder died, and because its segment was lost."""
    offered = [found_on(via, "one", f"{number}.example") for number, via in enumerate(VIAS)]
    expected = {candidate.url: candidate.via for candidate in offered}
    await trial.admit(*offered)
    await trial.own()
    at = 0.0
    for destination in (Destination.TAIL, Destination.LATER, Destination.HEAD):
        leases = await trial.lease(at=at)
        assert vias(leases) == expected
        await trial.release(*leases)
        await trial.spool(*leases, to=destination, reason=Reason.DNS)
        at += 2 * DELAY
    leases = await trial.lease(at=at)
    assert vias(leases) == expected
    await trial.store.disown("fetcher")
    await trial.own("heir", at=at)
    leases = await trial.lease(at=at + 2 * DELAY)
    assert vias(leases) == expected
    await trial.release(*leases)
    await trial.spool(*leases)
    await trial.store.unspool("segment")
    leases = await trial.lease(at=at + 4 * DELAY)
    assert vias(leases) == expected
    assert {(lease.attempt, lease.returned) for lease in leases} == {(1, 2)}


async def test_where_urls_were_found_is_kept_in_a_long_queue(trial: Trial) -> None:
    await trial.own()
    offered = [found_on(VIAS[number % len(VIAS)], f"one{number}") for number in range(MANY)]
    await trial.admit(*offered)
    # Some stores move what is long elsewhere, after this.
    await trial.own(at=1)
    assert [(lease.url, lease.via) for lease in await trial.drain_queue(at=DELAY, step=1000)] == [
        (candidate.url, candidate.via) for candidate in offered
    ]


async def test_a_url_that_was_never_admitted_is_unseen(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    other = await trial.store.find(link("a.example", "2"))
    assert (other.state, other.ahead, other.lease, other.segment) == (UrlState.UNSEEN, None, None, "")
    assert other.site is not None
    assert (other.site.name, other.site.queued) == ("a.example", 1)
    unknown = await trial.store.find(link("b.example", "1"))
    assert (unknown.state, unknown.site, unknown.path_variants) == (UrlState.UNSEEN, None, 0)


async def test_what_was_refused_is_unseen(trial: Trial) -> None:
    limits = AdmitLimits(site_queue=1)
    assert await trial.admit(link("a.example", "1"), link("a.example", "2"), limits=limits) == [
        Reason.NEW,
        Reason.QUEUE_FULL,
    ]
    assert (await trial.store.find(link("a.example", "2"))).state is UrlState.UNSEEN


async def test_a_queued_url_is_found_where_it_stands(trial: Trial) -> None:
    await trial.own()
    offered = [found_on("https://b.example/", f"{number}") for number in range(MANY)]
    await trial.admit(*offered, link("b.example"))
    await trial.admit(link("a.example", "front", at_head=True))
    # Some stores move what is long elsewhere, in their own time: it is found there, too, and on the way.
    for at in range(3):
        for number in (0, 17, MANY // 2, MANY - 1):
            seen = await trial.store.find(offered[number])
            assert (seen.state, seen.ahead) == (UrlState.QUEUED, number + 1)
            assert seen.lease is not None
            assert seen.lease == Lease(
                number=0,
                slot=slot_of("a.example", SLOTS),
                epoch=trial.epochs[slot_of("a.example", SLOTS)],
                url=offered[number].url,
                site="a.example",
                fingerprint=offered[number].fingerprint,
                depth=0,
                hops=0,
                is_seed=False,
                attempt=0,
                returned=0,
                via="https://b.example/",
            )
        assert (await trial.store.find(link("a.example", "front"))).ahead == 0
        assert (await trial.store.find(link("a.example", f"{MANY}"))).state is UrlState.UNSEEN
        await asyncio.sleep(0.02)
        await trial.own(at=at)


async def test_a_queued_url_comes_nearer_as_those_before_it_are_leased(trial: Trial) -> None:
    await trial.own()
    offered = [link("a.example", f"{number}") for number in range(40)]
    await trial.admit(*offered)
    for at in range(25):
        assert (await trial.store.find(offered[38])).ahead == 38 - at
        (lease,) = (await trial.ask(at=at, delay=1.0)).leases
        assert lease.url == offered[at].url
        assert (await trial.store.find(offered[at])).state is UrlState.LEASED
        await trial.work_off(lease, not_before=at + 0.5)
        assert (await trial.store.find(offered[at])).state is UrlState.FINISHED


async def test_a_url_is_found_in_every_state_from_its_queue_to_its_end(trial: Trial) -> None:
    candidate = found_on("https://b.example/", "1")
    await trial.admit(candidate)
    await trial.own()
    lease = await trial.lease_one()
    seen = await trial.store.find(candidate)
    assert (seen.state, seen.lease, seen.ahead, seen.segment) == (UrlState.LEASED, lease, None, "")
    await trial.release(lease)
    assert (await trial.store.find(candidate)).state is UrlState.LEASED
    await trial.spool(lease, segment="one")
    seen = await trial.store.find(candidate)
    assert (seen.state, seen.segment, seen.ahead) == (UrlState.SPOOLED, "one", None)
    assert seen.lease is not None
    assert (seen.lease.number, seen.lease.url, seen.lease.via) == (lease.number, lease.url, lease.via)
    await trial.finish(lease, segment="one")
    seen = await trial.store.find(candidate)
    assert (seen.state, seen.lease, seen.ahead, seen.segment) == (UrlState.FINISHED, None, None, "")
    assert seen.site is not None
    assert (seen.site.queued, seen.site.admitted) == (0, 1)


async def test_a_url_that_went_back_is_found_in_its_queue_again(trial: Trial) -> None:
    first, second = link("a.example", "1"), link("a.example", "2")
    await trial.admit(first, second)
    await trial.own()
    lease = await trial.lease_one()
    await trial.release(lease)
    await trial.spool(lease, to=Destination.TAIL, reason=Reason.DNS)
    seen = await trial.store.find(first)
    assert (seen.state, seen.ahead) == (UrlState.QUEUED, 1)
    assert seen.lease is not None
    assert (seen.lease.number, seen.lease.attempt, seen.lease.returned) == (0, 1, 0)
    lease = await trial.lease_one(at=DELAY + 1)
    assert lease.url == second.url
    await trial.store.disown("fetcher")
    await trial.own("heir", at=DELAY + 1)
    seen = await trial.store.find(second)
    assert (seen.state, seen.ahead) == (UrlState.QUEUED, 0)
    assert seen.lease is not None
    assert (seen.lease.number, seen.lease.returned) == (0, 1)
    lease = await trial.lease_one(at=3 * DELAY)
    await trial.spool(lease)
    await trial.store.unspool("segment")
    assert (await trial.store.find(second)).ahead == 0


async def test_urls_of_one_site_are_told_apart_whatever_they_are_at(trial: Trial) -> None:
    """One released and not spooled yet, one leased, one spooled, one queued, one finished."""
    offered = [link("a.example", f"{number}") for number in range(5)]
    await trial.admit(*offered)
    await trial.own()
    leases = []
    for turn in range(4):
        leases.append(await trial.lease_one(at=turn * 2 * DELAY))
        if turn < 3:
            await trial.release(leases[-1])
    await trial.spool(leases[0], leases[1])
    await trial.finish(leases[0])
    states = [(await trial.store.find(candidate)).state for candidate in offered]
    assert states == [UrlState.FINISHED, UrlState.SPOOLED, UrlState.LEASED, UrlState.LEASED, UrlState.QUEUED]


async def test_what_a_site_had_queued_when_it_was_given_up_is_found_finished(trial: Trial) -> None:
    offered = [link("a.example", f"{number}?x") for number in range(40)]
    await trial.admit(*offered)
    await trial.own()
    lease = await trial.lease_one()
    await trial.release(lease, dropped=Reason.SITE_FAILING)
    seen = await trial.store.find(offered[20])
    assert (seen.state, seen.path_variants) == (UrlState.FINISHED, 0)
    assert seen.site is not None
    assert (seen.site.dropped, seen.site.queued, seen.site.admitted) == (Reason.SITE_FAILING, 0, 40)
    assert (await trial.store.find(offered[0])).state is UrlState.LEASED
    assert (await trial.store.find(link("a.example", "new"))).state is UrlState.UNSEEN


async def test_variants_of_a_path_are_counted_for_who_asks(trial: Trial) -> None:
    await trial.admit(*(link("a.example", f"list?page={number}") for number in range(5)), link("a.example", "list"))
    assert (await trial.store.find(link("a.example", "list?page=3"))).path_variants == 5
    unseen = await trial.store.find(link("a.example", "list?page=9"))
    assert (unseen.state, unseen.path_variants) == (UrlState.UNSEEN, 5)
    assert (await trial.store.find(link("a.example", "list"))).path_variants == 0
    assert (await trial.store.find(link("a.example", "other?page=1"))).path_variants == 0


async def test_urls_are_found_by_all_64_bits_of_their_fingerprints(trial: Trial) -> None:
    fingerprints = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1]
    candidates = [
        Candidate(f"https://a.example/{number}", "a.example", number, path_fingerprint=number)
        for number in fingerprints
    ]
    await trial.admit(*candidates)
    for ahead, candidate in enumerate(candidates):
        seen = await trial.store.find(candidate)
        assert (seen.ahead, seen.path_variants) == (ahead, 1 if candidate.path_fingerprint else 0)
    await trial.own()
    lease = await trial.lease_one()
    assert (await trial.store.find(candidates[0])).lease == lease
    assert (await trial.store.find(candidates[1])).ahead == 0


async def test_what_is_known_of_sites_is_told_of_those_that_are_known(trial: Trial) -> None:
    names = ["a.example", "b.example", "c.example", "[2001:db8::1]", "世", "'*{x}"]
    await trial.admit(
        *(Candidate(f"https://{name}/{path}", name, stable_hash(name + path)) for name in names for path in "12"),
        link("seed.example", is_seed=True),
    )
    assert await trial.store.site_states([]) == {}
    states = await trial.store.site_states([*names, "seed.example", "d.example", "*"])
    assert set(states) == {*names, "seed.example"}
    for name in names:
        assert states[name] == SiteState(
            name=name, slot=slot_of(name, SLOTS), not_before=trial.at(0), queued=2, admitted=2
        )
    assert states["seed.example"].is_seeded
    await trial.own("fetcher", lasts=50)
    lease = next(lease for lease in await trial.lease(at=5) if lease.site == "b.example")
    expected = SiteState(
        name="b.example",
        slot=lease.slot,
        not_before=trial.at(5 + DELAY),
        queued=1,
        admitted=2,
        is_busy=True,
        owner="fetcher",
        epoch=lease.epoch,
        owned_until=trial.at(50),
    )
    assert await trial.store.site_states(["b.example"]) == {"b.example": expected}
    clock = SiteClock(trial.at(6), 17.5, 3)
    await trial.release(lease, not_before=99, clock=clock)
    await trial.store.disown("fetcher")
    expected = replace(
        expected, not_before=trial.at(99), clock=clock, is_busy=False, owner="", epoch=lease.epoch, owned_until=0.0
    )
    assert await trial.store.site_states(["b.example"]) == {"b.example": expected}
    assert (
        await trial.store.find(Candidate("https://b.example/2", "b.example", stable_hash("b.example2")))
    ).site == expected


async def test_a_url_that_is_there_all_the_time_is_found_while_others_come_and_go(trial: Trial) -> None:
    await trial.own()
    wanted = link("a.example", "wanted")
    before = [link("a.example", f"before-{number}") for number in range(60)]
    await trial.admit(*before, wanted, *(link("a.example", f"behind-{number}") for number in range(60)))
    is_over = False

    async def work() -> None:
        nonlocal is_over
        for at in range(20):
            lease = (await trial.store.lease(f"turn {at}", trial.epochs, 1, now=trial.at(at), delay_seconds=0.0,
                                             max_pages=0)).leases  # fmt: skip
            await trial.work_off(*lease)
            news = [link("a.example", f"new-{at}"), link("a.example", f"first-{at}", at_head=at % 3 == 0)]
            await trial.store.admit(news, NO_LIMITS, now=0.0)
            trial.note_admitted(news)
            await trial.own(at=at)
            await asyncio.sleep(0)
        # Looking may take longer than all of this.
        while len(states) < 2:  # noqa: ASYNC110 (the list tells nobody)
            await asyncio.sleep(0.01)
        is_over = True

    async def look() -> None:
        while not is_over:
            states.append((await other.find(wanted)).state)
            await asyncio.sleep(0)

    other = await trial.another()
    states: list[UrlState] = []
    await asyncio.gather(look(), work())
    assert set(states) == {UrlState.QUEUED}
