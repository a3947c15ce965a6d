"""What is admitted, how often, and what admitting it never does."""

import asyncio
import itertools

import msgspec

from gossamer.frontier.store import AdmitLimits
from gossamer.records import Candidate, Reason
from gossamer.testing.stores.suite.trial import DELAY, MOMENT, Trial, link, sites_of, urls
from gossamer.url import stable_hash

#: Nothing in a URL means anything to a store: not as a separator, a pattern, a quotation or a format.
OPAQUE = (
    "https://a.example/one|two|3",
    "https://a.example/line\nbreak\r\n\ttab",
    "https://a.example/'single'\"double\"`back`;DROP TABLE site;--",
    "https://a.example/*?[a-z]%_\\",
    "https://a.example/{0}{}{{name}}${x}%s%(y)d",
    "https://a.example/grüße/世界/\U0001f578",
    "https://a.example/nul\0byte",
    "https://a.example/ ",
    "https://a.example/" + "x" * 1982,
    "https://a.example/" + "世" * 1982,
)


async def test_a_candidate_is_admitted_at_most_once_whoever_offers_it_however_often(trial: Trial) -> None:
    other = await trial.another()
    candidates = [link(site, path) for site in ("a.example", "b.example") for path in "123"]
    assert await trial.admit(*candidates) == [Reason.NEW] * 6
    for store in (trial.store, other):
        assert await trial.admit(*candidates, store=store) == [Reason.SEEN] * 6
    await trial.own()
    leases = await trial.lease()
    assert await trial.admit(*candidates) == [Reason.SEEN] * 6
    await trial.work_off(*leases)
    assert await trial.admit(*candidates, store=other) == [Reason.SEEN] * 6


async def test_a_retried_admit_is_harmless(trial: Trial) -> None:
    """Its second answer is SEEN, even where a new candidate would be refused by now."""
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    strict = AdmitLimits(only_seeded_sites=True, site_queue=1)
    again = await trial.admit(link("a.example", "1"), link("a.example", "2"), limits=strict)
    assert again == [Reason.SEEN, Reason.SEEN]
    assert (await trial.counts()).queued == 2


async def test_what_two_processes_offer_at_once_is_admitted_once(trial: Trial) -> None:
    other = await trial.another()
    candidates = [link(f"{letter}.example", str(number)) for letter in "abcdef" for number in range(20)]
    answers = await asyncio.gather(
        trial.store.admit(candidates, AdmitLimits(), now=0.0), other.admit(candidates[::-1], AdmitLimits(), now=0.0)
    )
    for first, second in zip(answers[0], answers[1][::-1], strict=True):
        assert {first, second} == {Reason.NEW, Reason.SEEN}
    trial.note_admitted(candidates)
    assert (await trial.counts()).queued == 120


async def test_duplicates_inside_one_batch_are_admitted_once(trial: Trial) -> None:
    one, two = link("a.example", "1"), link("b.example", "2")
    answers = await trial.admit(one, two, one, one, two)
    assert answers == [Reason.NEW, Reason.NEW, Reason.SEEN, Reason.SEEN, Reason.SEEN]


async def test_the_first_offer_of_a_url_decides_how_it_is_queued(trial: Trial) -> None:
    await trial.admit(link("a.example", "1", depth=3, hops=2), link("a.example", "1", depth=1, is_seed=True))
    await trial.own()
    lease = await trial.lease_one()
    assert (lease.depth, lease.hops, lease.is_seed) == (3, 2, False)


async def test_ten_thousand_candidates_are_admitted_in_one_call(trial: Trial) -> None:
    candidates = [link(f"site{number % 400}.example", str(number)) for number in range(10_000)]
    assert await trial.admit(*candidates) == [Reason.NEW] * 10_000
    again = await trial.admit(*candidates[5_000:], *(link(f"x{number}.example") for number in range(5_000)))
    assert again == [Reason.SEEN] * 5_000 + [Reason.NEW] * 5_000
    assert (await trial.counts()).sites == 5_400


