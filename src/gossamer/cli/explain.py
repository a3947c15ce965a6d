"""`gossamer explain`: why a URL is where it is, or nowhere."""

import argparse
import json
from collections.abc import Iterator

import msgspec

from gossamer.cli.arguments import Parser, print_row, printable
from gossamer.cli.looking import add_crawl, crawl_of, settings_of
from gossamer.config import Settings
from gossamer.errors import UsageError
from gossamer.look.attempts import Attempt
from gossamer.look.evidence import gather
from gossamer.look.explain import explain, explain_refusal
from gossamer.look.explanation import Explanation, Verdict
from gossamer.look.standings import RobotsAccess, RobotsStanding, SiteStanding
from gossamer.look.wording import duration, what
from gossamer.run.data_directory import DataDirectory
from gossamer.seed.typed import with_scheme
from gossamer.units import counted
from gossamer.url import Refusal, RefusalReason, canonicalise, redacted

SUMMARY = "Say what became of a URL, or why nothing did: its state, the rule that decided, robots.txt, every attempt."
NOTES = """The first line is the answer, the rows below are its reasons. A crawl that runs may be asked, and does not
notice. Attempts are in the files from the next commit on, within some minutes.

With --json one object; its `verdict` is one of:
  fetched         it is a page, and in the files
  redirected      the server sent us elsewhere
  failed          it was tried, or its site was, and there is no page
  refused         a rule keeps it out: of admission, of robots.txt, a bound; `refusal` says which
  excluded-later  it was admitted, and the rules were against it at its turn, or will be
  queued          it waits for its turn
  backing-off     the same, and its site is waited for because it failed or asked for time
  leased          a fetcher has it
  spooled         it was asked for, and what came is not read or not committed yet
  finished        it is done with, and no file says how
  duplicate       another spelling of a URL that is known; `canonical_verdict` is of that one
  robots-file     it was asked for as a robots.txt, never as a page
  unseen          it was never admitted, and no rule is against it

exit codes: 0 whatever the answer is, 2 bad usage, 3 the store is not available"""

#: The last ones are what matters; `gossamer sql` has them all.
SHOWN_ATTEMPTS = 20


