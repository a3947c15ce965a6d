"""What a mistyped word was meant to be: only when it is close, because a wrong suggestion is worse than none."""

from collections.abc import Iterable

#: Words up to this length may differ by one mistake, longer ones by two.
_SHORT_WORD = 5


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that differs by a typing mistake or two, or the only one that `word` begins."""
    letters = _letters(word)
    candidates = list(known)
    allowed = 1 if len(letters) <= _SHORT_WORD else 2
    distance, best = min(
        ((_mistakes(letters, _letters(candidate)), candidate) for candidate in candidates), default=(0, None)
    )
    if best is not None and distance <= allowed:
        return best
    for beginning in (f"{letters}-", letters):
        longer = [candidate for candidate in candidates if _letters(candidate).startswith(beginning)]
        if len(letters) > 2 and len(longer) == 1:
            return longer[0]
    return None


def _letters(word: str) -> str:
    """Whether words are joined by `-` or `_` is not what makes them different."""
    return word.lower().lstrip("-").replace("_", "-")


def _mistakes(one: str, other: str) -> int:
    """How many letters are missing, added, wrong or swapped with their neighbour (optimal string alignment)."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        current = [row]
        for column, wanted in enumerate(other, start=1):
            cost = min(above[column] + 1, current[-1] + 1, above[column - 1] + (letter != wanted))
            is_swapped = row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted
            current.append(min(cost, before[column - 2] + 1) if is_swapped else cost)
        before, above = above, current
    return above[-1]
