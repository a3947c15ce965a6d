"""Certificates and handshakes that go wrong: rows 42 and 43."""

import datetime as dt
import ssl
import warnings

from gossamer.testing.web.certificates import Authority, TlsBehaviour
from gossamer.testing.web.hostile.site import Expected, Place, Site, document, page, silence

_DAY = dt.timedelta(days=1)


def sites() -> dict[int, Site]:
    reached = page(document("Reached", "whatever the certificate says"))
    # With --verify-tls each of them fails; a broad crawl fetches and records.
    unverified = (Expected.DONE, Expected.TLS)
    certificates: Site = {
        f"{word}.h42.test/": Place(play=reached, expected=unverified, scheme="https")
        for word in ("expired", "not-yet", "self-signed", "wrong-host")
    }
    certificates["tls10.h42.test/"] = Place(play=reached, expected=(Expected.TLS,), scheme="https")
    return {
        42: certificates,
        43: {
            "stall.h43.test/": Place(play=silence, expected=(Expected.TIMEOUT,), scheme="https"),
            "h43.test/silence": Place(play=silence, expected=(Expected.TIMEOUT,)),
            "h43.test/silence?tls": Place(play=silence, expected=(Expected.TIMEOUT,), scheme="https"),
        },
    }


def tls_hosts() -> dict[str, TlsBehaviour]:
    """By host: what it shows instead of a good certificate."""
    return {
        "expired.h42.test": _expired,
        "not-yet.h42.test": _not_yet,
        "self-signed.h42.test": lambda authority: authority.context(
            authority.leaf(["self-signed.h42.test"], self_signed=True)
        ),
        "wrong-host.h42.test": lambda authority: authority.context(authority.leaf(["elsewhere.test"])),
        "tls10.h42.test": _old_protocol,
        "stall.h43.test": lambda _authority: None,
    }


def _expired(authority: Authority) -> ssl.SSLContext:
    today = dt.datetime.now(dt.UTC)
    return authority.context(
        authority.leaf(["expired.h42.test"], not_before=today - 400 * _DAY, not_after=today - 35 * _DAY)
    )


def _not_yet(authority: Authority) -> ssl.SSLContext:
    today = dt.datetime.now(dt.UTC)
    return authority.context(
        authority.leaf(["not-yet.h42.test"], not_before=today + 35 * _DAY, not_after=today + 400 * _DAY)
    )


def _old_protocol(authority: Authority) -> ssl.SSLContext:
    context = authority.context(authority.leaf(["tls10.h42.test"]))
    # Libraries forbid by default what nobody should speak any more; this server speaks nothing else.
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1
    return context
