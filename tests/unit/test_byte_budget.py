"""The budget of bytes in flight: who reads, who waits, and that the limit holds whatever happens."""

import heapq
import random
from typing import Literal

import pytest

from gossamer.config import ROBOTS_ALLOWANCE_BYTES, FetchSettings, ParseSettings, Settings
from gossamer.errors import UsageError
from gossamer.fetch.byte_budget import ALLOWANCE_BYTES, PATIENCE_SECONDS, ByteBudget, budget_for
from gossamer.fetch.connection import BUFFER_BYTES
from gossamer.fetch.response import OTHER_BODY_BYTES
from gossamer.fetch.robots import REDIRECT_LIMIT
from gossamer.fetch.robots_file import BODY_LIMIT_BYTES

MIB = 1 << 20
LIMIT = 64 * MIB
LARGEST = 4 * MIB
ROBOTS = 2 * MIB


class Body:
    """An exchange whose server always has more to send."""

    def __init__(
        self, budget: ByteBudget, size_bytes: int, holder: object = None, kind: Literal["page", "robots"] = "page"
    ) -> None:
        self.fetch_type: Literal["page", "robots"] = kind
        self.holder = holder or object()
        self.wait_number = 0
        self.is_waiting = False
        self.waiting_since = 0.0
        self.body_bytes = 0
        self.most_bytes = LARGEST
        self.is_over = False
        self._budget = budget
        self._size_bytes = size_bytes

    def read(self) -> None:
        """What the loop does when its socket can be read."""
        if self.is_waiting or self.is_over:
            return
        budget = self._budget
        room = BUFFER_BYTES if budget.used_bytes < budget.free_below_bytes else budget.room(self)
        taken = min(room, self._size_bytes - self.body_bytes)
        self.body_bytes += taken
        budget.used_bytes += taken
        assert budget.used_bytes <= budget.limit_bytes
        if self.body_bytes == self._size_bytes:
            self.is_over = True
            budget.ended(self, is_kept=True)

    def give_up_waiting(self) -> None:
        assert self.is_waiting
        self.is_over = True

    def go_on(self) -> None:
        assert not self.is_waiting
        self.read()


def made_budget(readers: int = 100) -> ByteBudget:
    return ByteBudget(LIMIT, largest_body_bytes=LARGEST, readers=readers, robots_bytes=ROBOTS)


def read_all(bodies: list[Body], turns: int = 100) -> None:
    for _ in range(turns):
        for body in bodies:
            body.read()


def test_many_large_bodies_stay_within_the_limit_and_all_end() -> None:
    budget = made_budget()
    bodies = [Body(budget, LARGEST) for _ in range(100)]
    ended = 0
    while ended < 100:
        read_all(bodies, 20)
        done = [body for body in bodies if body.is_over]
        # Some wait, and some have come to their end all the same: they are written, and make room.
        assert done
        bodies = [body for body in bodies if not body.is_over]
        ended += len(done)
        for body in done:
            budget.give_back(body.body_bytes)
    assert (budget.used_bytes, budget.waiting) == (0, 0)
    assert budget.waits > 0


def test_the_limit_holds_and_nothing_is_stuck_whatever_the_order() -> None:
    """Pages and robots.txt of all sizes, visits of several requests, bodies that fail or are cancelled while they wait,
    writing that comes late: seeds choose."""
    for seed in range(60):
        _play(random.Random(seed))


def _play(chance: random.Random) -> None:
    budget = made_budget(readers=40)
    to_come = 300
    #: Each visit: its holder, what it holds already, the requests that are left, the one that is made.
    visits: list[tuple[object, list[int], list[Body]]] = []
    unwritten: list[tuple[int, int]] = []
    for step in range(200_000):
        while to_come and len(visits) < 40:
            to_come -= 1
            holder = object()
            requests = [Body(budget, chance.randint(0, MIB), holder, "robots") for _ in range(chance.randint(0, 2))]
            visits.append(
                (
                    holder,
                    [],
                    [*requests, Body(budget, chance.choice([LARGEST, chance.randint(1, LARGEST), 1_000]), holder)],
                )
            )
        if not visits and not unwritten:
            break
        for visit in list(visits):
            holder, held, requests = visit
            body = requests[0]
            if chance.random() < 0.5:
                body.read()
            if not body.is_over and chance.random() < 0.001:
                body.is_over = True
                budget.ended(body, is_kept=False)
                requests.clear()
            elif body.is_over:
                held.append(body.body_bytes)
                requests.pop(0)
            if not requests:
                visits.remove(visit)
                heapq.heappush(unwritten, (step + chance.randint(0, 30), sum(held)))
                budget.delivered(holder)
        while unwritten and unwritten[0][0] <= step:
            budget.give_back(heapq.heappop(unwritten)[1])
    else:
        pytest.fail(f"stuck: {budget.used_bytes} bytes, {budget.waiting} wait")
    assert (budget.used_bytes, budget.waiting, to_come) == (0, 0, 0)


