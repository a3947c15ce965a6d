"""Every error of the libraries below the client has its reason; one that is new to us fails here."""

import errno
import inspect
import ssl

import aiodns
import httptools.parser.errors
import pytest

from gossamer.fetch.translation import FOREIGN_ERRORS, describe, reason_for
from gossamer.records import Reason

#: By name: what the resolver's codes mean for a crawl.
NAME_CODES = {
    "ARES_EADDRGETNETWORKPARAMS": Reason.OUR_SHORTAGE,
    "ARES_EBADFAMILY": Reason.DNS,
    "ARES_EBADFLAGS": Reason.DNS,
    "ARES_EBADHINTS": Reason.DNS,
    "ARES_EBADNAME": Reason.DNS,
    "ARES_EBADQUERY": Reason.DNS,
    "ARES_EBADRESP": Reason.DNS,
    "ARES_EBADSTR": Reason.DNS,
    "ARES_ECANCELLED": Reason.OUR_SHORTAGE,
    "ARES_ECONNREFUSED": Reason.OUR_SHORTAGE,
    "ARES_EDESTRUCTION": Reason.OUR_SHORTAGE,
    "ARES_EFILE": Reason.OUR_SHORTAGE,
    "ARES_EFORMERR": Reason.DNS,
    "ARES_ELOADIPHLPAPI": Reason.OUR_SHORTAGE,
    "ARES_ENODATA": Reason.DNS,
    "ARES_ENOMEM": Reason.OUR_SHORTAGE,
    "ARES_ENONAME": Reason.DNS,
    "ARES_ENOTFOUND": Reason.DNS,
    "ARES_ENOTIMP": Reason.DNS,
    "ARES_ENOTINITIALIZED": Reason.OUR_SHORTAGE,
    "ARES_EOF": Reason.DNS,
    "ARES_EREFUSED": Reason.DNS,
    "ARES_ESERVFAIL": Reason.DNS,
    "ARES_ESERVICE": Reason.DNS,
    "ARES_ETIMEOUT": Reason.DNS,
    "ARES_SUCCESS": None,
}
PARSER_ERRORS = {
    "HttpParserError": Reason.PROTOCOL,
    "HttpParserCallbackError": Reason.PROTOCOL,
    "HttpParserInvalidStatusError": Reason.PROTOCOL,
    "HttpParserInvalidMethodError": Reason.PROTOCOL,
    "HttpParserInvalidURLError": Reason.PROTOCOL,
    "HttpParserUpgrade": Reason.PROTOCOL,
}
TLS_ERRORS = {
    "SSLError",
    "SSLZeroReturnError",
    "SSLWantReadError",
    "SSLWantWriteError",
    "SSLSyscallError",
    "SSLEOFError",
    "SSLCertVerificationError",
}
SOCKET_ERRORS = {
    errno.EMFILE: Reason.OUR_SHORTAGE,
    errno.ENFILE: Reason.OUR_SHORTAGE,
    errno.EADDRNOTAVAIL: Reason.OUR_SHORTAGE,
    errno.ENOBUFS: Reason.OUR_SHORTAGE,
    errno.ENOMEM: Reason.OUR_SHORTAGE,
    errno.ECONNREFUSED: Reason.CONNECT,
    errno.EHOSTUNREACH: Reason.CONNECT,
    errno.ENETUNREACH: Reason.CONNECT,
    errno.EACCES: Reason.CONNECT,
    errno.EPERM: Reason.CONNECT,
    errno.EINVAL: Reason.CONNECT,
    errno.EPROTO: Reason.CONNECT,
    errno.ECONNRESET: Reason.RESET,
    errno.ECONNABORTED: Reason.RESET,
    errno.EPIPE: Reason.RESET,
    errno.ETIMEDOUT: Reason.TIMEOUT,
}


def test_every_code_of_the_resolver_is_mapped() -> None:
    codes = {name: getattr(aiodns.error, name) for name in dir(aiodns.error) if name.startswith("ARES_")}
    assert set(codes) == set(NAME_CODES)
    found = {name: reason_for(aiodns.error.DNSError(code, name)) for name, code in codes.items() if code}
    assert found == {name: reason for name, reason in NAME_CODES.items() if reason is not None}
    assert reason_for(aiodns.error.DNSError()) is Reason.DNS


def test_every_error_of_the_http_parser_is_mapped() -> None:
    errors: dict[str, type[Exception]] = dict(inspect.getmembers(httptools.parser.errors, inspect.isclass))
    assert set(errors) == set(PARSER_ERRORS)
    assert {name: reason_for(error("text")) for name, error in errors.items()} == PARSER_ERRORS


def test_every_error_of_tls_is_mapped() -> None:
    errors = {
        error.__name__: error
        for _, error in inspect.getmembers(ssl, inspect.isclass)
        if issubclass(error, ssl.SSLError)
    }
    assert set(errors) == TLS_ERRORS
    assert {reason_for(error(1, "text")) for error in errors.values()} == {Reason.TLS}


@pytest.mark.parametrize(("code", "reason"), SOCKET_ERRORS.items())
def test_errors_of_sockets_are_the_sites_or_ours(code: int, reason: Reason) -> None:
    assert reason_for(OSError(code, "text")) is reason


def test_an_error_that_is_not_the_networks_is_not_taken_for_one() -> None:
    with pytest.raises(TypeError, match="has to be caught elsewhere"):
        reason_for(KeyError("a fault of ours"))
    assert not isinstance(KeyError(), FOREIGN_ERRORS)


def test_every_error_can_be_told_in_one_line() -> None:
    told = [
        describe(error)
        for error in (
            TimeoutError(),
            OSError(errno.EMFILE, "Too many open files"),
            aiodns.error.DNSError(4, "Domain name not found"),
            httptools.HttpParserError("Invalid header"),
            ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"),
        )
    ]
    assert told == ["timed out", "Too many open files", "Domain name not found", "Invalid header", "no tls"]
