"""Names are opaque: nothing in a URL, or in any other name, is a separator, a pattern, a format or a number."""

import itertools

from gossamer.frontier.store import AdmitLimits
from gossamer.records import Candidate, Destination, Finished, Lease, Reason, Release, RobotsCopy, SiteClock
from gossamer.testing.stores.suite.trial import DELAY, SLOTS, Trial, link, urls
from gossamer.url import stable_hash

#: No two of these are the same name, however alike they look or sort.
ODD = (
    "a|b|c", "|", "line\nbreak", "line\r\nbreak", "line\rbreak", "tab\there", " ", "  ", " around ", "around",
    "'single'", '"double"', "`back`", "'; DROP TABLE sites; --", "back\\slash", "\\", "\\n", "*", "**", "?", "[a-z]",
    "a", "A", "{x}", "{}", "}{", "{}{x}", "{", "%s", "%", "%d%%", "%20", "_", "$1", "$$", "${x}", ":name", "a:b:c",
    "::", ",", "a,b", "(1,2)", "[]", "null", "NULL", "nil", "None", "false", "0", "00", "-1", "1", "1.0", "1e3", "0x1",
    "NaN", "9007199254740993", "9007199254740992", "é", "e\u0301", "\U0001f578", "\U0001f578\ufe0f", "世界", "ß", "ss",
    "İ", "i", "\u202eabc", "\ufeff", "\x7f", "\x01", "\u2028", "x" * 250, "x" * 249 + "y", "\U0001f9f6" * 60,
)  # fmt: skip
#: Two thousand characters, of one to four bytes each.
LONG = ("x" * 2_000, "x" * 1_999 + "y", "世" * 2_000, "\U0001f9f6" * 2_000, "|\n'*{}%s$1\\\"" * 166)
#: Around every width that an integer may be cut to, and where doubles stop telling integers apart.
_EDGES = {(1 << bits) + offset for bits in (0, 8, 16, 31, 32, 48, 53, 54, 63, 64) for offset in (-2, -1, 0, 1)}
FINGERPRINTS = sorted(number for number in _EDGES if 0 <= number < 1 << 64)


def _odd_links(turn: str) -> list[Candidate]:
    """One of each site with an odd name, and odd itself."""
    pairs = zip(ODD, ODD[7:] + ODD[:7], strict=True)
    return [
        Candidate(f"https://{site}/{turn}/{path}", site, stable_hash(f"{turn} {site} {path}")) for site, path in pairs
    ]


async def test_odd_urls_of_odd_sites_come_through_every_verb_as_they_were(trial: Trial) -> None:
    first, second = _odd_links("1"), _odd_links("2")
    assert await trial.admit(*first, *second) == [Reason.NEW] * 2 * len(ODD)
    other = await trial.another()
    assert await trial.admit(*first, *second, store=other) == [Reason.SEEN] * 2 * len(ODD)
    assert (await trial.counts()).sites == len(ODD)
    await trial.own()
    leases = await trial.lease()
    assert {(lease.site, lease.url, lease.fingerprint) for lease in leases} == {
        (candidate.site, candidate.url, candidate.fingerprint) for candidate in first
    }
    for lease in leases:
        await other.release([_release(trial, lease, SiteClock(failures=len(lease.site)))])
    assert await trial.spool(*leases, to=Destination.TAIL, reason=Reason.DNS) == set()
    # The second of each, which keeps what was noted on its site.
    leases = await trial.lease(at=100)
    assert {lease.url for lease in leases} == {candidate.url for candidate in second}
    assert all(lease.clock.failures == len(lease.site) for lease in leases)
    await trial.release(*leases)
    await trial.spool(*leases, segment="lost")
    await trial.store.unspool("lost")
    leases = await trial.lease(at=200)
    assert {lease.url for lease in leases} == {candidate.url for candidate in second}
    await trial.work_off(*leases)
    # The first again, from a holder that dies; then every second site is given up.
    dead = await trial.lease(at=300)
    await trial.store.disown("fetcher")
    await trial.own(at=300)
    leases = await trial.lease(at=400)
    assert {(lease.url, lease.attempt, lease.returned) for lease in leases} == {(lease.url, 1, 1) for lease in dead}
    await trial.admit(*_odd_links("3"))
    given_up = sorted(leases, key=lambda lease: lease.site)[::2]
    await trial.release(*given_up, dropped=Reason.SITE_FAILING)
    assert (await trial.counts()).outcomes == {Reason.PAGE: len(ODD), Reason.SITE_FAILING: len(given_up)}
    answers = await trial.admit(*_odd_links("4"))
    dropped = {lease.site for lease in given_up}
    expected = [Reason.SITE_DROPPED if candidate.site in dropped else Reason.NEW for candidate in _odd_links("4")]
    assert answers == expected


