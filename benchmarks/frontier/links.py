"""Candidates as pages have them: of 100 links 60 lead to the page's own site and ten each to four others. Each says on
which page it was found."""

import random
from array import array

from gossamer.records import Candidate
from gossamer.url import stable_hash


class Links:
    """Draws candidates, evenly over all sites. Each site's URLs are numbered, so that any that was ever drawn can be
    named again. Those of another `part` are other URLs of the same sites."""

    def __init__(self, sites: int, part: int = 0) -> None:
        self._random = random.Random(4 + part)
        self._known = array("I", bytes(4 * sites))
        self._section = f"section-{part}" if part else "section"

    def pages(self, count: int, *, are_new: bool) -> list[Candidate]:
        """The links of so many pages, 100 of each."""
        links = []
        for _ in range(count):
            via = ""
            for number in (60, 10, 10, 10, 10):
                site = self._random.randrange(len(self._known))
                via = via or self._url(site, self._random.randrange(100))
                links += [self._link(site, via, are_new=are_new) for _ in range(number)]
        return links

    def seeds(self) -> list[Candidate]:
        return [self._link(site, "", are_new=True) for site in range(len(self._known))]

    def scattered(self, count: int) -> list[Candidate]:
        """New links, each to a site of its own: the worst that a page can do."""
        via = self._url(0, 0)
        return [self._link(self._random.randrange(len(self._known)), via, are_new=True) for _ in range(count)]

    def _link(self, site: int, via: str, *, are_new: bool) -> Candidate:
        if are_new:
            number = self._known[site]
            self._known[site] += 1
        else:
            number = self._random.randrange(self._known[site])
        url = self._url(site, number)
        return Candidate(url, f"site-{site}.example", stable_hash(url), depth=3, via=via)

    def _url(self, site: int, number: int) -> str:
        return f"https://www.site-{site}.example/{self._section}-{number % 7}/{number}-a-title-of-some-length.html"
