"""The settings as the user meets them: read one by one from files, environment and flags, judged, and combined.

The layers arrive as plain mappings: reading files and the environment is the command line's work. Of every setting the
last layer that gives it counts.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, get_args
from unicodedata import category

import msgspec
from msgspec import Meta

from gossamer.config import Settings
from gossamer.endings import endings_to_skip
from gossamer.errors import UsageError
from gossamer.patterns import compile_pattern
from gossamer.setting_types import COMMON, WORDING, Kind
from gossamer.spelling import closest
from gossamer.units import DURATION_EXAMPLES, SIZE_EXAMPLES, read_bytes, read_seconds, written_bytes, written_seconds
from gossamer.url import redacted

_PLACEHOLDERS = {Kind.DURATION: "DURATION", Kind.SIZE: "SIZE", Kind.PATTERNS: "PATTERN"}

#: Environment variables with our prefix that are not settings: the launcher and the tests read them.
RESERVED_VARIABLES = re.compile(r"GOSSAMER_(PYTHON|COMMAND|TEST_\w+)")


class Setting(msgspec.Struct, frozen=True):
    """One setting as the user meets it."""

    section: str
    name: str
    default: Any
    description: str
    allowed: str
    type: Any
    """Its annotation, by which values are converted and judged."""
    kind: Kind | None = None
    is_common: bool = False
    """Whether it is one of those that `--help` shows."""

    @property
    def variable(self) -> str:
        return f"GOSSAMER_{self.name.upper()}"

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def is_switch(self) -> bool:
        return get_args(self.type)[0] is bool

    @property
    def is_list(self) -> bool:
        """Whether its flag may be repeated."""
        return self.kind is Kind.PATTERNS

    @property
    def placeholder(self) -> str:
        """What stands behind the flag in a command's help."""
        base = get_args(self.type)[0]
        if self.kind in _PLACEHOLDERS:
            return _PLACEHOLDERS[self.kind]
        return "N" if base is int else "|".join(get_args(base)) or self.name.upper()

    @property
    def shown_default(self) -> str:
        """For the help and the manual: as it may be given."""
        if self.kind is Kind.DURATION:
            return written_seconds(self.default)
        return written_bytes(self.default) if self.kind is Kind.SIZE else show(self.default)

    def read(self, value: object, source: str, *, typed: bool) -> Any:
        """`value` as this setting's type. Flags and the environment hold only text; a TOML file is `typed`."""
        try:
            read = msgspec.convert(self._plain(value), self.type, strict=typed)
            if isinstance(read, float) and not math.isfinite(read):
                raise ValueError(read)  # noqa: TRY301 (msgspec's bounds let "nan" pass)
        except ValueError:
            raise self._refusal(value, source, f"{self._meant(value)}allowed: {self.allowed}") from None
        for text in read if self.is_list else [read] if isinstance(read, str) else []:
            try:
                _refuse_control_characters(text)
                if self.kind is Kind.PATTERNS:
                    compile_pattern(text)
            except UsageError as error:
                raise self._refusal(text, source, str(error)) from None
        return read

    def _meant(self, value: object) -> str:
        """Of a size whose unit lacks its last letter, which may mean thousands or 1,024."""
        if self.kind is Kind.SIZE and isinstance(value, str) and value[-1:].lower() in {"k", "m", "g", "t"}:
            number, unit = value[:-1].strip(), value[-1].upper()
            if read_bytes(f"{number}{unit}B") is not None:
                return f"write {number}{unit}B or {number}{unit}iB; "
        return ""

    def _plain(self, value: object) -> object:
        """What people write, as what the type is converted from; what makes no sense stays, to be refused."""
        if self.kind is Kind.PATTERNS and isinstance(value, list | tuple):
            return [pattern for pattern in value if pattern != ""]
        if not isinstance(value, str):
            return value
        if self.kind is Kind.PATTERNS:
            return [value] if value else []
        if self.kind is Kind.WORDS:
            return " ".join(value.split())
        number = None
        if self.kind is Kind.DURATION:
            number = read_seconds(value)
        elif self.kind is Kind.SIZE:
            number = read_bytes(value)
        elif value.lower() in get_args(get_args(self.type)[0]):
            return value.lower()
        return value if number is None else number

    def _refusal(self, value: object, source: str, reason: str) -> UsageError:
        shown = repr(redacted(value) if isinstance(value, str) else value)
        if self.kind is Kind.PATTERNS and isinstance(value, str) and value.isprintable():
            shown = f"'{value}'"  # as it was given, so that places in it can be counted
        return UsageError(f"{source}: {shown:.200} is not a value for {self.name}; {reason}")


@cache
def settings_by_name() -> dict[str, Setting]:
    """Every setting there is, in the order of the sections."""
    found: dict[str, Setting] = {}
    for section in msgspec.structs.fields(Settings):
        for field in msgspec.structs.fields(section.type):
            base, *marks = get_args(field.type)
            meta = next(mark for mark in marks if isinstance(mark, Meta))
            kind = next((mark for mark in marks if isinstance(mark, Kind)), None)
            found[field.encode_name] = Setting(
                section=section.name,
                name=field.encode_name,
                default=field.default,
                description=str(meta.description),
                allowed=_allowed(base, kind, meta),
                type=field.type,
                kind=kind,
                is_common=COMMON in marks,
            )
    return found


def section_title(name: str) -> str:
    """What a section is about: the first sentence of its description."""
    section = next(field for field in msgspec.structs.fields(Settings) if field.name == name)
    return str(section.type.__doc__).partition(". ")[0].removesuffix(".")