def test_small_bodies_pass_while_large_ones_wait() -> None:
    """Also where all small ones together have less than the reserve, and the visit with the grant has nearly all of it
    and does not end."""
    budget = made_budget(readers=16)
    large = [Body(budget, LARGEST) for _ in range(60)]
    for _ in range(LARGEST // BUFFER_BYTES):
        for body in large:
            if body.body_bytes < LARGEST - BUFFER_BYTES:
                body.read()
    assert budget.waiting >= 40
    assert budget.used_bytes > LIMIT - LARGEST - ROBOTS
    for _ in range(1_000):
        small = Body(budget, budget.allowance_bytes)
        read_all([small], 3)
        assert small.is_over
        budget.give_back(small.body_bytes)


def test_finished_bodies_that_nobody_writes_stop_everybody_within_the_limit() -> None:
    budget = made_budget()
    for _ in range(20):
        read_all([Body(budget, LARGEST) for _ in range(50)], 40)
    for _ in range(2_000):
        read_all([Body(budget, 1_000)], 2)
    held_bytes, waiting = budget.used_bytes, budget.waiting
    assert LIMIT - LARGEST - ROBOTS - BUFFER_BYTES <= held_bytes <= LIMIT
    assert waiting > 0
    budget.give_back(held_bytes)
    assert budget.waiting < waiting


def test_who_has_waited_longest_goes_on_first() -> None:
    budget = made_budget()
    other = Body(budget, 8 * LIMIT)
    budget.used_bytes = LIMIT
    waiting = [Body(budget, LARGEST) for _ in range(10)]
    for body in waiting:
        body.body_bytes = budget.allowance_bytes
        body.read()
    other.read()
    assert budget.waiting == 11
    # Room for two whole bodies.
    budget.give_back(LIMIT - (made_budget().free_below_bytes - 2 * (LARGEST + BUFFER_BYTES)))
    assert [body.is_waiting for body in waiting] == [False] * 2 + [True] * 8


def test_of_many_bodies_that_came_together_the_oldest_come_to_their_end() -> None:
    """All have begun, and their servers keep the last bytes back: without room for them only one would go on."""
    budget = made_budget()
    bodies = [Body(budget, LARGEST) for _ in range(100)]

    def read_but_the_last() -> None:
        for _ in range(LARGEST // BUFFER_BYTES):
            for body in bodies:
                if body.body_bytes < LARGEST - BUFFER_BYTES:
                    body.read()

    def gone_far() -> int:
        return sum(body.body_bytes == LARGEST - BUFFER_BYTES for body in bodies)

    read_but_the_last()
    assert gone_far() == 1
    assert budget.crowded_out(PATIENCE_SECONDS - 0.1, budget.used_bytes) == []
    # If most of it is finished, nobody has to go.
    assert budget.crowded_out(PATIENCE_SECONDS, budget.used_bytes // 3) == []
    for _ in range(100):
        crowded_out = budget.crowded_out(PATIENCE_SECONDS, budget.used_bytes)
        freed_bytes = sum(body.body_bytes for body in crowded_out)
        assert freed_bytes < 3 * LARGEST
        for body in crowded_out:
            body.give_up_waiting()
        # Whoever waits for their answers comes to it in the next turn of the loop.
        for body in crowded_out:
            budget.ended(body, is_kept=False)
        read_but_the_last()
    assert gone_far() >= made_budget().free_below_bytes // (LARGEST + BUFFER_BYTES) > 9
    # Those that had to wait first.
    left = [body.wait_number for body in bodies if not body.is_over]
    assert len(left) <= 20
    assert max(left) <= min(body.wait_number for body in bodies if body.is_over)


def test_a_visit_keeps_the_grant_from_robots_txt_to_its_page() -> None:
    budget = made_budget()
    budget.used_bytes = LIMIT - LARGEST - ROBOTS
    visit = object()
    robots = Body(budget, MIB, visit, "robots")
    read_all([robots])
    assert robots.is_over
    other = Body(budget, LARGEST)
    read_all([other])
    assert other.is_waiting
    page = Body(budget, LARGEST - BUFFER_BYTES, visit)
    read_all([page])
    assert page.is_over
    assert other.is_waiting
    budget.give_back(page.body_bytes + robots.body_bytes)
    read_all([other])
    assert other.is_over


def test_a_visit_that_ends_with_its_robots_txt_gives_the_grant_back() -> None:
    budget = made_budget()
    budget.used_bytes = LIMIT - LARGEST - ROBOTS
    visit = object()
    read_all([Body(budget, 1_000, visit, "robots"), other := Body(budget, LARGEST)])
    assert other.is_waiting
    budget.delivered(object())
    assert other.is_waiting
    budget.delivered(visit)
    read_all([other])
    assert other.is_over


def test_what_ends_while_it_waits_is_forgotten() -> None:
    budget = made_budget()
    budget.used_bytes = LIMIT
    bodies = [Body(budget, LARGEST) for _ in range(3)]
    read_all(bodies, 1)
    assert budget.waiting == 3
    for body in bodies[:2]:
        budget.ended(body, is_kept=False)
    assert budget.waiting == 1
    budget.give_back(LIMIT)
    assert bodies[2].body_bytes == BUFFER_BYTES
    assert (bodies[0].body_bytes, bodies[1].body_bytes, budget.waiting) == (0, 0, 0)


def test_a_budget_that_is_too_small_for_the_largest_body_is_refused() -> None:
    def settings(limit_bytes: int) -> Settings:
        return Settings(fetch=FetchSettings(max_in_flight_bytes=limit_bytes), parse=ParseSettings(max_body_bytes=MIB))

    least_bytes = 2 * (MIB + ROBOTS_ALLOWANCE_BYTES)
    assert budget_for(settings(least_bytes)).free_below_bytes > 0
    with pytest.raises(UsageError, match=f"give at least {least_bytes}"):
        budget_for(settings(least_bytes - 1))
    assert budget_for(Settings()).allowance_bytes == ALLOWANCE_BYTES


def test_a_visit_receives_no_more_beside_its_page_than_the_budget_allows_for() -> None:
    assert REDIRECT_LIMIT * OTHER_BODY_BYTES + BODY_LIMIT_BYTES + BUFFER_BYTES <= ROBOTS_ALLOWANCE_BYTES
