"""One model feeds the TOML file, the environment, the flags and the manual."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gossamer import layers
from gossamer.config import IdentitySettings, Settings
from gossamer.errors import UsageError
from gossamer.run.data_directory import DataDirectory
from gossamer.setting_types import Kind

SIZES = "a size such as 1048576, 500KB, 10MB or 1GiB; at least 1"
DURATIONS = "a duration such as 90, 90s, 10m, 1.5h or 1d; at least 0 and at most 1d"


def flag(name: str, value: str | bool | list[str]) -> object:
    return layers.flag_layer({name: value})[name].value


def test_flags_override_the_environment_which_overrides_the_file() -> None:
    file = layers.toml_layer({"url": {"slots": 1, "max_url_length": 100}, "parse": {"text": False}}, "f.toml")
    environment = layers.environment_layer({"GOSSAMER_SLOTS": "2", "GOSSAMER_MAX_URL_LENGTH": "200", "HOME": "/"})
    flags = layers.flag_layer({"slots": "3"})
    settings = layers.combine([file, environment, flags])
    assert (settings.url.slots, settings.url.max_url_length, settings.parse.text) == (3, 200, False)
    assert settings.url.site_key == "domain"


def test_nothing_given_means_the_defaults() -> None:
    assert layers.combine([]) == Settings()


def test_each_name_is_unique_over_all_sections() -> None:
    names = Counter(
        field.encode_name
        for section in msgspec.structs.fields(Settings)
        for field in msgspec.structs.fields(section.type)
    )
    assert names.most_common(1)[0][1] == 1
    assert list(names) == list(layers.settings_by_name())


def test_every_default_is_itself_an_allowed_value() -> None:
    for setting in layers.settings_by_name().values():
        if setting.default != "" or setting.kind is not None:
            assert setting.read(setting.default, "here", typed=True) == setting.default


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("7", 7),
        ("7b", 7),
        ("1KiB", 1024),
        ("100KB", 100_000),
        ("500MB", 500_000_000),
        ("10 MiB", 10 << 20),
        ("1.5KB", 1500),
        ("2gib", 2 << 30),
    ],
)
def test_sizes_may_carry_a_unit(text: str, size: int) -> None:
    assert flag("max_body", text) == size
    assert layers.environment_layer({"GOSSAMER_MAX_BODY": text})["max_body"].value == size
    assert layers.toml_layer({"parse": {"max_body": text}}, "f.toml")["max_body"].value == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("90s", 90.0),
        ("10m", 600.0),
        ("10min", 600.0),
        ("2h", 7200.0),
        ("1.5h", 5400.0),
        ("1d", 86400.0),
        ("500ms", 0.5),
        ("1h30m", 5400.0),
        ("2 H", 7200.0),
    ],
)
def test_durations_may_carry_a_unit(text: str, seconds: float) -> None:
    assert flag("delay", text) == seconds
    assert flag("max_duration", text) == seconds
    assert layers.environment_layer({"GOSSAMER_DELAY": text})["delay"].value == seconds
    assert layers.toml_layer({"politeness": {"delay": text}}, "f.toml")["delay"].value == seconds


def test_every_setting_in_seconds_or_bytes_takes_units() -> None:
    """By the names of the fields, so that a new one cannot be forgotten."""
    fields = [
        (field.name, layers.settings_by_name()[field.encode_name].kind)
        for section in msgspec.structs.fields(Settings)
        for field in msgspec.structs.fields(section.type)
    ]
    for ending, kind in (("_seconds", Kind.DURATION), ("_bytes", Kind.SIZE)):
        assert {name for name, its_kind in fields if its_kind is kind} == {n for n, _ in fields if n.endswith(ending)}


def test_a_default_is_shown_in_a_form_that_is_read_back() -> None:
    for setting in layers.settings_by_name().values():
        if setting.kind in {Kind.DURATION, Kind.SIZE}:
            assert setting.read(setting.shown_default, "here", typed=False) == setting.default
    shown = {name: setting.shown_default for name, setting in layers.settings_by_name().items()}
    assert (shown["delay"], shown["address_gap"], shown["max_body"], shown["warc_bytes"]) == (
        "70s",
        "100ms",
        "10MiB",
        "1GB",
    )


def test_patterns_are_one_or_several() -> None:
    assert flag("include", ["/a", "/b"]) == ("/a", "/b")
    assert flag("include", [""]) == ()
    assert layers.environment_layer({"GOSSAMER_INCLUDE": "/a /b"})["include"].value == ("/a /b",)
    assert layers.environment_layer({"GOSSAMER_INCLUDE": ""})["include"].value == ()
    assert layers.toml_layer({"scope": {"include": "/a"}}, "f.toml")["include"].value == ("/a",)
    assert layers.toml_layer({"scope": {"include": ["/a", "/b"]}}, "f.toml")["include"].value == ("/a", "/b")
    with pytest.raises(
        UsageError, match=re.escape(r"--include: '\d/(' is not a value for include; RE2 refuses it: missing )")
    ):
        flag("include", ["/a", r"\d/("])
    with pytest.raises(UsageError, match="allowed: a regular expression of RE2, or a list of them"):
        layers.toml_layer({"scope": {"include": [1]}}, "f.toml")


@pytest.mark.parametrize("text", ["info", "INFO", "Info"])
def test_a_choice_is_read_in_any_case(text: str) -> None:
    assert flag("log_level", text) == "info"
    assert layers.toml_layer({"run": {"log_level": text}}, "f.toml")["log_level"].value == "info"


@pytest.mark.parametrize("character", ["\x7f", "\0", "\x1b", "\udcff"])
@pytest.mark.parametrize("name", ["include", "exclude", "skip_extensions"])
def test_a_control_character_is_refused_by_every_setting(name: str, character: str) -> None:
    words = rf"character 2 of it is U\+{ord(character):04X}: write it without control characters$"
    with pytest.raises(UsageError, match=words):
        flag(name, f"a{character}b")


def test_no_setting_takes_a_control_character_into_its_value() -> None:
    """Whatever a setting takes can be written to a TOML file and read back, and fits on one line of a header."""
    examples = {"email": "a@b.org", "contact": "https://b.org/", "store": "redis://h", "sinks": "log"}
    for setting in layers.settings_by_name().values():
        for character in "\x00\n\r\x7f":
            given = f"{examples.get(setting.name, 'a')}{character}"
            try:
                value = setting.read(given, "here", typed=False)
            except UsageError:
                continue
            assert character not in f"{value}"


def test_words_may_stand_on_several_lines() -> None:
    file = layers.toml_layer({"fetch": {"media_types": "text/html\n  image/*\n"}}, "f.toml")
    assert file["media_types"].value == "text/html image/*"


def test_what_is_wanted_is_not_left_out_by_its_ending_unless_that_is_said() -> None:
    usual = set(Settings().scope.skip_extensions.split())

    def left_out(**flags: str) -> set[str]:
        return set(layers.combine([layers.flag_layer(flags)]).scope.skip_extensions.split())

    assert usual - left_out(media_types="text/html application/PDF") == {"pdf"}
    images = usual - left_out(media_types="text/html image/*")
    assert images == {"bmp", "gif", "ico", "jpeg", "jpg", "png", "svg", "tif", "tiff", "webp"}
    assert left_out(media_types="*/*") == set()
    assert left_out(media_types="*/*", skip_extensions="zip") == {"zip"}
    assert left_out(media_types=Settings().fetch.media_types) == left_out() == usual


def test_a_media_type_that_a_resume_adds_takes_its_endings_off_the_list_unless_the_list_was_given(
    tmp_path: Path,
) -> None:
    def resumed(created: dict[str, str | bool | list[str]], **flags: str) -> set[str]:
        data = DataDirectory(tmp_path)
        data.write_settings(layers.combine([layers.flag_layer(created)]))
        kept = layers.without_derived(data.read_settings())
        return set(layers.combine([kept, layers.flag_layer({**flags})]).scope.skip_extensions.split())

    usual = set(Settings().scope.skip_extensions.split())
    assert resumed({}) == usual
    assert resumed({}, media_types="text/html application/pdf") == usual - {"pdf"}
    assert resumed({"media_types": "text/html application/pdf"}, media_types="text/html") == usual
    assert resumed({"media_types": "text/html image/*"}) == usual - {
        *("bmp", "gif", "ico", "jpeg", "jpg", "png", "svg", "tif", "tiff", "webp")
    }
    assert resumed({"skip_extensions": "pdf zip"}, media_types="text/html application/pdf") == {"pdf", "zip"}
    assert resumed({}, media_types="text/html application/pdf", skip_extensions="pdf") == {"pdf"}


@pytest.mark.parametrize("text", ["image", "*/html", "im*/x", "text/html;q=1", "text/html,image/png", "a/b\x7f"])
def test_what_is_no_media_type_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"allowed: media types such as text/html, image/\* or \*/\*"):
        flag("media_types", text)


@pytest.mark.parametrize("text", ["true", "True", "1"])
def test_switches_read_the_usual_words(text: str) -> None:
    assert layers.environment_layer({"GOSSAMER_STRIP_TRACKING": text})["strip_tracking"].value is True


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("slots", "many", "a whole number, at least 1 and at most 65536"),
        ("slots", "0", "a whole number, at least 1 and at most 65536"),
        ("max_links", "-1", "a whole number, at least 0"),
        ("max_links", "1.5", "a whole number, at least 0"),
        ("site_key", "planet", "domain or host"),
        ("max_body", "10XB", SIZES),
        ("max_body", "10X", SIZES),
        ("max_body", "1.5", SIZES),
        ("max_body", "0", SIZES),
        ("delay", "soon", DURATIONS),
        ("delay", "10y", DURATIONS),
        ("delay", "2d", DURATIONS),
        ("delay", "nan", DURATIONS),
        ("delay", "-1", DURATIONS),
        ("email", "nobody", "an e-mail address, such as crawl@example.org"),
        ("email", "a@b.org\r\nX: y", "an e-mail address, such as crawl@example.org"),
        ("email", "a@b.org\n", "an e-mail address, such as crawl@example.org"),
        ("contact", "ftp://example.org", "an http: or https: URL, such as https://example.org/crawl"),
    ],
)
def test_a_bad_value_is_named_with_its_source_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    setting = layers.settings_by_name()[name]
    sources: list[tuple[str, Any]] = [
        (setting.flag, lambda: layers.flag_layer({name: value})),
        (setting.variable, lambda: layers.environment_layer({setting.variable: value})),
        (f"f.toml [{setting.section}] {name}", lambda: layers.toml_layer({setting.section: {name: value}}, "f.toml")),
    ]
    for source, layer in sources:
        with pytest.raises(UsageError) as caught:
            layer()
        message = str(caught.value)
        assert message == f"{source}: {value!r} is not a value for {name}; allowed: {allowed}"
        assert "\n" not in message


def test_a_number_in_the_file_must_be_a_number() -> None:
    with pytest.raises(UsageError, match=r"'64' is not a value for slots"):
        layers.toml_layer({"url": {"slots": "64"}}, "f.toml")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"url": {"slot": 1}}, "f.toml [url] slot: unknown setting; did you mean slots?"),
        ({"url": {"max_links": 1}}, "f.toml [url] max_links: unknown setting; it belongs into [parse]"),
        (
            {"delay": 1},
            "f.toml: delay is a setting of [politeness]; write it below a line [politeness]",
        ),
        ({"scope": "seeds"}, "f.toml: scope is a setting of [scope]; write it below a line [scope]"),
        ({"urls": {"slots": 1}}, "f.toml: unknown section [urls]; did you mean url?"),
        (
            {"zzz": {}},
            "f.toml: unknown section [zzz]; known are "  # noqa: ISC004 (one sentence)
            "identity, url, scope, politeness, fetch, frontier, spool, parse, sinks, run, report",
        ),
        ({"url": 3}, "f.toml: url = 3 is not a section; write [url] on its own line"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(document: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        layers.toml_layer(document, "f.toml")
    assert str(caught.value) == message


def test_an_unknown_variable_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"^GOSSAMER_SLOT='1': unknown variable; did you mean GOSSAMER_SLOTS\?$"):
        layers.environment_layer({"GOSSAMER_SLOT": "1"})


def test_the_variables_of_launcher_and_tests_are_no_settings() -> None:
    assert layers.environment_layer({"GOSSAMER_PYTHON": "python3", "GOSSAMER_TEST_DATA": "/x"}) == {}


@pytest.mark.parametrize(
    ("identity", "user_agent"),
    [
        (IdentitySettings(email="a@b.org"), "Gossamer/1.2 (+a@b.org)"),
        (IdentitySettings(contact="https://b.org/"), "Gossamer/1.2 (+https://b.org/)"),
        (IdentitySettings(contact="https://b.org/", email="a@b.org"), "Gossamer/1.2 (+https://b.org/; a@b.org)"),
    ],
)
def test_the_user_agent_carries_the_contact(identity: IdentitySettings, user_agent: str) -> None:
    assert identity.user_agent("1.2") == user_agent


def test_no_contact_no_crawl() -> None:
    with pytest.raises(UsageError, match="--email"):
        IdentitySettings().user_agent("1.2")


def test_values_are_shown_as_toml_reads_them() -> None:
    for setting in layers.settings_by_name().values():
        shown = tomllib.loads(f"x = {layers.show(setting.default)}")["x"]
        assert setting.read(shown, "here", typed=True) == setting.default
    for text in ("\x7f", '"\\\n\x1f\u2028', "é"):
        assert tomllib.loads(f"x = {layers.show(text)}") == {"x": text}