def add_arguments(parser: Parser) -> None:
    add_crawl(parser)
    parser.add_argument(
        "url",
        metavar="URL",
        help="a URL in any spelling; without a scheme it is taken as https, and as http if that is unknown",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    data = crawl_of(arguments)
    settings = settings_of(data)
    typed = with_scheme(arguments.url)
    found = _explained(data, settings, typed)
    if typed != arguments.url.strip() and found.verdict is Verdict.UNSEEN:
        # Whoever leaves the scheme out may not know that the site has no https.
        with_http = _explained(data, settings, f"http:{typed.removeprefix('https:')}")
        found = found if with_http.verdict is Verdict.UNSEEN else with_http
    if arguments.json:
        # In ASCII: texts of the web could steer a terminal as JSON too.
        print(json.dumps(msgspec.to_builtins(found)))
    else:
        _print(found)
    return 0


def _explained(data: DataDirectory, settings: Settings, typed: str) -> Explanation:
    url = canonicalise(typed, None, settings.url)
    if not isinstance(url, Refusal):
        return explain(gather(data, settings, typed, url))
    if url.reason is RefusalReason.NOT_A_URL:
        raise UsageError(f"{redacted(typed)!r:.200} is no URL: {url.detail}; give a whole http(s) URL")
    return explain_refusal(typed, url)


def _print(found: Explanation) -> None:
    print(printable(found.summary))
    for name, value in rows(found):
        print_row(name, value)
    if found.attempts:
        left_out = len(found.attempts) - SHOWN_ATTEMPTS
        print(f"attempts ({len(found.attempts)}{f', the last {SHOWN_ATTEMPTS} shown' if left_out > 0 else ''})")
        for attempt in found.attempts[-SHOWN_ATTEMPTS:]:
            print_row(f"{attempt.at:%m-%d %H:%M:%S}", _attempt(attempt))


def rows(found: Explanation) -> Iterator[tuple[str, object]]:
    """What is not known is not mentioned."""
    yield "url", found.url or "none"
    if found.typed != (found.url or ""):
        yield "typed", found.typed
    if found.state is not None:
        yield "state", f"{found.state}{'' if found.is_admitted else ': not admitted'}"
    if found.depth is not None:
        seed = ", a seed or where one redirects to" if found.is_seed else ""
        yield "depth", f"{counted(found.depth, 'link')} from a seed, {counted(found.hops or 0, 'redirect')}{seed}"
    if found.via:
        yield "found by", found.via
    if found.site is not None:
        yield from _site_rows(found.site, found)
    if found.refusal is not None:
        yield "refused by", f"{found.refusal.reason}: {found.refusal.words}"
    if found.url is not None and found.rules_now != found.refusal:
        now = found.rules_now
        yield "rules now", "nothing against it" if now is None else f"{now.reason}: {now.words}"
    if found.robots is not None:
        yield "robots.txt", _robots(found.robots)
        if found.robots.busy_seconds > 0:
            yield "origin", f"{found.robots.origin} asked for no requests for {duration(found.robots.busy_seconds)} yet"
    if found.ahead is not None:
        yield "before it", counted(found.ahead, "URL")
    if found.turn_seconds is not None:
        yield "its turn", f"in {duration(found.turn_seconds)}, if all before it are asked for and none comes between"
    if found.attempt is not None:
        back = f", came back {counted(found.returned, 'time')} from dead fetchers" if found.returned else ""
        yield "attempt", f"{found.attempt}{back}"
    if found.segment:
        yield "segment", found.segment
    if found.place is not None:
        yield "archive", f"{found.place.file}, offset {found.place.offset}, {counted(found.place.length, 'byte')}"
    for note in found.notes:
        yield "note", note


def _site_rows(site: SiteStanding, found: Explanation) -> Iterator[tuple[str, object]]:
    if not site.is_known:
        yield "site", f"{site.name}, of which nothing was ever admitted"
        yield "slot", site.slot
        return
    facts = [site.name, f"{site.admitted:,} admitted", f"{site.queued:,} queued"]
    facts += ["seeded"] * site.is_seeded + [f"given up: {site.dropped}"] * bool(site.dropped)
    yield "site", ", ".join(facts)
    if found.path_variants:
        yield "path", f"{counted(found.path_variants, 'URL')} admitted, different only in what follows it"
    time = f"for {duration(site.owned_seconds)} yet" if site.owned_seconds > 0 else "whose time has run out"
    yield (
        "slot",
        f"{site.slot}, " + (f"owned by {site.owner} {time}, epoch {site.epoch}" if site.owner else "of nobody"),
    )
    if site.dropped:
        return
    last = "" if site.since_request_seconds is None else f", the last {duration(site.since_request_seconds)} ago"
    due = (
        "after the one that is held"
        if site.is_busy
        else "when the crawl is resumed"
        if found.paused_by is not None
        else f"in {duration(site.wait_seconds)}"
        if site.wait_seconds
        else "now"
    )
    yield "next request", f"{due}; {site.gap_seconds:g} s between requests{last}"
    if site.failures:
        yield "failures", f"{site.failures} in a row, of the site"


def _robots(robots: RobotsStanding) -> str:
    if robots.access is RobotsAccess.NEVER_ASKED:
        return f"never asked for at {robots.origin}"
    facts = [f"{robots.access}"]
    if robots.line is not None:
        facts[0] += f" by line {robots.line}: {robots.rule}"
    elif robots.reason:
        facts[0] += f" ({robots.reason})"
    if robots.failures:
        facts.append(f"{counted(robots.failures, 'failure')} in a row{', given up' if robots.is_given_up else ''}")
    if robots.age_seconds is not None:
        age = f"{duration(robots.age_seconds)} old"
        facts.append(f"{age}, used because the file cannot be had now" if robots.is_old_copy else age)
    facts.append(
        f"asked for again in {duration(robots.valid_seconds)}" if robots.is_fresh else "expired: asked for again first"
    )
    if robots.crawl_delay_seconds is not None:
        facts.append(f"Crawl-delay {robots.crawl_delay_seconds:g} s")
    return ", ".join(facts)


def _attempt(attempt: Attempt) -> str:
    facts = [attempt.outcome if attempt.kind == "url" else f"{attempt.outcome} (robots.txt)", what(attempt)]
    if attempt.reason:
        facts.append(attempt.reason)
    if attempt.redirect:
        facts.append(f"to {attempt.redirect}")
    if attempt.bytes:
        facts.append(counted(attempt.bytes, "byte"))
    if attempt.total_seconds:
        facts.append(f"{attempt.total_seconds:.2f} s")
    if attempt.address:
        facts.append(f"from {attempt.address}")
    return ", ".join(facts)
