"""What bounds a crawl: each rule, their order, and the words."""

import re

import msgspec
import pytest

from gossamer.config import Settings
from gossamer.frontier.store import Counts
from gossamer.report.bounds import BoundFacts, bound, size
from gossamer.report.sample import ProcessUse, Sample, StoreUse, SystemUse


def process(kind: str, cpu: float, number: int = 0) -> ProcessUse:
    return msgspec.convert(
        {
            "kind": kind,
            "name": f"{kind}-{number}",
            "pid": 1,
            "cpu": cpu,
            "cpu_seconds": 1.0,
            "memory_bytes": 1,
            "descriptors": 1,
            "pages_per_second": 1.0,
        },
        ProcessUse,
    )


def processes(*, fetch: float = 0.2, parse: float = 0.2, parsers: int = 2) -> list[ProcessUse]:
    return [
        process("leader", fetch),
        process("fetcher", 0.2, 1),
        *(process("parser", parse, index) for index in range(parsers)),
    ]


#: A crawl in full swing, that nothing holds back.
CALM = Sample(
    at=0,
    elapsed_seconds=60,
    counts=Counts(admitted=5_000, finished=900, leased=60, spooled=40, sites_waiting=200, sites_ready=150),
    in_flight=50,
    workers=1_000,
    backlog_pages=40,
    processes=processes(),
    store=StoreUse(seconds_per_call=0.035, calls_per_second=20),
    system=SystemUse(processors=8, cpu=0.3, disk_free_bytes=100 << 20),
)
FACTS = BoundFacts(
    delay_seconds=70, fetchers=2, parsers=2, fetcher_workers=500, min_free_bytes=256 << 20, total_seconds=2.0
)
COOLING = Counts(admitted=100, sites_waiting=3)
FULL = SystemUse(processors=2, cpu=0.97)

