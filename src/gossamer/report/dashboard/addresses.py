"""Where the dashboard and the metrics of a running crawl are, and the token: `dashboard.json` in the data directory.

The leader writes it when its servers listen and removes it when it ends; a killed one leaves it behind, so whoever
reads it asks first whether the crawl runs. It is the owner's alone: who has the token may stop the crawl.
"""

import os
import secrets
from pathlib import Path

import msgspec

_NAME = "dashboard.json"


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """None: there is no such server."""

    dashboard: str | None = None
    """Such as `http://127.0.0.1:8470/`."""
    metrics: str | None = None
    """Such as `http://127.0.0.1:9470/metrics`."""
    token: str = ""

    @property
    def link(self) -> str | None:
        """The dashboard, with its controls. What follows the `#` stays in the browser: no server gets to see it."""
        return self.dashboard and f"{self.dashboard}#token={self.token}"


def make_token() -> str:
    """For one run: 128 bits, in letters that need no escape in a URL or a shell, and fit a line with the address."""
    return secrets.token_hex(16)


def addresses_file(data: Path) -> Path:
    return data / _NAME


def write_addresses(data: Path, addresses: Addresses) -> None:
    """The whole file or the one before, whatever happens."""
    path = addresses_file(data)
    temporary = data / f"{_NAME}.new"
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(addresses))
    temporary.replace(path)


def read_addresses(data: Path) -> Addresses | None:
    """None: there is none, or it cannot be read."""
    try:
        return msgspec.json.decode(addresses_file(data).read_bytes(), type=Addresses)
    except (OSError, msgspec.DecodeError):
        return None


def remove_addresses(data: Path) -> None:
    addresses_file(data).unlink(missing_ok=True)