class Given(NamedTuple):
    """A value that the user gave, and where, in words that find the place again."""

    value: Any
    source: str


Layer = Mapping[str, Given]


def toml_layer(document: Mapping[str, Any], file: str) -> Layer:
    """The settings of a parsed TOML file: one table per section."""
    layer: dict[str, Given] = {}
    known = settings_by_name()
    sections = list(dict.fromkeys(setting.section for setting in known.values()))
    for section, table in document.items():
        if section in known and not isinstance(table, dict):
            belongs = known[section].section
            raise UsageError(f"{file}: {section} is a setting of [{belongs}]; write it below a line [{belongs}]")
        if section not in sections:
            raise UsageError(f"{file}: unknown section [{section}]{_suggestion(section, sections)}")
        if not isinstance(table, dict):
            raise UsageError(f"{file}: {section} = {table!r:.200} is not a section; write [{section}] on its own line")
        names = [name for name, setting in known.items() if setting.section == section]
        for name, value in table.items():
            source = f"{file} [{section}] {name}"
            if name not in names:
                elsewhere = f"; it belongs into [{known[name].section}]" if name in known else _suggestion(name, names)
                raise UsageError(f"{source}: unknown setting{elsewhere}")
            layer[name] = Given(known[name].read(value, source, typed=True), source)
    return layer


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """The settings among the environment's variables."""
    by_variable = {setting.variable: setting for setting in settings_by_name().values()}
    layer: dict[str, Given] = {}
    for variable, value in environment.items():
        if not variable.startswith("GOSSAMER_") or RESERVED_VARIABLES.fullmatch(variable):
            continue
        if variable not in by_variable:
            nearest = closest(variable, by_variable)
            suggestion = f"did you mean {nearest}?" if nearest else "`gossamer settings --reference` lists them all"
            raise UsageError(f"{variable}={redacted(value)!r:.200}: unknown variable; {suggestion}")
        setting = by_variable[variable]
        layer[setting.name] = Given(setting.read(value, variable, typed=False), variable)
    return layer


def flag_layer(flags: Mapping[str, str | bool | list[str]]) -> Layer:
    """The settings among the command line's flags, by name."""
    layer: dict[str, Given] = {}
    for name, value in flags.items():
        setting = settings_by_name()[name]
        source = setting.flag if value is not False else f"--no-{setting.flag[2:]}"
        layer[name] = Given(setting.read(value, source, typed=False), source)
    return layer


def combine(layers: Iterable[Layer]) -> Settings:
    """The settings to run with: of every setting the last layer that gives it, else its default.

    The default of one follows from another: files that are wanted are not left out by their endings.
    """
    given = {name: value.value for layer in layers for name, value in layer.items()}
    if "media_types" in given and "skip_extensions" not in given:
        given["skip_extensions"] = endings_to_skip(given["media_types"])
    sections: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        sections.setdefault(settings_by_name()[name].section, {})[name] = value
    return msgspec.convert(sections, Settings)


def without_derived(kept: Layer) -> Layer:
    """The settings that a crawl was run with, without `skip_extensions` where that followed from its `media_types`.

    So it follows from the media types of the resume, unless the resume gives it.
    """
    if {"media_types", "skip_extensions"} <= kept.keys():
        derived = endings_to_skip(kept["media_types"].value)
        if set(kept["skip_extensions"].value.split()) == set(derived.split()):
            return {name: given for name, given in kept.items() if name != "skip_extensions"}
    return kept


def show(value: object) -> str:
    """A setting's value as TOML has it, which escapes one character more than JSON."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def reference() -> str:
    """docs/configuration.md's tables."""
    lines: list[str] = []
    for section in msgspec.structs.fields(Settings):
        lines += [f"## [{section.name}]", "", f"{section.type.__doc__}", ""]
        lines += ["| setting | default | allowed | meaning |", "|---|---|---|---|"]
        for setting in settings_by_name().values():
            if setting.section == section.name:
                names = f"`{setting.name}`<br>`{setting.variable}`<br>`{setting.flag}`"
                lines.append(f"| {names} | `{setting.shown_default}` | {setting.allowed} | {setting.description} |")
        lines.append("")
    return "\n".join(lines)


def _allowed(base: Any, kind: Kind | None, meta: Meta) -> str:
    if meta.extra:
        return str(meta.extra[WORDING])
    if base is bool:
        return "true or false"
    if kind is Kind.PATTERNS:
        return "a regular expression of RE2, or a list of them"
    if kind is Kind.DURATION:
        return f"a duration such as {DURATION_EXAMPLES}; {_bounds(meta, written_seconds)}"
    if kind is Kind.SIZE:
        return f"a size such as {SIZE_EXAMPLES}; {_bounds(meta, written_bytes)}"
    return f"a whole number, {_bounds(meta, str)}" if base is int else " or ".join(get_args(base))


def _bounds(meta: Meta, written: Callable[[Any], str]) -> str:
    least = f"at least {written(meta.ge)}" if meta.ge is not None else f"over {written(meta.gt)}"
    return least + (f" and at most {written(meta.le)}" if meta.le is not None else "")


def _suggestion(word: str, known: Iterable[str]) -> str:
    nearest = closest(word, known)
    return f"; did you mean {nearest}?" if nearest else f"; known are {', '.join(known)}"


def _refuse_control_characters(text: str) -> None:
    """They would end a header's line or make the settings file unreadable, and no setting has a use for one."""
    for place, character in enumerate(text, start=1):
        if category(character) in {"Cc", "Cs"}:
            raise UsageError(f"character {place} of it is U+{ord(character):04X}: write it without control characters")