CASES: list[tuple[str, dict[str, object], dict[str, object], str]] = [
    ("work", {}, {}, "nothing holds it back: 4,000 URLs queued on 200 sites"),
    ("stopping", {}, {"is_stopping": True, "is_paused": True}, "stopping: 40 pages still to be parsed"),
    (
        "paused",
        {},
        {"is_paused": True, "is_store_away": True},
        "paused on the dashboard until it is resumed there; 4,000 URLs queued",
    ),
    ("store", {}, {"is_store_away": True, "is_disk_paused": True}, "the store does not answer (outage 1)"),
    ("disk", {}, {"is_disk_paused": True}, "the disk is nearly full: 100.0 MiB free, --min-free is 256.0 MiB"),
    ("shortage", {}, {"is_short": True, "is_held_back": True}, "short of disk, descriptors or memory"),
    # The fetchers are held back by the parsers.
    (
        "parse-cpu",
        {"processes": processes(parse=0.97), "backlog_pages": 2_345},
        {"is_held_back": True},
        "all 2 parsers are busy (97% CPU), 2,345 pages wait for a parser; --num-parser-processes raises this",
    ),
    (
        "parse-cpu",
        {"processes": processes(parse=0.97, parsers=1), "backlog_pages": 1},
        {"is_held_back": True},
        "the parser is busy (97% CPU), 1 page waits for a parser; --num-parser-processes raises this",
    ),
    (
        "machine-cpu",
        {"processes": processes(parse=0.95), "system": SystemUse(processors=2, cpu=0.8)},
        {"is_held_back": True},
        "all 2 processors are in use (80%), 2.3 of them by this crawl",
    ),
    ("machine-cpu", {"processes": processes(parse=0.6), "system": FULL}, {"is_held_back": True}, "all 2 processors"),
    (
        "store",
        {},
        {"is_held_back": True, "parsers_store_share": 0.62, "parsers_disk_share": 0.4},
        "parsers wait for the store 62% of the time (35 ms a call); --store names another",
    ),
    (
        "disk",
        {"backlog_pages": 2_345},
        {"is_held_back": True, "parsers_store_share": 0.4, "parsers_disk_share": 0.5},
        "parsers wait for the disk 50% of the time; 2,345 pages wait for a parser",
    ),
    ("parse-cpu", {}, {"is_held_back": True}, "40 pages wait for a parser (20% CPU each); --num-parser-processes"),
    ("parse-cpu", {"processes": processes(parsers=0)}, {"is_held_back": True}, "none of 2 is running"),
    # They are not, and are busy themselves.
    (
        "fetch-cpu",
        {"processes": processes(fetch=0.98), "counts": COOLING},
        {},
        "1 of 2 fetchers is busy (98% CPU); --num-fetcher-processes raises this",
    ),
    ("fetch-cpu", {"processes": [process("leader", 1.0)]}, {}, "the fetcher is busy (100% CPU)"),
    ("machine-cpu", {"processes": processes(fetch=0.98), "system": SystemUse(processors=2, cpu=0.8)}, {}, "all 2"),
    ("machine-cpu", {"system": FULL}, {}, "all 2 processors are in use (97%), 0.8 of them by this crawl"),
    (
        "machine-cpu",
        {"system": SystemUse(processors=1, cpu=1.0)},
        {},
        "the only processor is in use (100%), 80% by this crawl",
    ),
    # The budget is given out, whatever is due.
    (
        "work",
        {"counts": Counts(admitted=5_000, pages=900, leased=60, spooled=40, sites_waiting=9)},
        {"max_pages": 1_000},
        "the last 100 of --max-pages 1,000 are being fetched, parsed and written",
    ),
    ("work", {"counts": Counts(admitted=9, pages=5)}, {"max_pages": 5}, "all pages of --max-pages 5 are there"),
    # Politeness.
    (
        "politeness",
        {"counts": COOLING, "next_request_seconds": 41.2, "in_flight": 0},
        {},
        "all 3 sites are cooling; next request in 41 s; --delay lowers this",
    ),
    (
        "politeness",
        {"counts": Counts(admitted=9, sites_waiting=1), "next_request_seconds": 3.14},
        {},
        "the only site is cooling; next request in 3.1 s; --delay lowers this",
    ),
    (
        "politeness",
        {"counts": Counts(admitted=999, leased=2, sites_waiting=118, sites_busy=2), "next_request_seconds": 0.02},
        {},
        "118 of 120 sites are cooling; --delay lowers this",
    ),
    (
        "politeness",
        {"counts": Counts(admitted=9, leased=1, sites_waiting=1, sites_busy=1)},
        {},
        "1 of 2 sites is cooling; --delay lowers this",
    ),
    # Without a page so far, the failures are what matters; those that only waited for their turn are none.
    (
        "politeness",
        {
            "counts": Counts(
                admitted=2, sites_waiting=2, retries={"connect": 1, "dns": 2, "origin-held": 7}, outcomes={}
            ),
            "next_request_seconds": 10.0,
        },
        {},
        "all 2 sites are cooling; next request in 10 s; no page yet, 3 attempts failed so far: 2 dns, 1 connect",
    ),
    (
        "politeness",
        {"counts": Counts(admitted=2, pages=1, sites_waiting=2, retries={"dns": 2}), "next_request_seconds": 10.0},
        {},
        "all 2 sites are cooling; next request in 10 s; --delay lowers this",
    ),
    (
        "politeness",
        {"counts": COOLING, "next_request_seconds": 240.0},
        {},
        "all 3 sites are cooling; next request in 240 s (a Crawl-delay, or a site that failed or was busy)",
    ),
    ("politeness", {"counts": COOLING, "next_request_seconds": 900.0}, {}, "next request in 15 min (a Crawl-delay"),
    (
        "politeness",
        {"counts": COOLING, "next_request_seconds": 5.0},
        {"delay_seconds": 0.0},
        "all 3 sites are cooling; next request in 5.0 s (a Crawl-delay, or a site that failed or was busy)",
    ),
    # Sites that wait for their server address are cooling too.
    (
        "server-address",
        {"counts": COOLING, "address_holds": 1_240, "fetches_per_second": 9.8},
        {"interval_seconds": 5.0},
        "many sites share a server address: 1,240 had no turn in the last 5.0 s; --address-gap lowers this",
    ),
    (
        "server-address",
        {"address_holds": 25, "fetches_per_second": 10.0, "system": FULL},
        {"interval_seconds": 5.0},
        "25 had no turn",
    ),
    ("politeness", {"counts": COOLING, "address_holds": 24, "fetches_per_second": 10}, {"interval_seconds": 5}, "cool"),
    (
        "servers",
        {"counts": COOLING, "address_holds": 99, "in_flight": 950, "fetches_per_second": 10},
        {"interval_seconds": 5},
        "950 of 1,000 workers wait for servers",
    ),
    # Some of very many are always due in the moment before they are leased.
    ("politeness", {"counts": Counts(admitted=900, sites_waiting=100, sites_ready=9)}, {}, "91 of 100 sites are cool"),
    ("work", {"counts": Counts(admitted=900, sites_waiting=100, sites_ready=11)}, {}, "nothing holds it back"),
    ("work", {"counts": Counts(admitted=9**9, sites_waiting=10**6, sites_ready=10**4)}, {}, "nothing holds it back"),
    # However busy the machine is with other things.
    ("politeness", {"counts": COOLING, "system": FULL}, {}, "all 3 sites are cooling"),
    # Most sites are being asked, and a site is asked one thing at a time.
    ("machine-cpu", {"counts": Counts(admitted=99, sites_waiting=38, sites_busy=74), "system": FULL}, {}, "all 2 proc"),
    (
        "servers",
        {"counts": Counts(admitted=99, leased=74, sites_waiting=38, sites_busy=74), "in_flight": 74},
        {},
        "74 of 112 sites are being asked, one request at a time (2.0 s a request)",
    ),
    ("servers", {"counts": Counts(admitted=9, leased=1, sites_busy=1)}, {}, "the only site is being asked, one"),
    # All workers that there may be wait; how many there are now says nothing.
    ("work", {"in_flight": 80, "workers": 80}, {}, "nothing holds it back"),
    (
        "servers",
        {"in_flight": 950, "counts": COOLING},
        {"dns_seconds": 0.1},
        "950 of 1,000 workers wait for servers (2.0 s a request); --fetcher-workers raises this",
    ),
    ("servers", {"in_flight": 1_000}, {"total_seconds": None}, "1,000 of 1,000 workers wait for servers; --fetcher"),
    (
        "dns",
        {"in_flight": 950},
        {"dns_seconds": 1.22},
        "950 of 1,000 workers are busy, 61% of the time with names; --resolver names a faster server",
    ),
    (
        "store",
        {"store": StoreUse(seconds_per_call=0.2, waiting=3)},
        {"fetchers_store_share": 0.75},
        "fetchers wait for the store 75% of the time (200 ms a call); --store-pool raises this",
    ),
    # Nothing to do.
    ("work", {"counts": Counts(admitted=7)}, {"are_seeds_loaded": False}, "the seeds are being read: 7 URLs so far"),
    (
        "work",
        {"counts": Counts(admitted=9, finished=6, leased=1, spooled=2, sites_busy=1), "in_flight": 1},
        {},
        "nothing more is queued: 1 being fetched, 2 being parsed or written",
    ),
    ("work", {"counts": Counts(admitted=1, finished=1), "in_flight": 0}, {}, "nothing is queued: 1 URL finished"),
]


