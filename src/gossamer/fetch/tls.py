"""TLS over bytes that somebody else carries. OpenSSL is driven by hand, not by the loop's own TLS transport: that one
holds 256 KiB for each connection, and has to be waited for when it is to end at once."""

import ssl

#: The flag of OpenSSL (`SSL_OP_LEGACY_SERVER_CONNECT`) has a name in Python from 3.12 on.
_LEGACY_SERVER_CONNECT = 0x4
#: One record of TLS is no longer.
_RECORD_BYTES = 16 << 10


def tls_context(*, verify: bool) -> ssl.SSLContext:
    """The one context of a client.

    Without `verify`, whoever answers is spoken to: small keys, old signatures and servers without secure renegotiation
    too. TLS 1.0 and 1.1 are not spoken in any case.
    """
    # OpenSSL looks for the issuer also where nobody wants to know: with no authorities loaded, a handshake costs less.
    context = ssl.create_default_context() if verify else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    # Many servers just close. Whether an answer is whole, its length or its last chunk tells.
    context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_ciphers("DEFAULT:@SECLEVEL=1")
        context.options |= _LEGACY_SERVER_CONNECT
    return context


class TlsStream:
    """The client's side of one TLS connection: bytes from the wire in, bytes for the wire and plain bytes out.

    Its exchange carries the bytes. Raises nothing but ssl.SSLError.
    """

    __slots__ = ("_incoming", "_object", "_outgoing", "is_established")

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        # An address is not sent as a server's name, only verified.
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self.is_established = False

    @property
    def version(self) -> str:
        """Of the protocol, as OpenSSL names it; empty before the handshake."""
        return self._object.version() or ""

    def handshake(self) -> None:
        """The next step of it; `is_established` says whether that was the last."""
        try:
            self._object.do_handshake()
            self.is_established = True
        except ssl.SSLWantReadError:
            pass

    def take(self, data: bytes | memoryview) -> None:
        self._incoming.write(data)

    def write(self, data: bytes) -> None:
        self._object.write(data)

    def outgoing(self) -> bytes:
        """What is to be sent next."""
        return self._outgoing.read()

    def read(self) -> bytes | None:
        """The next plain bytes; empty at the end of the stream, None if more has to come in first."""
        try:
            return self._object.read(_RECORD_BYTES)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLZeroReturnError:
            return b""
