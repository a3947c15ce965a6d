"""The conformance suite: what every store must do, one check for each promise of the contract.

A test of a store runs each of `checks()` on an empty frontier of its own:

    @pytest.mark.parametrize("check", checks(), ids=lambda check: check.__name__)
    def test_my_store(check: Check, tmp_path: Path) -> None:
        asyncio.run(run(check, lambda: MyStore(tmp_path / "frontier", slots=SLOTS)))

`run` asks for several handles where a check plays several processes; all of them must lead to the same frontier. The
checks need no test framework. Eight of the nine guarantees of the frontier stand here; the ninth, the cost of a URL in
a large frontier, is for a benchmark to show.

What the contract leaves open is left open here too: in which order slots are served, which of two sites that are due
at the same moment comes first, which numbers name leases and epochs.
"""

from gossamer.testing.stores.suite import (
    admission,
    batches,
    counting,
    leasing,
    names,
    owning,
    releasing,
    searching,
    shares,
    spooling,
    together,
)
from gossamer.testing.stores.suite.trial import SLOTS, Check, Trial, run

__all__ = ["SLOTS", "Check", "Trial", "checks", "run"]


def checks() -> list[Check]:
    """All checks, in reading order: admission first, then along the way of a URL."""
    stages = (admission, shares, leasing, releasing, spooling, owning, counting, searching, names, batches, together)
    return [check for stage in stages for name, check in vars(stage).items() if name.startswith("test_")]
