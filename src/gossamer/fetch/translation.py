"""What the libraries raise, as the reason that an outcome carries. The one place where foreign errors are judged."""

import errno
import ssl

import aiodns
import httptools

from gossamer.records import Reason

#: Of this machine or process. None says anything about the site that was asked.
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM}

#: No name server can be reached, or the resolver itself cannot go on: every name would fail alike.
_NAME_SHORTAGES = {
    aiodns.error.ARES_EADDRGETNETWORKPARAMS,
    aiodns.error.ARES_ECANCELLED,
    aiodns.error.ARES_ECONNREFUSED,
    aiodns.error.ARES_EDESTRUCTION,
    aiodns.error.ARES_EFILE,
    aiodns.error.ARES_ELOADIPHLPAPI,
    aiodns.error.ARES_ENOMEM,
    aiodns.error.ARES_ENOTINITIALIZED,
}

#: All that can come out of name lookups, sockets, TLS and the HTTP parser.
FOREIGN_ERRORS = (OSError, httptools.HttpParserError, httptools.HttpParserUpgrade, aiodns.error.DNSError)


def reason_for(error: Exception) -> Reason:
    """`error` is one of `FOREIGN_ERRORS`."""
    match error:
        case httptools.HttpParserError() | httptools.HttpParserUpgrade():
            return Reason.PROTOCOL
        case aiodns.error.DNSError():
            return Reason.OUR_SHORTAGE if error.args and error.args[0] in _NAME_SHORTAGES else Reason.DNS
        case ssl.SSLError():
            return Reason.TLS
        case TimeoutError():
            return Reason.TIMEOUT
        case ConnectionResetError() | ConnectionAbortedError() | BrokenPipeError():
            return Reason.RESET
        case OSError() if error.errno in _SHORTAGES:
            return Reason.OUR_SHORTAGE
        case OSError():
            return Reason.CONNECT
    raise TypeError(f"{error!r} is no error of the network, and has to be caught elsewhere") from error


def describe(error: Exception) -> str:
    """For a person, in one line; nothing in it was written by the other side."""
    if isinstance(error, aiodns.error.DNSError):
        return str(error.args[-1])
    if isinstance(error, ssl.SSLError):
        # Only what OpenSSL itself raised has these two.
        reason = getattr(error, "reason", None) or "no tls"
        return ": ".join([reason.lower().replace("_", " "), *filter(None, [getattr(error, "verify_message", "")])])
    # The loop's own time-outs say nothing at all.
    return getattr(error, "strerror", None) or str(error) or "timed out"
