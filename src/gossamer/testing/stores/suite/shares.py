"""What a site gets of the crawl at most: URLs in all, and variants of one path. The bounds of every trap."""

import asyncio

from gossamer.frontier.store import AdmitLimits
from gossamer.records import Candidate, Reason
from gossamer.testing.stores.suite.trial import Trial, link
from gossamer.url import stable_hash

NEW, SEEN, SITE_FULL, PATH_VARIANTS = Reason.NEW, Reason.SEEN, Reason.SITE_FULL, Reason.PATH_VARIANTS


async def test_a_site_gets_no_more_urls_than_its_share_however_many_were_worked_off(trial: Trial) -> None:
    limits = AdmitLimits(site_urls=3)
    candidates = [link("a.example", path) for path in "12345"]
    assert await trial.admit(*candidates[:2], limits=limits) == [NEW, NEW]
    await trial.own()
    await trial.work_off(await trial.lease_one())
    await trial.reopen()
    assert await trial.admit(*candidates, limits=limits) == [SEEN, SEEN, NEW, SITE_FULL, SITE_FULL]
    assert await trial.admit(*candidates[2:], link("b.example"), limits=limits) == [SEEN, SITE_FULL, SITE_FULL, NEW]


async def test_what_a_full_site_was_refused_is_not_seen_and_admitted_with_a_larger_share(trial: Trial) -> None:
    candidates = [link("a.example", path) for path in "1234"]
    assert await trial.admit(*candidates, limits=AdmitLimits(site_urls=1)) == [NEW, SITE_FULL, SITE_FULL, SITE_FULL]
    assert await trial.admit(*candidates, limits=AdmitLimits(site_urls=3)) == [SEEN, NEW, NEW, SITE_FULL]


async def test_a_path_gets_no_more_variants_than_its_share_however_many_were_worked_off(trial: Trial) -> None:
    limits = AdmitLimits(path_variants=2)
    days = [link("a.example", f"day?n={number}") for number in range(5)]
    assert await trial.admit(*days[:1], limits=limits) == [NEW]
    await trial.own()
    await trial.work_off(await trial.lease_one())
    await trial.reopen()
    assert await trial.admit(*days, limits=limits) == [SEEN, NEW, PATH_VARIANTS, PATH_VARIANTS, PATH_VARIANTS]
    assert await trial.admit(*days[1:3], limits=limits) == [SEEN, PATH_VARIANTS]


async def test_variants_are_counted_for_each_path_of_each_site(trial: Trial) -> None:
    limits = AdmitLimits(path_variants=1)
    answers = await trial.admit(
        link("a.example", "x?1"), link("a.example", "x?2"), link("a.example", "y?1"), link("b.example", "x?1"),
        limits=limits,
    )  # fmt: skip
    assert answers == [NEW, PATH_VARIANTS, NEW, NEW]
    # The same number in another site is another path.
    same = [Candidate(f"https://{site}/", site, stable_hash(site), path_fingerprint=7) for site in ("c.test", "d.test")]
    assert await trial.admit(*same, limits=limits) == [NEW, NEW]


async def test_what_is_no_variant_is_not_bounded_as_one(trial: Trial) -> None:
    limits = AdmitLimits(path_variants=1)
    candidates = [link("a.example", path) for path in ("x", "y", "x?1", "z", "x?2", "")]
    assert await trial.admit(*candidates, limits=limits) == [NEW, NEW, NEW, NEW, PATH_VARIANTS, NEW]


async def test_variants_that_were_refused_are_not_seen_and_admitted_with_a_larger_share(trial: Trial) -> None:
    days = [link("a.example", f"day?n={number}") for number in range(5)]
    one = [NEW, *[PATH_VARIANTS] * 4]
    assert await trial.admit(*days, limits=AdmitLimits(path_variants=1)) == one
    three = [SEEN, NEW, NEW, PATH_VARIANTS, PATH_VARIANTS]
    assert await trial.admit(*days, limits=AdmitLimits(path_variants=3)) == three
    assert await trial.admit(*days) == [SEEN, SEEN, SEEN, NEW, NEW]
    assert (await trial.counts()).queued == 5


async def test_variants_are_counted_without_a_limit_too(trial: Trial) -> None:
    await trial.admit(*(link("a.example", f"day?n={number}") for number in range(3)))
    later = await trial.admit(link("a.example", "day?n=9"), link("a.example", "9"), limits=AdmitLimits(path_variants=3))
    assert later == [PATH_VARIANTS, NEW]


async def test_a_refused_variant_takes_nothing_of_its_site(trial: Trial) -> None:
    limits = AdmitLimits(path_variants=1, site_urls=3, site_queue=3)
    candidates = [link("a.example", path) for path in ("x?1", "x?2", "x?3", "y?1", "z?1", "w")]
    expected = [NEW, PATH_VARIANTS, PATH_VARIANTS, NEW, NEW, SITE_FULL]
    assert await trial.admit(*candidates, limits=limits) == expected


