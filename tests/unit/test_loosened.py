"""Who loosens a rule is told what it has kept out so far."""

from typing import Any

import pytest

from gossamer.config import FetchSettings, ParseSettings, ScopeSettings, Settings
from gossamer.frontier.admission import Exclusions, parse_exclusions
from gossamer.records import Reason
from gossamer.run.loosened import Rules, loosened


def lines(
    before: Settings,
    after: Settings,
    *,
    exclusions: tuple[str, str] = ("", ""),
    refused: dict[Reason, int] | None = None,
    dropped: dict[str, int] | None = None,
) -> list[str]:
    was, now = (parse_exclusions(text, "file") for text in exclusions)
    return list(loosened(Rules(before, was), Rules(after, now), refused=refused, dropped=dropped or {}))


def scope(**values: Any) -> Settings:
    return Settings(scope=ScopeSettings(**values))


LOOSER = [
    (scope(max_depth=1), scope(max_depth=2), Reason.DEPTH, "max_depth is now 2 instead of 1"),
    (scope(max_depth=1), scope(), Reason.DEPTH, "max_depth is now -1 instead of 1"),
    (scope(max_site_urls=20), scope(max_site_urls=100), Reason.SITE_FULL, "max_site_urls is now 100 instead of 20"),
    (scope(scope="seeds"), scope(), Reason.SCOPE, "scope is now any instead of seeds"),
    (scope(max_hops=1), scope(max_hops=2), Reason.HOPS, "max_hops is now 2 instead of 1"),
    (scope(max_site_queue=100), scope(), Reason.QUEUE_FULL, "max_site_queue is now 1000000 instead of 100"),
    (
        scope(skip_extensions="pdf zip"),
        scope(skip_extensions="zip"),
        Reason.EXTENSION,
        "skip_extensions no longer has pdf: ",
    ),
    (
        Settings(parse=ParseSettings(max_link_bytes=9)),
        Settings(),
        Reason.LINK_BYTES,
        "max_link_bytes is now 524288 instead of 9",
    ),
]


@pytest.mark.parametrize(("before", "after", "reason", "words"), LOOSER)
def test_a_looser_rule_is_named_with_the_links_that_it_refused(
    before: Settings, after: Settings, reason: Reason, words: str
) -> None:
    found = lines(before, after, refused={reason: 1234, Reason.SCHEME: 5})
    assert len(found) == 1
    assert found[0].startswith(words)
    assert found[0].endswith("1,234 links refused for this reason stay out")
    assert lines(before, after, refused={}) == []
    assert lines(after, before, refused={reason: 1234}) == []


def test_patterns_that_were_taken_away_are_named_as_they_were_given() -> None:
    before = scope(exclude=_as_setting(r"\.pdf$"))
    found = lines(before, Settings(), refused={Reason.EXCLUDED: 1}, dropped={"excluded": 2})
    assert found == [
        r"exclude is now none instead of \.pdf$: 1 link refused for this reason and 2 URLs dropped for it stay out"
    ]
    assert lines(Settings(), before, refused={Reason.EXCLUDED: 1}) == []
    (one,) = lines(before, Settings(), refused={Reason.EXCLUDED: 1})
    assert one.endswith("1 link refused for this reason stays out")


def test_an_include_is_looser_when_it_is_gone_or_another() -> None:
    one, other = scope(include=_as_setting("a")), scope(include=_as_setting("b"))
    for after in (other, Settings()):
        assert len(lines(one, after, refused={Reason.NOT_INCLUDED: 1})) == 1
    assert lines(Settings(), one, refused={Reason.NOT_INCLUDED: 1}) == []
    assert lines(one, one, refused={Reason.NOT_INCLUDED: 1}) == []


def _as_setting(pattern: str) -> Any:
    """One pattern is text, or a list of one."""
    return pattern if isinstance(ScopeSettings().exclude, str) else (pattern,)


def test_entries_that_left_the_exclude_file_are_counted() -> None:
    texts = ("a.example\nhttps://b.example/x/\n", "a.example\n")
    refused = {Reason.EXCLUDED: 3, Reason.BLOCKED_SITE: 4}
    assert lines(Settings(), Settings(), exclusions=texts, refused=refused) == [
        "the exclude file has lost entries: 7 links refused for this reason stay out"
    ]
    assert lines(Settings(), Settings(), exclusions=(texts[1], texts[0]), refused=refused) == []
    assert Exclusions() == parse_exclusions("", "file")


def test_pages_of_a_media_type_that_was_declined_stay_out() -> None:
    more = Settings(fetch=FetchSettings(media_types="text/html application/pdf"))
    before = Settings(fetch=FetchSettings(media_types="text/html"))
    (line,) = lines(before, more, refused={}, dropped={"media-type": 9})
    assert line.endswith("9 URLs dropped for it stay out")


def test_addresses_and_ports_that_are_allowed_now_keep_out_what_was_dropped_for_them() -> None:
    closed = Settings(fetch=FetchSettings(blocked_ports="22-24"))
    private = Settings(fetch=FetchSettings(blocked_ports="22-24", allow_private_addresses=True))
    ports = Settings(fetch=FetchSettings(blocked_ports="22 24"))
    counted: list[dict[Reason, int] | None] = [{}, None]
    for refused in counted:
        assert lines(closed, private, refused=refused, dropped={"blocked-address": 1}) == [
            "allow_private_addresses is now on instead of off: 1 URL dropped for a blocked address or port stays out"
        ]
        assert lines(closed, ports, refused=refused, dropped={"blocked-address": 2}) == [
            "blocked_ports no longer has 23: 2 URLs dropped for a blocked address or port stay out"
        ]
        assert lines(closed, private, refused=refused) == lines(private, closed, dropped={"blocked-address": 1}) == []


def test_where_nothing_was_counted_it_is_said_without_numbers() -> None:
    (line,) = lines(scope(max_depth=1), scope(max_depth=2))
    assert line == "max_depth is now 2 instead of 1: links that it refused in earlier runs stay out"