def _release(trial: Trial, lease: Lease, clock: SiteClock) -> Release:
    return Release(lease, True, trial.at(DELAY), clock)


async def test_long_urls_come_through_every_verb_as_they_were(trial: Trial) -> None:
    candidates = [Candidate(url, "a.example", stable_hash(url), depth=number) for number, url in enumerate(LONG)]
    assert await trial.admit(*candidates) == [Reason.NEW] * len(LONG)
    assert await trial.admit(*candidates[::-1]) == [Reason.SEEN] * len(LONG)
    await trial.own()
    for turn, to in enumerate((Destination.HEAD, Destination.TAIL)):
        lease = await trial.lease_one(at=100 * turn)
        assert lease.url == LONG[0]
        await trial.release(lease)
        await trial.spool(lease, to=to, reason=Reason.BUSY)
    await trial.reopen()
    drained = await trial.drain_queue(at=1000)
    assert urls(drained) == [*LONG[1:], LONG[0]]
    assert [lease.depth for lease in drained] == [*range(1, len(LONG)), 0]


async def test_the_largest_facts_of_a_url_come_back(trial: Trial) -> None:
    candidate = Candidate("https://a.example/", "a.example", (1 << 64) - 1, depth=1_000_000, hops=1_000)
    await trial.admit(candidate)
    await trial.own()
    clock = SiteClock(last_request_at=4e9 + 0.125, crawl_delay_seconds=86_400.5, failures=1_000_000)
    lease = await trial.lease_one()
    await trial.release(lease, clock=clock)
    await trial.spool(lease, to=Destination.HEAD, reason=Reason.BUSY)
    again = await trial.lease_one(at=1e6)
    assert (again.depth, again.hops, again.fingerprint, again.clock) == (1_000_000, 1_000, (1 << 64) - 1, clock)


async def test_odd_sites_are_seeded_each_for_itself(trial: Trial) -> None:
    limits = AdmitLimits(only_seeded_sites=True)
    seeds = [
        Candidate(candidate.url, candidate.site, candidate.fingerprint, is_seed=True)
        for candidate in _odd_links("seed")[::2]
    ]
    assert await trial.admit(*seeds, limits=limits) == [Reason.NEW] * len(seeds)
    expected = [Reason.SCOPE if number % 2 else Reason.NEW for number in range(len(ODD))]
    assert await trial.admit(*_odd_links("link"), limits=limits) == expected


async def test_odd_names_of_owners_are_told_apart(trial: Trial) -> None:
    at = 0.0
    for one, another in itertools.pairwise(ODD):
        epochs = await trial.own(one, [0, 1], at=at)
        assert set(epochs) == {0, 1}
        assert set(await trial.own(another, range(SLOTS), at=at)) == {2, 3}
        assert await trial.own(one, [0, 1], at=at) == epochs
        await trial.store.disown(one)
        assert await trial.own(one, [2, 3], at=at) == {}
        await trial.store.disown(another)
        at += 1


