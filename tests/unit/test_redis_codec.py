"""What the script that admits is given of a batch."""

from typing import Any

from gossamer.frontier.slots import slot_of
from gossamer.frontier.stores.entries import entry_of
from gossamer.frontier.stores.redis_codec import Step, answers, steps
from gossamer.records import Candidate, Reason

SLOTS = 8
MOST = 100
#: Values of one group.
GROUP = 6


def candidate(number: int, sites: int = 1, **more: Any) -> Candidate:
    site = f"s{number % sites}.test"
    return Candidate(f"http://{site}/{number}", site, number + 1, 1, **more)


def groups_of(step: Step) -> list[tuple[int, list[Any]]]:
    """Slot and values of each."""
    return [
        (slot, values[begin : begin + GROUP])
        for slot, values in zip(step.slots, step.groups, strict=True)
        for begin in range(0, len(values), GROUP)
    ]


def test_every_candidate_is_in_one_step_in_the_slot_of_its_site_and_in_its_order() -> None:
    batch = [candidate(number, sites=7) for number in range(950)]
    made = list(steps(batch, SLOTS, MOST))
    by_site: dict[str, list[str]] = {}
    for step in made:
        at, entries = 0, b""
        for slot, (site, size_bytes, fingerprints, *_) in groups_of(step):
            assert slot == slot_of(site, SLOTS)
            by_site.setdefault(site, []).extend(fingerprints)
            places = step.places[at : at + len(fingerprints)]
            of_group = b"".join(entry_of(batch[place]) for place in places)
            assert len(of_group) == size_bytes
            assert fingerprints == [str(batch[place].fingerprint) for place in places]
            entries += of_group
            at += len(fingerprints)
        assert at == len(step.places) <= MOST
        assert step.entries == entries
    assert by_site == {f"s{first}.test": [str(number + 1) for number in range(first, 950, 7)] for first in range(7)}


def test_fingerprints_travel_as_signed_numbers() -> None:
    batch = [
        Candidate("http://a.test/", "a.test", (1 << 64) - 1, path_fingerprint=1 << 63),
        Candidate("http://a.test/1", "a.test", (1 << 63) - 1, path_fingerprint=7),
        Candidate("http://a.test/2", "a.test", 1 << 63),
    ]
    [step] = steps(batch, SLOTS, MOST)
    [(_, (_, _, fingerprints, variants, paths, _))] = groups_of(step)
    assert fingerprints == ["-1", str((1 << 63) - 1), str(-(1 << 63))]
    assert (variants, paths) == ([1, 2], [str(-(1 << 63)), "7"])


def test_what_is_unusual_is_said_of_its_own_site_alone() -> None:
    usual = [candidate(number, sites=3) for number in (0, 3)]
    unusual = [candidate(1, sites=3, is_seed=True), candidate(4, sites=3, at_head=True)]
    twice = [candidate(2, sites=3), candidate(2, sites=3)]
    [step] = steps([*usual, *unusual, *twice], SLOTS, MOST)
    said = {values[0]: values[-1] for _, values in groups_of(step)}
    assert said == {"s0.test": False, "s1.test": (False, [1], [2]), "s2.test": (True, False, False)}


def test_an_answer_goes_to_its_place_in_the_batch() -> None:
    batch = [candidate(number, sites=5) for number in range(20)]
    [step] = steps(batch, SLOTS, MOST)
    reasons = [Reason.NEW] * len(batch)
    answers(step, [2, ord("S"), 20, ord("Q")], reasons)
    assert [place for place, reason in enumerate(reasons) if reason is Reason.SEEN] == [step.places[1]]
    assert [place for place, reason in enumerate(reasons) if reason is Reason.QUEUE_FULL] == [step.places[19]]
