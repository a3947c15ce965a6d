"""URLs refused for their address or port: which setting decides that, and whether it still does."""

from gossamer.config import FetchSettings
from gossamer.fetch.addresses import ports_of
from gossamer.look.attempts import Attempt
from gossamer.records import Reason
from gossamer.url import Url

#: In the detail of an outcome that was refused for its port.
_OF_PORTS = "blocked_ports"
#: In the detail of an outcome whose address is refused whatever the settings are.
_OF_STORE = "the crawl's store"


def blocked_advice(attempt: Attempt) -> str:
    """Which setting allows it; nothing where the attempt failed otherwise, or where no setting does."""
    detail = attempt.reason or ""
    if attempt.failure_kind != Reason.BLOCKED_ADDRESS or _OF_STORE in detail:
        return ""
    setting = "--blocked-ports without it" if _OF_PORTS in detail else "--allow-private-addresses"
    return f"it needs a new crawl with {setting}"


def is_still_blocked(attempt: Attempt, url: Url, settings: FetchSettings) -> bool:
    """Whether the settings as they are now would refuse again what this attempt was refused for."""
    if attempt.failure_kind != Reason.BLOCKED_ADDRESS:
        return False
    detail = attempt.reason or ""
    if _OF_PORTS in detail:
        return url.port in ports_of(settings.blocked_ports)
    return _OF_STORE in detail or not settings.allow_private_addresses
