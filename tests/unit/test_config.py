"""One model feeds the TOML file, the environment, the flags and the manual."""

import tomllib
from collections import Counter
from typing import Any

import msgspec
import pytest

from gossamer import config
from gossamer.errors import UsageError


def flag(name: str, value: str | bool) -> object:
    return config.flag_layer({name: value})[name].value


def test_flags_override_the_environment_which_overrides_the_file() -> None:
    file = config.toml_layer({"url": {"slots": 1, "max_url_length": 100}, "parse": {"text": False}}, "f.toml")
    environment = config.environment_layer({"GOSSAMER_SLOTS": "2", "GOSSAMER_MAX_URL_LENGTH": "200", "HOME": "/"})
    flags = config.flag_layer({"slots": "3"})
    settings = config.combine([file, environment, flags])
    assert (settings.url.slots, settings.url.max_url_length, settings.parse.text) == (3, 200, False)
    assert settings.url.site_key == "domain"


def test_nothing_given_means_the_defaults() -> None:
    assert config.combine([]) == config.Settings()


def test_each_name_is_unique_over_all_sections() -> None:
    names = Counter(
        field.encode_name
        for section in msgspec.structs.fields(config.Settings)
        for field in msgspec.structs.fields(section.type)
    )
    assert names.most_common(1)[0][1] == 1
    assert list(names) == list(config.settings_by_name())


def test_every_default_is_itself_an_allowed_value() -> None:
    for setting in config.settings_by_name().values():
        if setting.default != "":
            assert setting.read(setting.default, "here", typed=True) == setting.default


@pytest.mark.parametrize(("text", "size"), [("7", 7), ("1KiB", 1024), ("10 MiB", 10 << 20), ("2gib", 2 << 30)])
def test_sizes_may_carry_a_unit(text: str, size: int) -> None:
    assert flag("max_body", text) == size
    assert config.toml_layer({"parse": {"max_body": text}}, "f.toml")["max_body"].value == size


@pytest.mark.parametrize("text", ["true", "True", "1"])
def test_switches_read_the_usual_words(text: str) -> None:
    assert config.environment_layer({"GOSSAMER_STRIP_TRACKING": text})["strip_tracking"].value is True


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
    setting = config.settings_by_name()[name]
    layers: list[tuple[str, Any]] = [
        (setting.flag, lambda: config.flag_layer({name: value})),
        (setting.variable, lambda: config.environment_layer({setting.variable: value})),
        (f"f.toml [{setting.section}] {name}", lambda: config.toml_layer({setting.section: {name: value}}, "f.toml")),
    ]
    for source, layer in layers:
        with pytest.raises(UsageError) as caught:
            layer()
        message = str(caught.value)
        assert message == f"{source}: {value!r} is not a value for {name}; allowed: {allowed}"
        assert "\n" not in message


def test_a_number_in_the_file_must_be_a_number() -> None:
    with pytest.raises(UsageError, match=r"'64' is not a value for slots"):
        config.toml_layer({"url": {"slots": "64"}}, "f.toml")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"url": {"slot": 1}}, "f.toml [url] slot: unknown setting; did you mean slots?"),
        ({"url": {"max_links": 1}}, "f.toml [url] max_links: unknown setting; it belongs into [parse]"),
        ({"urls": {"slots": 1}}, "f.toml: unknown section [urls]; did you mean url?"),
        ({"zzz": {}}, "f.toml: unknown section [zzz]; known are identity, url, parse"),
        ({"url": 3}, "f.toml: url = 3 is not a section; write [url] on its own line"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(document: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        config.toml_layer(document, "f.toml")
    assert str(caught.value) == message


def test_an_unknown_variable_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"^GOSSAMER_SLOT='1': unknown variable; did you mean GOSSAMER_SLOTS\?$"):
        config.environment_layer({"GOSSAMER_SLOT": "1"})


def test_the_variables_of_launcher_and_tests_are_no_settings() -> None:
    assert config.environment_layer({"GOSSAMER_PYTHON": "python3", "GOSSAMER_TEST_DATA": "/x"}) == {}


@pytest.mark.parametrize(
    ("identity", "user_agent"),
    [
        (config.IdentitySettings(email="a@b.org"), "Gossamer/1.2 (+a@b.org)"),
        (config.IdentitySettings(contact="https://b.org/"), "Gossamer/1.2 (+https://b.org/)"),
        (config.IdentitySettings(contact="https://b.org/", email="a@b.org"), "Gossamer/1.2 (+https://b.org/; a@b.org)"),
    ],
)
def test_the_user_agent_carries_the_contact(identity: config.IdentitySettings, user_agent: str) -> None:
    assert identity.user_agent("1.2") == user_agent


def test_no_contact_no_crawl() -> None:
    with pytest.raises(UsageError, match="--email"):
        config.IdentitySettings().user_agent("1.2")


def test_values_are_shown_as_toml_reads_them() -> None:
    for setting in config.settings_by_name().values():
        assert tomllib.loads(f"x = {config.show(setting.default)}") == {"x": setting.default}
