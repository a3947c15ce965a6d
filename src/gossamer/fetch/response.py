"""One answer, read from its bytes: head and body within their limits. No socket, no clock."""

import io

import httptools

from gossamer.fetch.media_types import SNIFFED_BYTES, is_wanted, is_wanted_by_start
from gossamer.fetch.translation import describe, reason_for
from gossamer.records import Reason

#: Browsers take 256 KiB at most; beyond 64 KiB nothing but a fault or an attack was seen.
HEAD_BYTES = 64 << 10
MOST_HEADERS = 256
#: Of an answer that is no success: enough for any error page, which is kept for those who read the archive.
OTHER_BODY_BYTES = 1 << 20
#: Of these only the head counts: whoever is busy is not made to send more.
_HEAD_ONLY = frozenset({429, 503})
#: 100 and 103 come once or twice.
_MOST_INTERIM = 16
#: Chunk sizes, extensions and trailers: so much without any body in between, and in all so many times the body. A
#: server that sends each byte as a chunk of its own needs five times.
_FRAMING_BYTES = 64 << 10
_FRAMING_FACTOR = 8
#: What would begin a line of its own, or end a string early, wherever a head is written or read again.
_ONE_LINE = bytes.maketrans(b"\r\n\0", b"   ")


class Response:
    """Fed by an exchange until `is_over`; then either `failure` says why there is no answer, or the rest is the answer.

    It holds at most the head's limit and the body's, and the last piece that it was fed. A body that is not wanted (a
    busy server's, a declined media type) is over with its head. What has another status than 2xx has said what it had
    to say with that: whatever becomes of its body, it is an answer.
    """

    __slots__ = (
        "_framing_bytes",
        "_framing_in_a_row",
        "_head_bytes",
        "_interim",
        "_is_sniffing",
        "_is_until_close",
        "_max_body_bytes",
        "_parser",
        "_phrase",
        "_received",
        "_wanted",
        "body_bytes",
        "failure",
        "headers",
        "is_declined",
        "is_head_complete",
        "is_over",
        "is_success",
        "most_body_bytes",
        "status",
        "status_line",
        "truncated",
    )

    def __init__(self, max_body_bytes: int, wanted: frozenset[bytes] | None) -> None:
        self.status = 0
        self.status_line = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body_bytes = 0
        self.truncated = ""
        self.is_declined = False
        self.is_head_complete = False
        self.is_success = False
        """A 2xx, whose body is what was asked for."""
        self.is_over = False
        self.failure: tuple[Reason, str] | None = None
        self.most_body_bytes = max_body_bytes
        """The most that is kept of its body, as far as is known."""
        self._max_body_bytes = max_body_bytes
        self._wanted = wanted
        self._received = io.BytesIO()
        self._is_sniffing = False
        self._is_until_close = False
        self._interim = 0
        self._head_bytes = 0
        self._framing_bytes = 0
        self._framing_in_a_row = 0
        self._phrase = b""
        self._parser = httptools.HttpResponseParser(self)
        # What old servers do and cannot be misread on a connection that carries one answer: odd characters and folds in
        # header values, lines that end without CR, spaces behind a chunk's size.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    @property
    def body(self) -> bytes:
        # Hands its buffer over, where pieces that are joined would all be there twice.
        return self._received.getvalue()

    def feed(self, data: bytes | memoryview) -> None:
        try:
            if not self.is_head_complete:
                # In steps, so that the parser never gathers more of a head than it may have.
                room = HEAD_BYTES - self._head_bytes
                first, data = data[:room], data[room:]
                self._head_bytes += len(first)
                self._parser.feed_data(first)
                if self._head_bytes == HEAD_BYTES and not self.status:
                    self.fail(Reason.TOO_LARGE, f"no end of the head within {HEAD_BYTES} bytes")
            if data and not self.is_over:
                before = self.body_bytes
                self._parser.feed_data(data)
                self._count_framing(len(data), self.body_bytes - before)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(reason_for(error), describe(error))

    def end(self) -> None:
        """The connection has ended: with the body, if nothing else says where that ends."""
        if self.is_over:
            return
        if self._is_until_close:
            self.on_message_complete()
        elif self.is_head_complete:
            self.cut("disconnect", Reason.RESET, "the connection ended before the body")
        else:
            self.fail(Reason.RESET, "the connection ended before the head of the answer")

    def cut(self, truncated: str, reason: Reason, detail: str) -> None:
        """Nothing more will come. What has come of a body is kept; if that is nothing, a success was no answer."""
        if self.is_over:
            return
        if not self.body_bytes:
            self.fail(reason, detail)
            return
        self.truncated = truncated
        self.is_over = True
        if self._is_sniffing:
            self._sniff()

    def fail(self, reason: Reason, detail: str) -> None:
        """There is no answer; or if it is no success and its head was read, no more of it."""
        if self.is_over:
            return
        if self.is_head_complete and not self.is_success:
            self.truncated = "time" if reason is Reason.TIMEOUT else "disconnect"
        else:
            self.failure = (reason, detail)
        self.is_over = True

    def let_go(self) -> None:
        """Once, when it is over. Its parser holds it: they would stay, with the body, until garbage is looked
        for."""
        del self._parser

    # What the parser calls. It goes through to the end of what it was fed, also when the answer is over.

    def on_status(self, phrase: bytes) -> None:
        # Piece by piece, as it comes.
        self._phrase += phrase

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.is_head_complete:
            return  # a trailer
        if len(self.headers) == MOST_HEADERS:
            self.fail(Reason.TOO_LARGE, f"more than {MOST_HEADERS} headers")
        elif not self.is_over:
            self.headers.append((name, value.translate(_ONE_LINE).strip()))

    def on_headers_complete(self) -> None:
        if self.is_head_complete or self.is_over:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._interim += 1
            self._phrase = b""
            self.headers.clear()
            if status < 100 or status == 101 or self._interim > _MOST_INTERIM:
                self.fail(Reason.PROTOCOL, f"status {status} where an answer was due")
            return
        self.status = status
        version = self._parser.get_http_version()
        self.status_line = f"HTTP/{version} {status} ".encode() + self._phrase.translate(_ONE_LINE)
        self.is_head_complete = True
        self.is_success = status < 300
        if status in _HEAD_ONLY:
            self.is_over = True
        else:
            self._judge_head()

    def on_body(self, piece: bytes) -> None:
        if self.is_over:
            return
        room = self._max_body_bytes - self.body_bytes
        self.body_bytes += self._received.write(piece[:room])
        if len(piece) > room:
            self.truncated = "length"
            self.is_over = True
        if self._is_sniffing and (self.is_over or self.body_bytes >= SNIFFED_BYTES):
            self._sniff()

    def on_message_complete(self) -> None:
        if self.is_head_complete:
            if self._is_sniffing:
                self._sniff()
            self.is_over = True

    def _judge_head(self) -> None:
        headers: dict[bytes, bytes] = {}
        for name, value in self.headers:
            headers.setdefault(name.lower(), value)
        is_chunked = headers.get(b"transfer-encoding", b"").lower().rstrip().endswith(b"chunked")
        length = headers.get(b"content-length")
        self._is_until_close = not is_chunked and length is None
        if not self.is_success:
            self._max_body_bytes = min(self._max_body_bytes, OTHER_BODY_BYTES)
        self.most_body_bytes = self._max_body_bytes
        if length is not None and not is_chunked and len(length) < 16 and length.isdigit():
            # The parser takes no more than that.
            self.most_body_bytes = min(self.most_body_bytes, int(length))
        if self.is_success and self._wanted is not None:
            wanted = is_wanted(headers.get(b"content-type"), self._wanted, is_encoded=b"content-encoding" in headers)
            self._is_sniffing = wanted is None
            if wanted is False:
                self._decline()

    def _sniff(self) -> None:
        self._is_sniffing = False
        content_type = next((value for name, value in self.headers if name.lower() == b"content-type"), None)
        if self._wanted is not None and not is_wanted_by_start(content_type, self._wanted, self.body[:SNIFFED_BYTES]):
            self._decline()

    def _decline(self) -> None:
        self._received = io.BytesIO()
        self.body_bytes = 0
        self.truncated = ""
        self.is_declined = True
        self.is_over = True

    def _count_framing(self, fed_bytes: int, body_bytes: int) -> None:
        framing_bytes = fed_bytes - body_bytes
        self._framing_bytes += framing_bytes
        self._framing_in_a_row = 0 if body_bytes else self._framing_in_a_row + framing_bytes
        if (
            self._framing_in_a_row > _FRAMING_BYTES
            or self._framing_bytes > _FRAMING_BYTES + _FRAMING_FACTOR * self.body_bytes
        ):
            self.fail(Reason.PROTOCOL, "chunk extensions or trailers without end")
