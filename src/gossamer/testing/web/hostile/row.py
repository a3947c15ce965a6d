"""What a row of the hostile catalogue is, and who plays it."""

from enum import StrEnum

import msgspec

from gossamer.testing.web.hostile.site import Expected


class Player(StrEnum):
    """Who does it. `page` is the server too, by what it writes; `pure` needs no network and stands in unit tests;
    `store` is the store's own server, which the nemesis stops."""

    SERVER = "server"
    RESOLVER = "resolver"
    PAGE = "page"
    PURE = "pure"
    STORE = "store"


class Row(msgspec.Struct, frozen=True):
    """One hazard. `later` says what the crawler has to learn first, and is empty if it is expected to survive it now.

    What is expected stands with each URL (`expectations` in `hostile`); here only where nothing plays the row.
    """

    number: int
    player: Player
    hazard: str
    played: str
    answer: str
    later: str = ""
    expected: tuple[Expected, ...] = ()

    @property
    def name(self) -> str:
        return f"h{self.number:02}"

    @property
    def site(self) -> str:
        """Where a crawl begins."""
        return f"{self.name}.test"
