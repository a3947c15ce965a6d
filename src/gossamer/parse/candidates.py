"""From what pages and redirects point at to the candidates that are offered to the store.

A link is a candidate of the next depth. A redirect's target stays at the depth of what was redirected, one hop further,
and is a seed if that was one; it stands at the head of its site's queue.

`nofollow` is taken at its word in both places: a page that says it has no links for us, and neither is a link that
carries it. It costs an archive little (what matters is linked elsewhere without it) and spares sites the login, sort
and calendar pages that they mark so.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

from gossamer.config import UrlSettings
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.refused_links import CODE, TAG, Found, RefusedLinks
from gossamer.frontier.traps import path_fingerprint
from gossamer.parse.html import Link
from gossamer.records import Candidate, Lease, Reason
from gossamer.url import Refusal, RefusalReason, Url, canonical_site, canonicalise, stable_hash

#: A power of two. A page brings some 60 that are new to it, so this spans some 30,000 pages. It takes 16 MB.
RECENT_FINGERPRINTS = 1 << 21

_KNOWN_ANSWERS = frozenset({Reason.NEW, Reason.SEEN})
_REFUSALS = {reason: Reason(reason.value) for reason in RefusalReason}


class Recent:
    """Fingerprints that the store knows for certain, so that offering them again is a waste; forgets most of the older.

    Filled from the store's answers alone: an offer that was never answered is no reason to drop the next one. Each has
    one place, by its last bits, and keeps it until another one wants it: a tenth of the memory of a set.
    """

    def __init__(self, places: int = RECENT_FINGERPRINTS) -> None:
        self.mask = places - 1
        self.places = array("Q", [0]) * places
        # No fingerprint is found in an empty place, not even 0 in its own.
        self.places[0] = 1

    def __contains__(self, fingerprint: int) -> bool:
        return self.places[fingerprint & self.mask] == fingerprint

    def update(self, fingerprints: Iterable[int]) -> None:
        places, mask = self.places, self.mask
        for fingerprint in fingerprints:
            places[fingerprint & mask] = fingerprint


class Candidates:
    """Makes candidates, each link once per offer, and counts why the others are none. The parser worker calls it.

    An *offer* is what one call of the store is asked about: links by fingerprint. This class never talks to the store;
    what the store said is brought to it by `answered`.
    """

    def __init__(
        self, rules: AdmissionRules, settings: UrlSettings, max_link_bytes: int, refused: RefusedLinks
    ) -> None:
        self.nofollow = 0
        """Links left alone because of it."""
        self._refused = refused
        self._rules = rules
        self._settings = settings
        self._max_link_bytes = max_link_bytes
        self._recent = Recent()

    @property
    def refused(self) -> Counter[Reason]:
        """By the rules, by `canonicalise` and by the store. That it was seen before is no refusal."""
        return self._refused.counted

    def add_links(
        self, offer: dict[int, Candidate], lease: Lease, base: Url, links: Sequence[Link], *, nofollow: bool
    ) -> None:
        """The links of the page that was fetched as `lease`; `base` is what they are resolved against.

        A small page with a long `<base>` has many megabytes of URLs: those that are new may take `max_link_bytes`.
        """
        if nofollow:
            self.nofollow += len(links)
            return
        followed = [link.href for link in links if "nofollow" not in link.rel]
        self.nofollow += len(links) - len(followed)
        depth, via, settings = lease.depth + 1, lease.url, self._settings
        scheme, origin = f"{base.scheme}:", base.origin
        # Looked into for each link: to call a method for it would cost a twentieth of all this.
        recent, judge, refused = self._recent, self._rules.judge, self._refused
        places, mask = recent.places, recent.mask
        cells, cell_mask, counts, marks = refused.cells, refused.cell_mask, refused.counts, refused.marks(depth)
        room = self._max_link_bytes
        for reference in dict.fromkeys(followed):
            site: str | None = None
            text, fingerprint = reference, 0
            if reference.isascii():
                # Most are canonical as they stand, or behind the page's origin. What is known by this fingerprint needs
                # no reading: no text has it but that of the canonical URL.
                if reference[0] == "/":
                    text = (scheme if reference[1:2] == "/" else origin) + reference
                fingerprint = stable_hash(text)
                if places[fingerprint & mask] == fingerprint or fingerprint in offer:
                    continue
                site = canonical_site(text, settings)
            if site is None:
                url = canonicalise(reference, base, settings)
                if isinstance(url, Refusal):
                    refused.count(_REFUSALS[url.reason])
                    continue
                text, site, fingerprint = url.text, url.site, url.fingerprint
                if fingerprint in recent or fingerprint in offer:
                    continue
            reason = judge(text, site, depth, 0, False)
            if reason is None and len(text) > room:
                reason = Reason.LINK_BYTES
            if reason is None:
                room -= len(text)  # canonical URLs are ASCII
                path = path_fingerprint(text) if "?" in text or ";" in text else 0
                offer[fingerprint] = Candidate(text, site, fingerprint, depth, 0, False, False, path, via)
            else:
                # What `refused.note` does.
                mark = marks[reason]
                counts[mark & CODE] += 1
                cells[fingerprint & cell_mask] = fingerprint & TAG | mark

    def of_redirect(self, lease: Lease, location: str | None) -> list[Candidate]:
        """Where the answer to `lease` sends us, if anywhere. Known or not: a seed makes its site a seeded one."""
        if location is None:
            return []
        base = canonicalise(lease.url, None, self._settings)
        url = base if isinstance(base, Refusal) else canonicalise(location, base, self._settings)
        if isinstance(url, Refusal):
            self._refused.count(_REFUSALS[url.reason])
            return []
        depth, hops, is_seed = lease.depth, lease.hops + 1, lease.is_seed
        reason = self._rules.judge(url.text, url.site, depth, hops, is_seed)
        if reason is not None:
            self._refused.note(url.fingerprint, reason, depth, Found.REDIRECT)
            return []
        path = path_fingerprint(url.text)
        return [Candidate(url.text, url.site, url.fingerprint, depth, hops, is_seed, True, path, lease.url)]

    def answered(self, candidates: Sequence[Candidate], answers: Sequence[Reason]) -> None:
        """What the store said to an offer, in its order."""
        known: list[int] = []
        note = self._refused.note
        for candidate, answer in zip(candidates, answers, strict=True):
            if answer in _KNOWN_ANSWERS:
                known.append(candidate.fingerprint)
            else:
                note(candidate.fingerprint, answer, candidate.depth, Found.REDIRECT if candidate.hops else 0)
        self._recent.update(known)