@pytest.mark.parametrize(("by", "of_sample", "of_facts", "words"), CASES)
def test_what_bounds_a_crawl(by: str, of_sample: dict[str, object], of_facts: dict[str, object], words: str) -> None:
    found = bound(msgspec.structs.replace(CALM, **of_sample), msgspec.structs.replace(FACTS, **of_facts))
    assert found.by == by
    assert words in found.because
    assert len(found.because) <= 110


def test_a_sample_with_nothing_in_it_is_judged_too() -> None:
    assert bound(Sample(at=0, elapsed_seconds=0), BoundFacts()).by == "work"


def test_every_flag_that_is_named_exists() -> None:
    fields = [
        field.encode_name.replace("_", "-")
        for section in msgspec.structs.asdict(Settings()).values()
        for field in msgspec.structs.fields(section)
    ]
    for _, of_sample, of_facts, _ in CASES:
        because = bound(
            msgspec.structs.replace(CALM, **of_sample),
            msgspec.structs.replace(FACTS, **of_facts),
        ).because
        for flag in re.findall(r"--([a-z-]+)", because):
            assert flag in fields


def test_sizes_are_written_as_the_settings_have_them() -> None:
    assert [size(number) for number in (0, 1, 1023, 1024, 256 << 20, (1 << 30) - 1, 3 << 39)] == [
        "0 bytes",
        "1 byte",
        "1,023 bytes",
        "1.0 KiB",
        "256.0 MiB",
        "1.0 GiB",
        "1.5 TiB",
    ]
