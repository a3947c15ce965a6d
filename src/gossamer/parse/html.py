"""What a page says: its links, its facts and its text, from decoded markup.

The only file beside text.py that knows the HTML library. It resolves no link (the caller does that for many at once,
against `Facts.base`) and judges none: `javascript:` and `mailto:` are there, only empty ones and bare fragments not.
"""

import re
from collections.abc import Iterable
from enum import StrEnum

import msgspec
import turbohtml

from gossamer.parse.taming import Safe, Taming, tame
from gossamer.parse.text import FORMATTING, LAID_OUT, MAX_SCORED_CHARACTERS, clean, texts
from gossamer.url import Url, canonicalise

#: What Heritrix takes from one page; beyond it a page is a trap or a dump.
MAX_LINKS = 6_000

#: Four times the longest URL that is admitted, for what resolving takes away (tabs, line ends, `../`).
MAX_HREF_CHARACTERS = 8_000

#: Characters of attributes read in all. A page of 1 MiB holds fewer; only elements that the parser multiplies (an
#: unclosed `<a>` is made again in every paragraph) show them more often.
MAX_READ_CHARACTERS = 16 << 20

#: A title or description that is longer is an article; ten times what search engines show.
MAX_LINE_CHARACTERS = 1_000

#: Enough for every directive that any search engine documents, with their values.
MAX_DIRECTIVES = 32

_MAX_TOKEN_CHARACTERS = 64
_TAGS = frozenset({"a", "area", "link", "iframe", "frame", "meta", "base", "title"})
_TAGS_WITH_TEXT = tuple(_TAGS | LAID_OUT)
_TAGS_WITH_STYLED_TEXT = (*_TAGS_WITH_TEXT, *FORMATTING)
#: The elements that the parser makes again (see taming.py), and with them what they say of their style.
_MULTIPLIED = FORMATTING | {"a"}
_FOLLOWED_RELATIONS = frozenset({"next", "canonical", "alternate"})
_META_NAMES = frozenset({"robots", "gossamer", "description", "og:description", "refresh"})
_ADDRESSED_TO_US = frozenset({"", "*", "gossamer"})
#: Directives that carry a value after a colon; any other word before a colon names a user agent.
_VALUED_DIRECTIVES = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})