async def test_odd_names_of_calls_are_told_apart(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example") for number in range(len(ODD) + 5)))
    await trial.own()
    given = {call: (await trial.ask(call=call, limit=1)).leases for call in ODD}
    assert len({lease.number for leases in given.values() for lease in leases}) == len(ODD)
    other = await trial.another()
    for call, leases in given.items():
        assert (await trial.ask(call=call, limit=1, store=other)).leases == leases


async def test_odd_names_of_segments_are_told_apart(trial: Trial) -> None:
    await trial.admit(*(link(f"site{number}.example") for number in range(len(ODD))))
    await trial.own()
    leases = dict(zip(ODD, await trial.lease(), strict=True))
    for segment, lease in leases.items():
        assert await trial.spool(lease, segment=segment) == set()
    await trial.reopen()
    assert await trial.store.segments() == dict.fromkeys(ODD, 1)
    for (one, lease), (another, _) in itertools.pairwise(leases.items()):
        assert await trial.store.spooled(one) == {lease.number}
        await trial.store.finish([_finished(lease, another)])
        assert await trial.spool(lease, segment=another) == {lease.number}
    assert (await trial.counts()).spooled == len(ODD)
    for segment in ODD[::2]:
        await trial.store.unspool(segment)
    await trial.store.finish([_finished(lease, segment) for segment, lease in leases.items()])
    counts = await trial.counts()
    assert (counts.spooled, counts.queued, counts.finished) == (0, len(ODD[::2]), len(ODD[1::2]))


def _finished(lease: Lease, segment: str) -> Finished:
    return Finished(segment, lease.number, lease.slot, lease.site, lease.fingerprint, Reason.PAGE, 1)


async def test_odd_origins_are_told_apart(trial: Trial) -> None:
    copies = {
        origin: RobotsCopy(origin=origin, access="parsed", body=origin.encode() * 3, fetched_at=trial.at(number))
        for number, origin in enumerate([*ODD, *(f"https://{name}:443" for name in ODD)])
    }
    await trial.store.save_robots(copies.values())
    other = await trial.another()
    assert await other.load_robots([*copies, "unknown"]) == copies
    for origin in ODD:
        assert await other.load_robots([origin, "unknown"]) == {origin: copies[origin]}


async def test_large_copies_of_robots_txt_come_back_as_they_were(trial: Trial) -> None:
    """Half a megabyte is what a crawler reads of one; noise, which no compression makes smaller."""
    noise = b"".join(stable_hash(f"{number}").to_bytes(8, "little") for number in range(75_000))
    copies = [RobotsCopy(origin=f"https://{number}", access="parsed", body=noise[number:]) for number in range(5)]
    copies.append(RobotsCopy(origin="https://empty", access="parsed", expires_at=1e10))
    await trial.store.save_robots(copies)
    await trial.store.save_robots([RobotsCopy(origin="https://0", access="parsed", body=noise[::-1])])
    loaded = await trial.store.load_robots([copy.origin for copy in copies])
    assert loaded == {copy.origin: copy for copy in copies} | {
        "https://0": RobotsCopy(origin="https://0", access="parsed", body=noise[::-1])
    }


async def test_copies_of_a_thousand_origins_are_saved_and_loaded_in_one_call(trial: Trial) -> None:
    copies = {f"https://{number}": RobotsCopy(origin=f"https://{number}", access=f"{number}") for number in range(1000)}
    await trial.store.save_robots(iter(copies.values()))
    assert await trial.store.load_robots(copies.keys()) == copies
    assert await trial.store.load_robots(["https://7", "https://7"]) == {"https://7": copies["https://7"]}


async def test_neighbouring_fingerprints_are_told_apart(trial: Trial) -> None:
    """One call each at first: that a number was seen says nothing of the next one."""
    candidates = [Candidate(f"https://a.example/{number}", "a.example", number) for number in FINGERPRINTS]
    for candidate in candidates[::2]:
        assert await trial.admit(candidate) == [Reason.NEW]
    expected = [Reason.NEW if turn % 2 else Reason.SEEN for turn in range(len(candidates))]
    assert await trial.admit(*candidates) == expected
    assert await trial.admit(*candidates) == [Reason.SEEN] * len(candidates)
    await trial.own()
    drained = [lease.fingerprint for lease in await trial.drain_queue(at=0)]
    assert drained == FINGERPRINTS[::2] + FINGERPRINTS[1::2]


async def test_fingerprints_that_share_most_of_their_bits_are_told_apart(trial: Trial) -> None:
    """A set of numbers that is kept in parts may choose the part by any of the bits."""
    numbers = [number for step in (1, 1 << 16, 1 << 32, 1 << 53) for number in range(1 << 62, 1 << 63, step)[1:1001]]
    assert len(numbers) == len(set(numbers)) > 3_000
    candidates = [Candidate(f"https://{n % 97}/{n}", f"{n % 97}", n) for n in numbers]
    assert await trial.admit(*candidates[::2]) == [Reason.NEW] * len(candidates[::2])
    expected = [Reason.NEW if turn % 2 else Reason.SEEN for turn in range(len(candidates))]
    assert await trial.admit(*candidates) == expected
    beyond = [Candidate(f"https://x/{n}", "x", n ^ (1 << 63)) for n in numbers[::40]]
    assert await trial.admit(*beyond) == [Reason.NEW] * len(beyond)
