"""Site to slot. A slot is what a fetcher owns; which fetcher owns it is decided by epochs, not here."""

from gossamer.url import stable_hash


def slot_of(site: str, slots: int) -> int:
    """The slot of a site: the same in every process of a crawl, whatever its hash seed."""
    return stable_hash(site) % slots