async def test_empty_batches_change_nothing(trial: Trial) -> None:
    await trial.admit(link("a.example"))
    await trial.own()
    before = await trial.counts()
    assert await trial.admit() == []
    await trial.release()
    assert await trial.spool() == set()
    await trial.finish()
    assert await trial.store.own("other", [], now=trial.at(0), until=trial.at(9), delay_seconds=DELAY) == {}
    assert (await trial.ask(epochs={})).leases == []
    assert (await trial.ask(limit=0)).leases == []
    assert await trial.store.load_robots([]) == {}
    await trial.store.save_robots([])
    assert await trial.counts() == before
    assert await trial.store.segments() == {}


async def test_urls_are_opaque(trial: Trial) -> None:
    candidates = [Candidate(url, "a.example", stable_hash(url)) for url in OPAQUE]
    assert await trial.admit(*candidates) == [Reason.NEW] * len(OPAQUE)
    await trial.reopen()
    await trial.own()
    assert tuple(urls(await trial.drain_queue(at=0))) == OPAQUE


async def test_names_of_sites_are_opaque(trial: Trial) -> None:
    """They are hosts, but some come as addresses in brackets, and none is a pattern."""
    names = ("[2001:db8::1]", "127.0.0.1", "a|b", "*", "{x}", "'quoted'", "xn--bcher-kva.example", "世", "a\nb")
    await trial.admit(*(Candidate(f"https://{name}/", name, stable_hash(name)) for name in names))
    await trial.own()
    leases = await trial.lease()
    assert {lease.site for lease in leases} == set(names)


async def test_fingerprints_take_all_64_bits(trial: Trial) -> None:
    fingerprints = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1]
    candidates = [Candidate(f"https://a.example/{number}", "a.example", number) for number in fingerprints]
    assert await trial.admit(*candidates) == [Reason.NEW] * len(fingerprints)
    assert await trial.admit(*candidates) == [Reason.SEEN] * len(fingerprints)
    await trial.own()
    assert [lease.fingerprint for lease in await trial.drain_queue(at=0)] == fingerprints