async def test_the_first_reason_that_holds_is_the_answer(trial: Trial) -> None:
    await trial.admit(link("a.example", "x?1"), link("b.example", "x?1"))
    full = AdmitLimits(path_variants=1, site_urls=1, site_queue=1)
    assert await trial.admit(link("a.example", "x?2"), limits=full) == [SITE_FULL]
    assert await trial.admit(link("a.example", "x?2"), limits=AdmitLimits(path_variants=1, site_queue=1)) == [
        PATH_VARIANTS
    ]
    unseeded = AdmitLimits(only_seeded_sites=True, path_variants=1, site_urls=1, site_queue=1)
    assert await trial.admit(link("a.example", "x?2"), link("a.example", "x?1"), limits=unseeded) == [
        Reason.SCOPE,
        SEEN,
    ]
    await trial.own()
    (lease,) = [lease for lease in await trial.lease() if lease.site == "a.example"]
    await trial.release(lease, dropped=Reason.SITE_FAILING)
    assert await trial.admit(link("a.example", "x?2"), limits=unseeded) == [Reason.SITE_DROPPED]


async def test_seeds_are_admitted_beyond_both_shares_and_count(trial: Trial) -> None:
    limits = AdmitLimits(path_variants=1, site_urls=2)
    seeds = [link("a.example", f"x?{number}", is_seed=True) for number in range(3)]
    assert await trial.admit(*seeds[:2], limits=limits) == [NEW, NEW]
    answers = await trial.admit(link("a.example", "x?9"), seeds[2], link("a.example", "y"), limits=limits)
    assert answers == [SITE_FULL, NEW, SITE_FULL]
    roomy = AdmitLimits(path_variants=3, site_urls=9)
    assert await trial.admit(link("a.example", "x?9"), link("a.example", "y"), limits=roomy) == [PATH_VARIANTS, NEW]


async def test_a_refused_variant_may_come_again_as_a_seed_in_the_same_batch(trial: Trial) -> None:
    limits = AdmitLimits(path_variants=1)
    day = link("a.example", "day?n=2")
    answers = await trial.admit(
        link("a.example", "day?n=1"), day, day, link("a.example", "day?n=2", is_seed=True), day, limits=limits
    )
    assert answers == [NEW, PATH_VARIANTS, PATH_VARIANTS, NEW, SEEN]


async def test_the_shares_hold_for_what_two_processes_offer_at_once(trial: Trial) -> None:
    other = await trial.another()
    limits = AdmitLimits(path_variants=5, site_urls=8)
    days = [link("a.example", f"day?n={number}") for number in range(20)]
    others = [link("a.example", str(number)) for number in range(20)]
    answers = await asyncio.gather(
        *(trial.store.admit([day, page], limits, now=0.0) for day, page in zip(days, others, strict=True)),
        *(other.admit([day, page], limits, now=0.0) for day, page in zip(days[::-1], others[::-1], strict=True)),
    )
    offers = [*zip(days, others, strict=True), *zip(days[::-1], others[::-1], strict=True)]
    new = [
        candidate
        for offer, answer in zip(offers, answers, strict=True)
        for candidate, reason in zip(offer, answer, strict=True)
        if reason is NEW
    ]
    trial.note_admitted(new)
    assert len(set(new)) == len(new) == 8
    assert sum(bool(candidate.path_fingerprint) for candidate in new) <= 5
    assert (await trial.counts()).queued == 8


async def test_the_shares_hold_in_a_batch_of_thousands(trial: Trial) -> None:
    limits = AdmitLimits(path_variants=1_100, site_urls=3_000)
    days = [link("a.example", f"day?n={number}") for number in range(2_000)]
    assert await trial.admit(*days, limits=limits) == [NEW] * 1_100 + [PATH_VARIANTS] * 900
    pages = [link("a.example", str(number)) for number in range(2_500)]
    assert await trial.admit(*pages, limits=limits) == [NEW] * 1_900 + [SITE_FULL] * 600
    # All of it at once, because one by one takes long: 3,000 are queued, no more and no fewer.
    await trial.own()
    await trial.release(await trial.lease_one(), dropped=Reason.SITE_FAILING)
    assert (await trial.counts()).outcomes == {Reason.SITE_FAILING: 2_999}


async def test_fingerprints_of_paths_take_all_64_bits(trial: Trial) -> None:
    paths = [1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1]
    limits = AdmitLimits(path_variants=1)
    for turn, expected in enumerate((NEW, PATH_VARIANTS)):
        candidates = [
            Candidate(f"https://a.example/{path}?{turn}", "a.example", 2 * number + turn, path_fingerprint=path)
            for number, path in enumerate(paths)
        ]
        assert await trial.admit(*candidates, limits=limits) == [expected] * len(paths)
