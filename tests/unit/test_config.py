"""One model feeds the TOML file, the environment, the flags and the manual."""

import tomllib
from collections import Counter
from typing import Any

import msgspec
import pytest

from gossamer import layers
from gossamer.config import IdentitySettings, Settings
from gossamer.errors import UsageError


def flag(name: str, value: str | bool) -> object:
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
        if setting.default != "":
            assert setting.read(setting.default, "here", typed=True) == setting.default


@pytest.mark.parametrize(("text", "size"), [("7", 7), ("1KiB", 1024), ("10 MiB", 10 << 20), ("2gib", 2 << 30)])
def test_sizes_may_carry_a_unit(text: str, size: int) -> None:
    assert flag("max_body", text) == size
    assert layers.toml_layer({"parse": {"max_body": text}}, "f.toml")["max_body"].value == size


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
        ("max_body", "10MB", "a number of bytes, at least 1, such as 1048576 or 1MiB"),
        ("max_body", "0", "a number of bytes, at least 1, such as 1048576 or 1MiB"),
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
        assert tomllib.loads(f"x = {layers.show(setting.default)}") == {"x": setting.default}