async def test_admitting_a_link_never_wakes_a_cooling_site(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own()
    lease = await trial.lease_one()
    await trial.work_off(lease, not_before=DELAY)
    await trial.admit(
        link("a.example", "2"), link("a.example", "3", at_head=True), link("a.example", "4", is_seed=True)
    )
    assert await trial.lease(at=DELAY - MOMENT) == []
    assert urls(await trial.lease(at=DELAY + MOMENT)) == ["https://a.example/3"]


async def test_admitting_a_link_never_frees_a_busy_site(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"))
    await trial.own()
    await trial.lease_one()
    await trial.admit(link("a.example", "2"), link("a.example", "3", at_head=True))
    assert await trial.lease(at=10 * DELAY) == []


async def test_new_sites_never_come_before_one_that_is_overdue(trial: Trial) -> None:
    """A page of a link farm brings more new sites than it took: sites that were visited once would never come again."""
    old, *farm = itertools.islice(sites_of(1), 9)
    await trial.admit(link(old, "1"), link(old, "2"))
    await trial.own()
    await trial.release(await trial.lease_one(), not_before=20)
    # By either way into a queue: a redirect's target goes to its head.
    await trial.admit(*(link(name, at_head=number % 2 == 0) for number, name in enumerate(farm[:4])), at=30)
    await trial.admit(*(link(name, is_seed=True) for name in farm[4:]), at=31)
    assert urls(await trial.lease(at=32, limit=1)) == [f"https://{old}/2"]
    first = {lease.site for lease in await trial.lease(at=32, limit=4)}
    assert first == set(farm[:4])
    assert {lease.site for lease in await trial.lease(at=32)} == set(farm[4:])


async def test_a_site_that_was_drained_is_due_from_its_next_admission_on(trial: Trial) -> None:
    drained, waiting = itertools.islice(sites_of(1), 2)
    await trial.admit(link(drained, "1"), link(waiting, "1"), link(waiting, "2"))
    await trial.own()
    for lease in await trial.lease():
        await trial.work_off(lease, not_before=10 if lease.site == drained else 20)
    await trial.admit(link(drained, "2"), at=30)
    assert (await trial.store.site_states([drained]))[drained].not_before == trial.at(30)
    order = [(await trial.lease(at=40, limit=1))[0].site for _ in range(2)]
    assert order == [waiting, drained]


async def test_more_links_leave_a_waiting_site_at_its_place(trial: Trial) -> None:
    first, second = itertools.islice(sites_of(1), 2)
    await trial.admit(link(first, "1"), at=1)
    await trial.admit(link(second, "1"), at=2)
    await trial.admit(link(first, "2"), link(first, "3", at_head=True), at=3)
    await trial.own()
    assert [(await trial.lease(at=4, limit=1))[0].site for _ in range(2)] == [first, second]


async def test_links_to_a_leased_site_leave_its_clock_alone(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), at=1)
    await trial.own()
    lease = await trial.lease_one(at=2)
    await trial.admit(link("a.example", "2"), at=90)
    assert (await trial.store.site_states(["a.example"]))["a.example"].not_before == trial.at(2 + DELAY)
    await trial.release(lease, requested=False)
    assert (await trial.store.site_states(["a.example"]))["a.example"].not_before == trial.at(1)


async def test_the_longer_a_queue_the_shorter_its_urls(trial: Trial) -> None:
    """The bytes of a queue are bounded without a sum of them being kept."""
    limits = AdmitLimits(site_queue_bytes=200)
    start = len("https://a.example/")

    def of_length(length: int, turn: int) -> Candidate:
        return link("a.example", f"{turn}".ljust(length - start, "x"))

    lengths = (201, 200, 101, 100, 70, 66, 66, 50, 40, 41)
    answers = await trial.admit(*(of_length(length, turn) for turn, length in enumerate(lengths)), limits=limits)
    expected = [200, 100, 66, 50, 40]
    assert [length for length, answer in zip(lengths, answers, strict=True) if answer is Reason.NEW] == expected
    assert {answer for answer in answers if answer is not Reason.NEW} == {Reason.QUEUE_FULL}
    await trial.own()
    await trial.lease_one()
    # One less is queued; and the limit is of one site.
    assert await trial.admit(of_length(41, 10), of_length(40, 11), limits=limits) == [Reason.QUEUE_FULL, Reason.NEW]
    assert await trial.admit(link("b.example", "y" * 150), limits=limits) == [Reason.NEW]


async def test_where_a_url_was_found_does_not_count_for_the_bytes_of_its_queue(trial: Trial) -> None:
    via = "https://a.example/" + "v" * 300
    offered = [msgspec.structs.replace(link("a.example", f"{turn}"), via=via) for turn in range(6)]
    limits = AdmitLimits(site_queue_bytes=6 * len(offered[0].url))
    assert await trial.admit(*offered, limits=limits) == [Reason.NEW] * 6
    assert await trial.admit(link("a.example", "7"), limits=limits) == [Reason.QUEUE_FULL]


async def test_seen_and_queued_change_together_or_not_at_all(trial: Trial) -> None:
    """What a full queue refused is not seen: it is admitted once there is room."""
    limits = AdmitLimits(site_queue=2)
    candidates = [link("a.example", path) for path in "1234"]
    expected = [Reason.NEW, Reason.NEW, Reason.QUEUE_FULL, Reason.QUEUE_FULL]
    assert await trial.admit(*candidates, limits=limits) == expected
    assert (await trial.counts()).queued == 2
    await trial.own()
    await trial.lease_one()
    expected = [Reason.SEEN, Reason.SEEN, Reason.NEW, Reason.QUEUE_FULL]
    assert await trial.admit(*candidates, limits=limits) == expected


async def test_a_full_queue_refuses_at_its_head_too_and_only_for_its_own_site(trial: Trial) -> None:
    limits = AdmitLimits(site_queue=1)
    answers = await trial.admit(
        link("a.example", "1"), link("a.example", "2", at_head=True), link("b.example", "3"), limits=limits
    )
    assert answers == [Reason.NEW, Reason.QUEUE_FULL, Reason.NEW]


async def test_a_queue_may_grow_over_its_cap_by_what_comes_back(trial: Trial) -> None:
    limits = AdmitLimits(site_queue=1)
    await trial.admit(link("a.example", "1"), limits=limits)
    await trial.own()
    lease = await trial.lease_one()
    await trial.admit(link("a.example", "2"), limits=limits)
    await trial.store.disown("fetcher")
    await trial.own(at=1)
    assert (await trial.counts()).queued == 2
    assert lease.url in urls(await trial.lease(at=1 + DELAY + MOMENT))


async def test_only_sites_that_were_seeded_are_admitted_if_so_limited(trial: Trial) -> None:
    limits = AdmitLimits(only_seeded_sites=True)
    assert await trial.admit(link("a.example", "1"), limits=limits) == [Reason.SCOPE]
    assert await trial.admit(link("a.example", "", is_seed=True), limits=limits) == [Reason.NEW]
    assert await trial.admit(link("a.example", "1"), link("b.example"), limits=limits) == [Reason.NEW, Reason.SCOPE]
    # Without the limit the same candidate is new: being out of scope did not mark it as seen.
    assert await trial.admit(link("b.example")) == [Reason.NEW]
    # Nor does being admitted make a site a seeded one.
    assert await trial.admit(link("b.example", "2"), limits=limits) == [Reason.SCOPE]


async def test_a_seed_makes_its_site_a_seeded_one_even_if_it_is_not_admitted(trial: Trial) -> None:
    strict = AdmitLimits(only_seeded_sites=True)
    await trial.admit(link("a.example"), link("b.example"))
    full = AdmitLimits(site_queue=1)
    answers = await trial.admit(link("a.example", "", is_seed=True), link("b.example", "2", is_seed=True), limits=full)
    assert answers == [Reason.SEEN, Reason.QUEUE_FULL]
    answers = await trial.admit(link("a.example", "1"), link("b.example", "1"), limits=strict)
    assert answers == [Reason.NEW, Reason.NEW]
    await trial.reopen()
    assert await trial.admit(link("a.example", "3"), limits=strict) == [Reason.NEW]


async def test_where_a_seed_was_redirected_to_counts_as_seeded(trial: Trial) -> None:
    limits = AdmitLimits(only_seeded_sites=True)
    target = link("target.example", "home", hops=1, is_seed=True, at_head=True)
    assert await trial.admit(target, link("target.example", "2"), limits=limits) == [Reason.NEW, Reason.NEW]
    await trial.own()
    lease = await trial.lease_one()
    assert (lease.url, lease.hops, lease.is_seed) == (target.url, 1, True)


async def test_a_site_that_was_given_up_admits_nothing_more(trial: Trial) -> None:
    await trial.admit(link("a.example", "1"), link("a.example", "2"))
    await trial.own()
    await trial.release(await trial.lease_one(), dropped=Reason.SITE_FAILING)
    answers = await trial.admit(
        link("a.example", "3"), link("a.example", "4", is_seed=True, at_head=True), link("a.example", "1")
    )
    assert answers == [Reason.SITE_DROPPED, Reason.SITE_DROPPED, Reason.SEEN]
    await trial.reopen()
    assert await trial.admit(link("a.example", "5")) == [Reason.SITE_DROPPED]


async def test_a_site_waits_in_the_slot_of_its_name(trial: Trial) -> None:
    names = [list(itertools.islice(sites_of(slot), 2)) for slot in range(2)]
    await trial.admit(*(link(name) for pair in names for name in pair))
    for slot, pair in enumerate(names):
        leases = (await trial.ask(epochs=await trial.own(f"owner {slot}", [slot]))).leases
        assert {(lease.site, lease.slot) for lease in leases} == {(name, slot) for name in pair}