#: https://html.spec.whatwg.org/#shared-declarative-refresh-steps, except that a missing time is forgiven before `url=`.
_REFRESH = re.compile(
    r"""\s*+ (?: (?:\d++ [\d.]*+ | \.[\d.]*+) (?:\s*+ [;,] \s*+ | \s++) (?:url \s*+ = \s*+)?+ | url \s*+ = \s*+ )
        (?: " (?P<double>[^"]*+) | ' (?P<single>[^']*+) | (?P<bare>.++) )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


class LinkKind(StrEnum):
    """The element that a link was found on; META is a refresh."""

    A = "a"
    AREA = "area"
    LINK = "link"
    IFRAME = "iframe"
    FRAME = "frame"
    META = "meta"


class Link(msgspec.Struct, frozen=True, gc=False):
    """One link as it was written (any character may be in it), trimmed, never empty; the base resolves it."""

    href: str
    kind: LinkKind
    rel: tuple[str, ...] = ()


class Facts(msgspec.Struct, frozen=True):
    """What one page says of itself, safe to store and to show: no control characters, every part bounded.

    `extract` makes it, the parse worker reads it. Links are in the order of the document; `links_left_out` counts those
    beyond the cap or too long to be a URL. Both texts are None where they were not asked for. `tamed` names
    what the page forced us to rewrite or to leave unread; it is empty for all but hostile or broken pages.
    """

    base: Url
    links: tuple[Link, ...] = ()
    links_left_out: int = 0
    title: str = ""
    description: str = ""
    language: str = ""
    canonical: str | None = None
    robots: tuple[str, ...] = ()
    noindex: bool = False
    nofollow: bool = False
    text: bytes | None = None
    """UTF-8, as the other one."""
    main_text: bytes | None = None
    tamed: tuple[Taming, ...] = ()


def extract(
    markup: str,
    url: Url,
    *,
    encoded: bytes | None = None,
    max_links: int = MAX_LINKS,
    with_text: bool = True,
    x_robots_tag: Iterable[str] = (),
) -> Facts:
    """Everything that is taken from the page at `url`, whatever its markup; `x_robots_tag` are its headers' values.

    `encoded` is the markup in UTF-8, for those who have it.
    """
    safe = tame(markup, encoded)
    tamed = safe.tamed
    # Shadow roots would hide their links from the walk; left as templates they are found.
    document = turbohtml.parse(safe.markup, positions=False, allow_declarative_shadow_roots=False)
    reading = _Reading(max_links)
    laid_out: list[turbohtml.Element] = []
    style_characters = 0
    anchors = 0
    # One walk for all, because finding the elements takes as long as reading them.
    for element in document.iter_elements(_tags(safe) if with_text else _TAGS):
        tag = element.tag
        if tag == "a":
            anchors += 1
            # Most of what is read are these: they go the shortest way.
            if reading.characters_left < 0:
                reading.left_out += 1
            else:
                reading.link(LinkKind.A, element.attr("href"), element.attr("rel"))
        elif tag in _TAGS:
            reading.read(tag, element)
            if tag in LAID_OUT:
                laid_out.append(element)
        elif tag in LAID_OUT:
            laid_out.append(element)
        elif style_characters <= MAX_SCORED_CHARACTERS:
            style_characters += _style_characters(element)
    if with_text and anchors > safe.anchors:
        # The parser has made some of them again.
        for element in document.iter_elements("a"):
            if style_characters > MAX_SCORED_CHARACTERS:
                break
            style_characters += _style_characters(element)
    if reading.characters_left < 0:
        tamed = (*tamed, Taming.ATTRIBUTES)
    root = document.root
    language = _line((root.attr("lang") if root is not None else None) or "")[:_MAX_TOKEN_CHARACTERS]
    directives = _unique((*reading.robots, *_header_directives(x_robots_tag)))
    plain = main = None
    if with_text:
        scored = style_characters <= MAX_SCORED_CHARACTERS
        if not scored:
            _strip_style(document)
        # Last: it uses the tree up.
        plain, main = texts(document, laid_out, scorable=safe.scorable)
        if not scored and Taming.ATTRIBUTES not in tamed:
            tamed = (*tamed, Taming.ATTRIBUTES)
        if not safe.scorable:
            tamed = (*tamed, Taming.SCORING)
    return Facts(
        base=_base(reading.base_href, url),
        links=tuple(reading.links),
        links_left_out=reading.left_out,
        title=reading.title or "",
        description=reading.description or reading.og_description or "",
        language=language,
        canonical=reading.canonical,
        robots=directives,
        noindex="noindex" in directives or "none" in directives,
        nofollow="nofollow" in directives or "none" in directives,
        text=plain,
        main_text=main,
        tamed=tamed,
    )


class _Reading:
    """One walk over one tree; `extract` feeds it the elements of `_TAGS` in document order and takes what it gathered.

    Once `characters_left` is negative no attribute is read any more: links are only counted, facts keep their value.
    """

    def __init__(self, max_links: int) -> None:
        self.characters_left = MAX_READ_CHARACTERS
        self.links: list[Link] = []
        self.left_out = 0
        self.base_href: str | None = None
        self.title: str | None = None
        self.description: str | None = None
        self.og_description: str | None = None
        self.canonical: str | None = None
        self.robots: list[str] = []
        self._max_links = max_links

    def read(self, tag: str, element: turbohtml.Element) -> None:
        """All but the anchors."""
        if self.characters_left < 0:
            self.left_out += tag == "area"
        elif tag == "meta":
            self._meta(element)
        elif tag == "link":
            self._related(element)
        elif tag == "title":
            # An SVG drawing has titles too.
            if self.title is None and element.namespace is turbohtml.Namespace.HTML:
                self.title = _line(element.text)
        elif tag == "base":
            if self.base_href is None:
                self.base_href = element.attr("href")
        elif tag == "area":
            self.link(LinkKind.AREA, element.attr("href"), element.attr("rel"))
        else:
            self.link(LinkKind(tag), element.attr("src"), None)

    def link(self, kind: LinkKind, href: str | None, rel: str | None) -> None:
        if href is None:
            return
        self.characters_left -= len(href)
        reference = href.strip()
        if not reference or reference[0] == "#":
            return
        if len(reference) > MAX_HREF_CHARACTERS or len(self.links) >= self._max_links:
            self.left_out += 1
            return
        if rel is None:
            self.links.append(Link(reference, kind))
        else:
            self.characters_left -= len(rel)
            self.links.append(Link(reference, kind, _tokens(rel)))

    def _related(self, element: turbohtml.Element) -> None:
        rel = element.attr("rel")
        if rel is None:
            return
        self.characters_left -= len(rel)
        relations = _tokens(rel)
        if "stylesheet" in relations or _FOLLOWED_RELATIONS.isdisjoint(relations):
            return
        href = element.attr("href")
        if href is not None and self.canonical is None and "canonical" in relations:
            reference = clean(href.strip())
            if 0 < len(reference) <= MAX_HREF_CHARACTERS:
                self.canonical = reference
        self.link(LinkKind.LINK, href, rel)

    def _meta(self, element: turbohtml.Element) -> None:
        name = _keyword(element.attr("name") or element.attr("property") or element.attr("http-equiv"))
        if name not in _META_NAMES:
            return
        content = element.attr("content")
        if content is None:
            return
        self.characters_left -= len(content)
        if name == "description":
            self.description = self.description or _line(content)
        elif name == "og:description":
            self.og_description = self.og_description or _line(content)
        elif name == "refresh":
            refresh = _REFRESH.match(content)
            if refresh is not None:
                self.link(LinkKind.META, refresh["double"] or refresh["single"] or refresh["bare"], None)
        elif len(self.robots) < MAX_DIRECTIVES:
            self.robots += _directives(content)


def _tags(safe: Safe) -> tuple[str, ...]:
    return _TAGS_WITH_STYLED_TEXT if safe.styled_formatting else _TAGS_WITH_TEXT


def _style_characters(element: turbohtml.Element) -> int:
    return len(element.attr("class") or "") + len(element.attr("id") or "")


def _strip_style(document: turbohtml.Document) -> None:
    for element in list(document.iter_elements(_MULTIPLIED)):
        attributes = element.attrs
        # Deleted unread: there may be a hundred thousand of them, each a megabyte.
        for name in ("class", "id"):
            if name in attributes:
                del attributes[name]


def _base(href: str | None, url: Url) -> Url:
    """The first base element with an href decides, as in browsers; one that is no http(s) URL is as good as none."""
    if href is None or len(href) > MAX_HREF_CHARACTERS:
        return url
    base = canonicalise(href, url)
    return base if isinstance(base, Url) else url


def _line(text: str) -> str:
    """One line: white space collapsed, control characters gone, cut to the cap."""
    # Cut first, generously, so that a megabyte in a title costs no more than a long one.
    return " ".join(clean(text[: 16 * MAX_LINE_CHARACTERS]).split())[:MAX_LINE_CHARACTERS]


def _keyword(text: str | None) -> str:
    return "" if text is None else text[:_MAX_TOKEN_CHARACTERS].strip().lower()


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(clean(text[: 8 * _MAX_TOKEN_CHARACTERS]).lower().split())


def _directives(content: str) -> list[str]:
    parts = _line(content).lower().split(",", MAX_DIRECTIVES)
    return [part.strip()[:_MAX_TOKEN_CHARACTERS] for part in parts if part.strip()]


def _header_directives(values: Iterable[str]) -> list[str]:
    """Directives of X-Robots-Tag headers that are for everyone or for us; `agent:` holds until the next one."""
    ours: list[str] = []
    for value in values:
        agent = ""
        for part in _directives(value):
            prefix, colon, rest = part.partition(":")
            directive = part
            if colon and prefix.strip() not in _VALUED_DIRECTIVES:
                agent, directive = prefix.strip(), rest.strip()
            if agent in _ADDRESSED_TO_US and directive:
                ours.append(directive)
    return ours


def _unique(directives: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(directives))[:MAX_DIRECTIVES]
