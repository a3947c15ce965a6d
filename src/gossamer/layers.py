"""The settings as the user meets them: read one by one from files, environment and flags, judged, and combined.

The layers arrive as plain mappings: reading files and the environment is the command line's work. Of every setting the
last layer that gives it counts.
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import Meta

from gossamer.config import PATTERN_WORDING, SIZE_OR_NONE_WORDING, SIZE_WORDING, WORDING, Settings
from gossamer.errors import UsageError
from gossamer.patterns import compile_pattern
from gossamer.url import redacted

_SIZE_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_SIZE = re.compile(r"\s*(\d{1,15})\s*([a-zA-Z]*)\s*", re.ASCII)

#: Environment variables with our prefix that are not settings: the launcher and the tests read them.
RESERVED_VARIABLES = re.compile(r"GOSSAMER_(PYTHON|TEST_\w+)")


class Setting(msgspec.Struct, frozen=True):
    """One setting as the user meets it."""

    section: str
    name: str
    default: Any
    description: str
    allowed: str
    type: Any
    """Its annotation, by which values are converted and judged."""

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
    def is_size(self) -> bool:
        return self.allowed in {SIZE_WORDING, SIZE_OR_NONE_WORDING}

    @property
    def placeholder(self) -> str:
        """What stands behind the flag in a command's help."""
        base = get_args(self.type)[0]
        if self.is_size:
            return "BYTES"
        if base in {int, float}:
            return "N" if base is int else "SECONDS"
        return "|".join(get_args(base)) or self.name.upper()

    def read(self, value: object, source: str, *, typed: bool) -> Any:
        """`value` as this setting's type. Flags and the environment hold only text; a TOML file is `typed`."""
        try:
            size = _size(value) if self.is_size and isinstance(value, str) else value
            read = msgspec.convert(size, self.type, strict=typed)
            if self.allowed == PATTERN_WORDING and read:
                compile_pattern(read)
            if isinstance(read, float) and not math.isfinite(read):
                raise ValueError(read)  # noqa: TRY301 (msgspec's bounds let "nan" pass)
            return read  # noqa: TRY300
        except (ValueError, UsageError) as error:
            shown = redacted(value) if isinstance(value, str) else value
            allowed = error if isinstance(error, UsageError) else f"allowed: {self.allowed}"
            raise UsageError(f"{source}: {shown!r:.200} is not a value for {self.name}; {allowed}") from None


@cache
def settings_by_name() -> dict[str, Setting]:
    """Every setting there is, in the order of the sections."""
    found: dict[str, Setting] = {}
    for section in msgspec.structs.fields(Settings):
        for field in msgspec.structs.fields(section.type):
            base, meta = get_args(field.type)
            found[field.encode_name] = Setting(
                section=section.name,
                name=field.encode_name,
                default=field.default,
                description=meta.description,
                allowed=_allowed(base, meta),
                type=field.type,
            )
    return found


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
        if section not in sections:
            raise UsageError(f"{file}: unknown section [{section}]{_nearest(section, sections)}")
        if not isinstance(table, dict):
            raise UsageError(f"{file}: {section} = {table!r:.200} is not a section; write [{section}] on its own line")
        names = [name for name, setting in known.items() if setting.section == section]
        for name, value in table.items():
            source = f"{file} [{section}] {name}"
            if name not in names:
                elsewhere = f"; it belongs into [{known[name].section}]" if name in known else _nearest(name, names)
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
            raise UsageError(f"{variable}={redacted(value)!r:.200}: unknown variable{_nearest(variable, by_variable)}")
        setting = by_variable[variable]
        layer[setting.name] = Given(setting.read(value, variable, typed=False), variable)
    return layer


def flag_layer(flags: Mapping[str, str | bool]) -> Layer:
    """The settings among the command line's flags, by name."""
    layer: dict[str, Given] = {}
    for name, value in flags.items():
        setting = settings_by_name()[name]
        source = setting.flag if value is not False else f"--no-{setting.flag[2:]}"
        layer[name] = Given(setting.read(value, source, typed=False), source)
    return layer


def combine(layers: Iterable[Layer]) -> Settings:
    """The settings to run with: of every setting the last layer that gives it, else its default."""
    given = {name: value.value for layer in layers for name, value in layer.items()}
    sections: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        sections.setdefault(settings_by_name()[name].section, {})[name] = value
    return msgspec.convert(sections, Settings)


def show(value: object) -> str:
    """A setting's value as TOML has it."""
    return msgspec.json.encode(value).decode()


def reference() -> str:
    """docs/configuration.md's tables."""
    lines: list[str] = []
    for section in msgspec.structs.fields(Settings):
        lines += [f"## [{section.name}]", "", f"{section.type.__doc__}", ""]
        lines += ["| setting | default | allowed | meaning |", "|---|---|---|---|"]
        for setting in settings_by_name().values():
            if setting.section == section.name:
                names = f"`{setting.name}`<br>`{setting.variable}`<br>`{setting.flag}`"
                lines.append(f"| {names} | `{show(setting.default)}` | {setting.allowed} | {setting.description} |")
        lines.append("")
    return "\n".join(lines)


def _allowed(base: Any, meta: Meta) -> str:
    if meta.extra:
        return str(meta.extra[WORDING])
    if base is bool:
        return "true or false"
    if base in {int, float}:
        kind = "a whole number" if base is int else "a number"
        least = f"at least {meta.ge}" if meta.ge is not None else f"over {meta.gt}"
        return f"{kind}, {least}" + (f" and at most {meta.le}" if meta.le is not None else "")
    return " or ".join(get_args(base))


def _nearest(word: str, known: Iterable[str]) -> str:
    matches = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {matches[0]}?" if matches else f"; known are {', '.join(known)}"


def _size(text: str) -> int | str:
    """`1MiB` as a number; what is no size comes back as it was, to be refused as such."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].lower() not in _SIZE_UNITS:
        return text
    return int(match[1]) * _SIZE_UNITS[match[2].lower()]
