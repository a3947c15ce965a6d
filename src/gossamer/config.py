"""Every setting, once. Defaults, `gossamer.toml`, `GOSSAMER_*`, flags, help and docs/configuration.md come from here.

One frozen section per stage. Parts that need one section receive that one; fetchers and parsers, which need several,
receive them all. A setting has one name everywhere:
`max_links` stands under its section in the TOML file, is `GOSSAMER_MAX_LINKS` in the environment and `--max-links` on
the command line. Names are unique over all sections. How a value is read, judged and combined is in `layers.py`.

It has more than 400 lines because every setting is here, each with its description.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gossamer.endings import endings_to_skip
from gossamer.errors import UsageError
from gossamer.setting_types import COMMON, WORDING, Bytes, Patterns, Seconds, Words

SiteKey = Literal["domain", "host"]
Scope = Literal["any", "seeds"]
LogLevel = Literal["debug", "info", "warning", "error"]
#: The most that a visit can receive beside its page: robots.txt with its redirects (7 MiB), and one read.
ROBOTS_ALLOWANCE_BYTES = 8 << 20
_MEDIA_TYPES = "text/html application/xhtml+xml text/plain"
#: A `*` is a character of tokens elsewhere, and would then match only itself.
_MEDIA_TYPE = r"(\*/\*|[\w!#$&^.+-]+/([\w!#$&^.+-]+|\*))"
_ENDPOINT = r"(\[[0-9a-fA-F:.]+\]|[0-9.]+):\d{1,5}"


class IdentitySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who is crawling. A crawl needs at least one of the two: both stand in every request's user agent."""

    email: Annotated[
        str,
        COMMON,
        Meta(
            pattern=r"^([!-?A-~]+@[!-?A-~]+)?\Z",
            description="Address at which a site's owner reaches whoever runs the crawl.",
            extra={WORDING: "an e-mail address, such as crawl@example.org"},
        ),
    ] = ""
    contact: Annotated[
        str,
        COMMON,
        Meta(
            pattern=r"^(https?://[!-~]+)?\Z",
            description="Page that says what the crawl is for and how to be left out of it.",
            extra={WORDING: "an http: or https: URL, such as https://example.org/crawl"},
        ),
    ] = ""

    def user_agent(self, version: str) -> str:
        """What every request says of itself; refuses to speak for nobody."""
        contacts = [contact for contact in (self.contact, self.email) if contact]
        if not contacts:
            raise UsageError(
                "no contact is set, so no crawl: give --email ADDRESS or --contact URL"
                " (or GOSSAMER_EMAIL, GOSSAMER_CONTACT, or [identity] in gossamer.toml)"
            )
        return f"Gossamer/{version} (+{'; '.join(contacts)})"


class UrlSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a URL is: its identity, its site, its slot."""

    site_key: Annotated[
        SiteKey,
        Meta(description="The unit of politeness: the registrable domain, or each host by itself."),
    ] = "domain"
    slots: Annotated[
        int,
        Meta(ge=1, le=65536, description="Into how many slots the sites are divided; fixed when a crawl is created."),
    ] = 64
    max_url_length: Annotated[
        int, Meta(ge=64, le=65536, description="Longest URL, in characters of its canonical form.")
    ] = 2000
    strip_session_ids: Annotated[
        bool, Meta(description="Remove known session ids (`jsessionid`, `PHPSESSID`, …) from URLs.")
    ] = False
    strip_tracking: Annotated[
        bool, Meta(description="Remove known tracking parameters (`utm_…`, `gclid`, `fbclid`, …) from URLs.")
    ] = False


class ScopeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which candidates are admitted. A change at a resume reaches the queue too, but for the last four: they count."""

    scope: Annotated[
        Scope,
        COMMON,
        Meta(description="Follow links to any site, or only to sites that were seeded."),
    ] = "any"
    max_depth: Annotated[
        int,
        COMMON,
        Meta(ge=-1, description="Most links between a seed and a page; 0 is the seeds alone, -1 is no limit."),
    ] = -1
    max_hops: Annotated[int, Meta(ge=0, le=20, description="Most redirects in a row.")] = 5
    include: Annotated[
        Patterns, COMMON, Meta(description="Admit only URLs in which one of these is found; seeds are always admitted.")
    ] = ()
    exclude: Annotated[Patterns, COMMON, Meta(description="Admit no URL in which one of these is found.")] = ()
    skip_extensions: Annotated[
        Words,
        Meta(
            description="Endings of paths that are not asked for. Unless it is given, those of files that"
            " `media_types` wants are not in it, also where a resume changes `media_types`.",
            extra={WORDING: "endings without their dot, with spaces between them"},
        ),
    ] = endings_to_skip(_MEDIA_TYPES)
    max_path_segments: Annotated[
        int, Meta(ge=1, le=65536, description="Most segments of a path; seeds may have more.")
    ] = 20
    max_path_repeats: Annotated[
        int,
        Meta(ge=1, le=65536, description="Most times that one segment may stand in a path; in seeds it may oftener."),
    ] = 3
    max_path_variants: Annotated[
        int,
        Meta(
            ge=1,
            description="Most URLs that differ only in what follows a path's first `?` or `;`; seeds are always"
            " admitted.",
        ),
    ] = 10_000
    max_site_urls: Annotated[
        int, Meta(ge=1, description="Most URLs of one site, over all runs; seeds are always admitted.")
    ] = 1_000_000
    max_site_queue: Annotated[
        int, Meta(ge=1, description="Most URLs that wait in one site's queue; more are counted and left out.")
    ] = 1_000_000
    max_site_queue_bytes: Annotated[
        Bytes,
        Meta(
            ge=1,
            description="Bounds the bytes of one site's queue: a URL is counted and left out if the number of URLs"
            " queued, plus one, times its length is more than this. With the default limits the URLs of a queue take at"
            " most five times this together.",
        ),
    ] = 64 << 20


class PolitenessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a site is left in peace."""

    delay_seconds: Annotated[
        Seconds,
        COMMON,
        Meta(ge=0, le=86400, description="Time from the end of a request to a site to the start of the next one."),
    ] = msgspec.field(default=70.0, name="delay")
    max_crawl_delay_seconds: Annotated[
        Seconds,
        Meta(
            ge=0,
            le=86400,
            description="URLs of an origin whose robots.txt asks for a longer Crawl-delay are dropped.",
        ),
    ] = msgspec.field(default=300.0, name="max_crawl_delay")
    backoff_seconds: Annotated[
        Seconds,
        Meta(
            ge=0.01,
            le=3600,
            description="First wait after a site failed or an origin was busy; each failure in a row doubles it.",
        ),
    ] = msgspec.field(default=30.0, name="backoff")
    max_failures: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="Failures in a row after which a site is dropped, and busy answers in a row after which the"
            " URLs of an origin are.",
        ),
    ] = 12
    max_attempts: Annotated[
        int, Meta(ge=1, le=100, description="Most attempts at one URL that fails for a passing reason.")
    ] = 3
    address_gap_seconds: Annotated[
        Seconds,
        Meta(
            ge=0,
            le=3600,
            description="Time between the beginnings of two visits to servers of one network (the /24 of an IPv4"
            " address, the /64 of an IPv6 address), however many sites they have; 0 is none. Ten visits a second keep a"
            " small shared server alive; a content delivery network has thousands of such networks, so a broad crawl is"
            " not limited by it.",
        ),
    ] = msgspec.field(default=0.1, name="address_gap")
    address_concurrency: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000,
            description="Most visits at once to servers of one network; 0 is no limit. A server that becomes slow is"
            " asked less often by it. Both limits are for the whole crawl and divided among its fetchers.",
        ),
    ] = 8


class FetchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are made."""

    num_fetcher_processes: Annotated[
        int,
        COMMON,
        Meta(ge=0, le=1024, description="Fetcher processes, the leader included; 0 chooses by the processors."),
    ] = 0
    fetcher_workers: Annotated[
        int, COMMON, Meta(ge=1, le=100_000, description="Most requests at once, of each fetcher process.")
    ] = 500
    verify_tls: Annotated[bool, Meta(description="Fetch nothing from a site whose certificate is not valid.")] = False
    allow_private_addresses: Annotated[
        bool,
        COMMON,
        Meta(
            description="Also connect to loopback, private, link-local and other special addresses, and to this"
            " machine's own."
        ),
    ] = False
    blocked_ports: Annotated[
        Words,
        Meta(
            pattern=r"^\s*(\d{1,5}(-\d{1,5})?(\s+|\Z))*\Z",
            description="URLs with these ports are not fetched: the bad ports of the Fetch standard, which browsers"
            " block, and those of databases, queues and administration.",
            extra={WORDING: "ports and ranges such as 6665-6669, with spaces between them"},
        ),
    ] = (
        "0 1 7 9 11 13 15 17 19-23 25 37 42 43 53 69 77 79 87 95 101-104 109-111 113 115 117 119 123 135 137 139 "
        "143 161 179 389 427 465 512-515 526 530-532 540 548 554 556 563 587 601 636 989 990 993 995 1719 1720 "
        "1723 2049 3659 4045 4190 5060 5061 6000 6566 6665-6669 6679 6697 10080 445 873 1433 1521 2181 2375 2376 "
        "2379 2380 3306 3389 4369 5432 5672 5900 5984-5986 6379 6380 6443 8500 9042 9092 9200 9300 10250 11211 "
        "15672 26379 27017-27019"
    )
    resolver: Annotated[
        str,
        Meta(
            pattern=rf"^({_ENDPOINT})?\Z",
            description="Name server to ask instead of the system's.",
            extra={WORDING: "ADDRESS:PORT, such as 127.0.0.1:53 or [::1]:53"},
        ),
    ] = ""
    connect_to: Annotated[
        str,
        Meta(
            pattern=rf"^({_ENDPOINT}|https?={_ENDPOINT}(,https?={_ENDPOINT})?)?\Z",
            description="Connect there, whatever the URL's host and port; for tests.",
            extra={WORDING: "ADDRESS:PORT, or http=ADDRESS:PORT,https=ADDRESS:PORT"},
        ),
    ] = ""
    media_types: Annotated[
        Words,
        COMMON,
        Meta(
            pattern=rf"^({_MEDIA_TYPE}( {_MEDIA_TYPE})*)?\Z",
            description="Media types that are downloaded; `image/*` is every image type, `*/*` is everything. Only"
            " links lead to them (a, area, link, iframe, frame, refresh); what a page embeds (img, script, video,"
            " style sheets) is not fetched.",
            extra={WORDING: "media types such as text/html, image/* or */*, with spaces between them"},
        ),
    ] = _MEDIA_TYPES
    fetch_timeout_seconds: Annotated[Seconds, Meta(gt=0, le=3600, description="Longest time for a whole request.")] = (
        msgspec.field(default=60.0, name="fetch_timeout")
    )
    visit_timeout_seconds: Annotated[
        Seconds,
        Meta(
            gt=0,
            le=3600,
            description="Longest time for a visit: robots.txt with its redirects, if it is asked for, and the page.",
        ),
    ] = msgspec.field(default=90.0, name="visit_timeout")
    dns_timeout_seconds: Annotated[Seconds, Meta(gt=0, le=600, description="Longest time for resolving a name.")] = (
        msgspec.field(default=10.0, name="dns_timeout")
    )
    connect_timeout_seconds: Annotated[
        Seconds, Meta(gt=0, le=600, description="Longest time for connecting to one address.")
    ] = msgspec.field(default=10.0, name="connect_timeout")
    tls_timeout_seconds: Annotated[Seconds, Meta(gt=0, le=600, description="Longest time for the TLS handshake.")] = (
        msgspec.field(default=10.0, name="tls_timeout")
    )
    header_timeout_seconds: Annotated[
        Seconds, Meta(gt=0, le=600, description="Longest time from the request to the end of the answer's head.")
    ] = msgspec.field(default=15.0, name="header_timeout")
    min_rate_bytes: Annotated[
        Bytes, Meta(ge=0, description="Fewest bytes a second that a body must come with after its first ten seconds.")
    ] = msgspec.field(default=1024, name="min_rate")
    max_in_flight_bytes: Annotated[
        Bytes,
        Meta(
            ge=1,
            description="Most bytes of bodies that each fetcher process holds in memory, from being received until they"
            " are written to the spool. When it is used up, connections are not read until there is room.",
        ),
    ] = 256 << 20


class SpoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much may wait between fetchers and parsers."""

    soft_limit: Annotated[int, Meta(ge=1, description="Pages waiting to be parsed above which fetchers slow down.")] = (
        2_000
    )
    hard_limit: Annotated[
        int,
        Meta(
            ge=1, description="Pages waiting to be parsed above which fetchers stop, until it is below the soft limit."
        ),
    ] = 6_000
    spool_bytes: Annotated[
        Bytes,
        Meta(
            ge=1 << 20,
            description="Bytes waiting to be parsed above which fetchers stop; they slow down from a third of it. The"
            " spool as a whole exceeds it by one segment of each fetcher at most.",
        ),
    ] = 1 << 30


class ParseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a page."""

    num_parser_processes: Annotated[
        int, Meta(ge=0, le=1024, description="Parser processes; 0 chooses by the processors.")
    ] = 0
    parser_workers: Annotated[
        int, Meta(ge=1, le=10_000, description="Most pages that a parser reads ahead of admission and sinks.")
    ] = 80

    max_body_bytes: Annotated[
        Bytes,
        COMMON,
        Meta(
            ge=1,
            description="Most bytes of a body, both as received and after its content encoding is undone.",
        ),
    ] = msgspec.field(default=10 << 20, name="max_body")
    max_parse_bytes: Annotated[
        Bytes,
        Meta(ge=1, description="Most bytes of a decoded body that are parsed."),
    ] = 1 << 20
    max_links: Annotated[int, Meta(ge=0, description="Most links taken from one page; the others are counted.")] = 6000
    max_link_bytes: Annotated[
        Bytes,
        Meta(
            ge=1,
            description="Most bytes of the URLs, taken together, that one page offers to the frontier; the others are"
            " counted and left out. 6,000 links of usual length come to less.",
        ),
    ] = 512 << 10
    text: Annotated[bool, Meta(description="Compute a page's plain text and main text.")] = True


class SinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a crawl leaves behind. docs/data.md says what is in each."""

    sinks: Annotated[
        str,
        COMMON,
        Meta(
            pattern=r"^(warc|pages|log)(,(warc|pages|log))*\Z",
            description="What is written: archives with their index, pages with their text as a table, a row for every"
            " outcome.",
            extra={WORDING: "one or more of warc, pages, log, with commas between them"},
        ),
    ] = "warc,pages,log"
    warc_bytes: Annotated[
        Bytes,
        Meta(
            ge=1,
            description="An archive file that has come to so many bytes is closed at the next commit.",
        ),
    ] = 1_000_000_000
    commit_pages: Annotated[
        int,
        Meta(
            ge=1,
            le=100_000,
            description="Outcomes after which a parser commits. What is not committed is parsed again after a death;"
            " each commit is a file of each table, until those are merged.",
        ),
    ] = 1_000
    commit_interval_seconds: Annotated[
        Seconds,
        Meta(gt=0, description="Time after which a parser commits what it has, in a slow crawl."),
    ] = msgspec.field(default=120.0, name="commit_interval")


class FrontierSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the frontier is kept. docs/stores.md says which store when, and how a server is to be set."""

    store: Annotated[
        str,
        COMMON,
        Meta(
            pattern=r"^(sqlite|(rediss?|unix|postgres(ql)?)://[!-~]+)\Z",
            description="Where the frontier is kept: in the data directory, or on a server. A URL with a password is"
            " better given as GOSSAMER_STORE: whoever lists processes sees flags.",
            extra={WORDING: "sqlite, redis://…, rediss://…, unix://… or postgresql://…"},
        ),
    ] = "sqlite"
    store_pool: Annotated[
        int, Meta(ge=1, le=1000, description="Most connections of each process to the store's server.")
    ] = 4
    store_patience_seconds: Annotated[
        Seconds,
        Meta(
            ge=0,
            description="How long the start of a crawl waits for a server that does not answer. Once it has answered,"
            " it is waited for as long as it takes.",
        ),
    ] = msgspec.field(default=30.0, name="store_patience")
    unsafe_store: Annotated[
        bool, Meta(description="Use a server also with settings that can lose the frontier or show it to others.")
    ] = False
    durable: Annotated[
        bool,
        Meta(
            description="Sync the frontier and what was fetched before going on, so that a power loss costs no more"
            " than a kill does. A server that is not set to do the same is refused."
        ),
    ] = False
    queue_in_memory: Annotated[
        int,
        Meta(
            ge=100,
            description="URLs of one site's queue that stay in Redis's memory; what is queued beyond them stands in"
            " files of the data directory.",
        ),
    ] = 10_000


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When the crawl ends, and what is logged."""

    max_pages: Annotated[
        int, COMMON, Meta(ge=0, description="Stop after so many pages, over all runs of the crawl; 0 is no limit.")
    ] = 0
    max_duration_seconds: Annotated[
        Seconds, COMMON, Meta(ge=0, description="Stop this run after so much time; 0 is no limit.")
    ] = msgspec.field(default=0.0, name="max_duration")
    min_free_bytes: Annotated[
        Bytes,
        Meta(
            ge=0,
            description="Free space of the data directory's disk below which no URL is leased; 0 is no limit.",
        ),
    ] = msgspec.field(default=256 << 20, name="min_free")
    log_level: Annotated[LogLevel, Meta(description="What is written to the log files of the processes.")] = "info"
    log_bytes: Annotated[
        Bytes,
        Meta(
            ge=0,
            description="Size at which a process puts its log file aside and begins another; four are kept. 0 leaves"
            " that to logrotate.",
        ),
    ] = 16 << 20


class ReportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a crawl that runs can be looked at. A port that is taken gives way to one of the next twenty."""

    ui_port: Annotated[
        int,
        COMMON,
        Meta(ge=0, le=65535, description="Port of the dashboard, on this machine alone; 0 is no dashboard."),
    ] = 8470
    metrics_port: Annotated[
        int, Meta(ge=0, le=65535, description="Port of the metrics for Prometheus; 0 is no metrics.")
    ] = 9470
    metrics_address: Annotated[
        str,
        Meta(
            pattern=r"^([0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)\Z",
            description="Address that the metrics are served on; another than 127.0.0.1 shows them to others.",
            extra={WORDING: "an IP address of this machine, such as 127.0.0.1 or 0.0.0.0"},
        ),
    ] = "127.0.0.1"
    metrics_hosts: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._ -]*\Z",
            description="Names under which the metrics may be asked for, besides IP addresses, localhost and the name"
            " of this machine.",
            extra={WORDING: "host names with spaces between them"},
        ),
    ] = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All sections. `combine` makes it, the command line hands each stage its own."""

    identity: IdentitySettings = IdentitySettings()
    url: UrlSettings = UrlSettings()
    scope: ScopeSettings = ScopeSettings()
    politeness: PolitenessSettings = PolitenessSettings()
    fetch: FetchSettings = FetchSettings()
    frontier: FrontierSettings = FrontierSettings()
    spool: SpoolSettings = SpoolSettings()
    parse: ParseSettings = ParseSettings()
    sinks: SinkSettings = SinkSettings()
    run: RunSettings = RunSettings()
    report: ReportSettings = ReportSettings()

    def check(self) -> None:
        """Refuse what makes no sense together."""
        largest_bytes = self.parse.max_body_bytes
        least_bytes = 2 * (largest_bytes + ROBOTS_ALLOWANCE_BYTES)
        if self.fetch.max_in_flight_bytes < least_bytes:
            raise UsageError(
                f"max_in_flight_bytes = {self.fetch.max_in_flight_bytes} is too small for max_body = {largest_bytes}:"
                f" give at least {least_bytes}, or a smaller max_body"
            )
