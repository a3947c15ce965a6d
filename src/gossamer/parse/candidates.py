"""From what pages and redirects point at to the candidates that are offered to the store.

A link is a candidate of the next depth. A redirect's target stays at the depth of what was redirected, one hop further,
and is a seed if that was one; it stands at the head of its site's queue.

`nofollow` is taken at its word in both places: a page that says it has no links for us, and neither is a link that
carries it. It costs an archive little (what matters is linked elsewhere without it) and spares sites the login, sort
and calendar pages that they mark so.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from gossamer.config import UrlSettings
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.traps import path_fingerprint
from gossamer.parse.html import Link
from gossamer.records import Candidate, Lease, Reason
from gossamer.url import Refusal, RefusalReason, Url, canonicalise

#: Of one generation. A page brings some 50 that are new to it, so two generations span 2,000 to 4,000 pages. They take
#: 16 MB.
RECENT_FINGERPRINTS = 100_000

_KNOWN_ANSWERS = frozenset({Reason.NEW, Reason.SEEN})
_REFUSALS = {reason: Reason(reason.value) for reason in RefusalReason}


class Recent:
    """Fingerprints that the store knows for certain, so that offering them again is a waste; forgets the oldest.

    Filled from the store's answers alone: an offer that was never answered is no reason to drop the next one.
    """

    def __init__(self, limit: int = RECENT_FINGERPRINTS) -> None:
        self._limit = limit
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __contains__(self, fingerprint: int) -> bool:
        if fingerprint in self._young:
            return True
        if fingerprint in self._old:
            # What is linked again and again survives its generation.
            self._young.add(fingerprint)
            return True
        return False

    def update(self, fingerprints: Iterable[int]) -> None:
        self._young.update(fingerprints)
        if len(self._young) > self._limit:
            self._old, self._young = self._young, set()


class Candidates:
    """Makes candidates, each link once per offer, and counts why the others are none. The parser worker calls it.

    An *offer* is what one call of the store is asked about: links by fingerprint. This class never talks to the store;
    what the store said is brought to it by `answered`.
    """

    def __init__(self, rules: AdmissionRules, settings: UrlSettings) -> None:
        self.nofollow = 0
        """Links left alone because of it."""
        self.refused: Counter[Reason] = Counter()
        """By the rules, by `canonicalise` and by the store. That it was seen before is no refusal."""
        self._rules = rules
        self._settings = settings
        self._recent = Recent()

    def add_links(
        self, offer: dict[int, Candidate], lease: Lease, base: Url, links: Sequence[Link], *, nofollow: bool
    ) -> None:
        """The links of the page that was fetched as `lease`; `base` is what they are resolved against."""
        if nofollow:
            self.nofollow += len(links)
            return
        followed = [link.href for link in links if "nofollow" not in link.rel]
        self.nofollow += len(links) - len(followed)
        depth, via, settings = lease.depth + 1, lease.url, self._settings
        recent, judge = self._recent, self._rules.judge
        for reference in dict.fromkeys(followed):
            url = canonicalise(reference, base, settings)
            if isinstance(url, Refusal):
                self.refused[_REFUSALS[url.reason]] += 1
                continue
            fingerprint = url.fingerprint
            if fingerprint in offer or fingerprint in recent:
                continue
            reason = judge(url.text, url.site, depth, 0, False)
            if reason is None:
                offer[fingerprint] = Candidate(
                    url.text, url.site, fingerprint, depth, path_fingerprint=path_fingerprint(url.text), via=via
                )
            else:
                self.refused[reason] += 1

    def of_redirect(self, lease: Lease, location: str | None) -> list[Candidate]:
        """Where the answer to `lease` sends us, if anywhere. Known or not: a seed makes its site a seeded one."""
        if location is None:
            return []
        base = canonicalise(lease.url, None, self._settings)
        url = base if isinstance(base, Refusal) else canonicalise(location, base, self._settings)
        if isinstance(url, Refusal):
            self.refused[_REFUSALS[url.reason]] += 1
            return []
        depth, hops, is_seed = lease.depth, lease.hops + 1, lease.is_seed
        reason = self._rules.judge(url.text, url.site, depth, hops, is_seed)
        if reason is not None:
            self.refused[reason] += 1
            return []
        path = path_fingerprint(url.text)
        return [Candidate(url.text, url.site, url.fingerprint, depth, hops, is_seed, True, path, lease.url)]

    def answered(self, candidates: Sequence[Candidate], answers: Sequence[Reason]) -> None:
        """What the store said to an offer, in its order."""
        known: list[int] = []
        for candidate, answer in zip(candidates, answers, strict=True):
            if answer in _KNOWN_ANSWERS:
                known.append(candidate.fingerprint)
            else:
                self.refused[answer] += 1
        self._recent.update(known)
