"""The copy of the seeds, admitted to the store batch by batch; how far it got stands in a file beside it."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import msgspec

from gossamer.config import UrlSettings
from gossamer.frontier.admission import AdmissionRules
from gossamer.frontier.refused_links import Found, RefusedLinks
from gossamer.frontier.store import Store
from gossamer.frontier.store_clock import SampledClock
from gossamer.frontier.traps import path_fingerprint
from gossamer.records import Candidate, Reason
from gossamer.seed.copy import read_seed
from gossamer.url import Url

#: Candidates in one call of the store: enough that the call costs little per seed, few enough that it is short.
BATCH_SEEDS = 2_000
_KNOWN_ANSWERS = frozenset({Reason.NEW, Reason.SEEN})


class Loaded(msgspec.Struct, frozen=True):
    """What one call of `load` has done so far. Each line was admitted or refused; the store's SEEN is a refusal too."""

    lines: int
    admitted: int
    refused: dict[Reason, int]
    is_complete: bool


class _Offset(msgspec.Struct, frozen=True):
    """The content of the file that says how far the copy was admitted."""

    offset_bytes: int


class SeedLoader:
    """Admits every line of the copy at least once, whenever it was killed; that is once, as the store knows the rest.

    The leader calls it, at the start of each run. It reads only what was not admitted yet, never the file as a whole.
    The offset is written after the store has answered and is synced, never before.
    """

    def __init__(
        self,
        seeds: Path,
        store: Store,
        rules: AdmissionRules,
        url_settings: UrlSettings,
        trace: RefusedLinks,
    ) -> None:
        self._seeds = seeds
        self._offset_file = _offset_file(seeds)
        self._store = store
        self._clock = SampledClock(store)
        self._rules = rules
        self._url_settings = url_settings
        self._trace = trace

    async def load(self, progress: Callable[[Loaded], None]) -> Loaded:
        """`progress` hears of each batch, and of the end."""
        lines = admitted = 0
        refused: Counter[Reason] = Counter()
        with closing(self._batches()) as batches:
            for batch, end_offset in batches:
                candidates = list(self._candidates(batch, refused))
                now = await self._clock.earliest()
                given = await self._store.admit(candidates, self._rules.limits, now=now)
                await self._store.sync()
                self._write_offset(end_offset)
                for candidate, answer in zip(candidates, given, strict=True):
                    if answer not in _KNOWN_ANSWERS:
                        self._trace.note(candidate.fingerprint, answer, 0, Found.SEED)
                answers = Counter(given)
                lines += len(batch)
                admitted += answers.pop(Reason.NEW, 0)
                refused.update(answers)
                progress(Loaded(lines, admitted, dict(refused), is_complete=False))
        loaded = Loaded(lines, admitted, dict(refused), is_complete=True)
        progress(loaded)
        return loaded

    def _batches(self) -> Generator[tuple[list[bytes], int]]:
        """Lines, and where the last of them ends."""
        with self._seeds.open("rb") as file:
            offset = _read_offset(self._offset_file)
            if 0 < offset <= self._seeds.stat().st_size:
                file.seek(offset - 1)
                if file.read(1) != b"\n":
                    offset = 0  # no line ends there: the file is damaged
            else:
                offset = 0
            file.seek(offset)
            while batch := list(islice(file, BATCH_SEEDS)):
                offset += sum(map(len, batch))
                yield batch, offset

    def _candidates(self, batch: list[bytes], refused: Counter[Reason]) -> Iterator[Candidate]:
        for line in batch:
            url = read_seed(line.decode(errors="replace"), self._url_settings)
            if not isinstance(url, Url):
                # The settings of a resume may be stricter than those that the copy was made with.
                refused[Reason.NOT_A_URL if url is None else Reason(url.reason.value)] += 1
                continue
            reason = self._rules.judge(url.text, url.site, depth=0, hops=0, is_seed=True)
            if reason is None:
                path = path_fingerprint(url.text)
                yield Candidate(url.text, url.site, url.fingerprint, is_seed=True, path_fingerprint=path)
            else:
                refused[reason] += 1
                self._trace.note(url.fingerprint, reason, 0, Found.SEED)

    def _write_offset(self, offset_bytes: int) -> None:
        temporary = self._offset_file.with_name(f"{self._offset_file.name}.part")
        temporary.write_bytes(msgspec.json.encode(_Offset(offset_bytes)))
        temporary.replace(self._offset_file)


def is_loaded(seeds: Path) -> bool:
    """Whether the whole copy was admitted, as far as the files say; for whoever looks on."""
    return seeds.exists() and _read_offset(_offset_file(seeds)) >= seeds.stat().st_size


def _offset_file(seeds: Path) -> Path:
    return seeds.with_name(f"{seeds.name}.offset")


def _read_offset(file: Path) -> int:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Offset).offset_bytes
    except (FileNotFoundError, msgspec.DecodeError):
        # A machine that lost its power may leave an empty file. From the start is never wrong, only slower.
        return 0
