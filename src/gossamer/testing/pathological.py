"""Pages made to hurt a parser, by family, and what reading one of them costs.

The tests hold every page to its memory, its links and its texts; `benchmarks/pathological` holds it to its CPU time,
which on a busy machine says less. Each family is read in a process of its own that forks for every page: one page's
memory is not another's, and a page that breaks a bound kills only itself.
"""

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import msgspec

from gossamer.parse.html import extract
from gossamer.url import Url, canonicalise

PARSED_CHARACTERS = 1 << 20

#: What a page may cost. The memory is tested, the CPU time is measured by the benchmark.
MAX_CPU_SECONDS = 2.0
MAX_MEGABYTES = 300

#: The kernel kills the reader of a page after so much CPU time. The dearest page takes a tenth of it, and a fifth on a
#: busy machine; what grows faster than its page takes minutes.
KILLED_AFTER_SECONDS = 10

#: Stands before every page: whatever comes after it, this link is found.
CANARY = "<link rel=next href=/canary>"

NESTING_TAGS = (
    "div b i font a table li ul ol select svg math p span button template object nobr tr td h1 form dd option ruby rt "
    "frameset frame body html head title textarea style script noscript iframe xmp plaintext marquee article pre "
    "blockquote details center main custom-element"
)
FORMATTING_TAGS = "b i u s em tt big code font nobr small strike strong"
FUZZED_TAGS = (
    "div b p table tr td a i u font svg math select option template li ul pre article object button h1 form span nobr "
    "em tt body html frameset textarea title style script noscript br"
)

Pages = Iterator[tuple[str, str]]


def fill(characters: int, unit: str) -> str:
    return unit * (characters // len(unit) + 1)


def count_up(characters: int, unit: Callable[[int], str]) -> str:
    parts: list[str] = []
    length = 0
    while length < characters:
        parts.append(unit(len(parts)))
        length += len(parts[-1])
    return "".join(parts)


def styled(tag: str, count: int) -> str:
    return "".join(f"<{tag} {i}>" for i in range(count))


def open_nesting(characters: int) -> Pages:
    for tag in NESTING_TAGS.split():
        yield f"<{tag}>", fill(characters, f"<{tag}>")
    for unit in (
        "<svg><foreignObject>",
        "<svg><desc><div>",
        '<math><annotation-xml encoding="text/html"><div>',
        "<table><tr><td>x",
        "<ul><li>x",
        "<template><tr>",
        "<div><template shadowrootmode=open>",
        "<DIV><B>",
        "<ruby><rb><rt><rtc>",
    ):
        yield unit, fill(characters, unit)


def closed_nesting(characters: int) -> Pages:
    for tag in NESTING_TAGS.split():
        depth = characters // (2 * len(tag) + 5)
        yield tag, f"<{tag}>" * depth + "x" + f"</{tag}>" * depth
    for ending in ("</x>", "</p>", "</a>", "</li>", "</h1>"):
        yield f"500 open, then {ending}", "<div>" * 500 + fill(characters, ending)
        yield f"500 open svg, then {ending}", "<svg>" * 500 + fill(characters, ending)
    for tag in ("pre", "article", "td", "blockquote", "ol", "dl><dd", "span"):
        for unit in ("<p>x", "<p>text, and more text that is long enough to be scored, ", "<a href=x>y", "<br>"):
            yield f"500 <{tag}>, then {unit}", f"<{tag}>" * 500 + fill(characters, unit)


def formatting(characters: int) -> Pages:
    yield "p font", count_up(characters, lambda i: f"<p><font size={i}>")
    yield "p b i u", count_up(characters, lambda i: f"<p><b x={i}><i y={i}><u z={i}>t")
    yield "p font, all alike", fill(characters, "<p><font>")
    yield "a i", fill(characters, "<a><i>")
    yield "a i, numbered", count_up(characters, lambda i: f"<a><i {i}>")
    yield "adoption", fill(characters, "<b><p></b>x")
    yield (
        "adoption of eight",
        fill(characters, "<b><i><u><s><em><tt><big><small><div></b></i></u></s></em></tt></big></small>"),
    )
    yield "table, fonts", "<table>" + count_up(characters, lambda i: f"<font {i}>x<tr><td>")
    yield "b then i then closed", styled("b", 30_000) + styled("i", 30_000) + "x</b>" * 60_000
    for count in (1, 10, 50, 400, 1_100, 5_000, 50_000):
        yield f"{count} b in every paragraph", "<p>" + styled("b", count) + fill(characters, "<p>x")
        yield f"{count} b in 1200 paragraphs", "<p>" + styled("b", count) + "<p>x" * 1_200
    plain = "".join(f"<{tag}>" * 3 for tag in FORMATTING_TAGS.split())
    for paragraphs in (10_000, 36_000, 250_000):
        yield f"all thirteen in {paragraphs} paragraphs", "<p>" + plain + "<p>x" * paragraphs
    yield (
        "behind a quote in a comment",
        "<!--<html x='-->" + styled("b", 2_000) + fill(characters, "<p>x")[:900_000] + "'>",
    )
    yield "alike up to a quote", "<p>" + "".join(f"<b x='>{i}'>" for i in range(2_000)) + fill(characters, "<p>x")
    yield "mixed case", "<P>" + "".join(f"<FoNt {i}>" for i in range(500)) + fill(characters, "<P>x")


def multiplied_attributes(characters: int) -> Pages:
    for tag in ("a href=x", "b", "font"):
        for name in ("class", "id", "rel", "href", "style"):
            for size, paragraphs in ((20, 250_000), (7_000, 200_000), (10_000, 2_000), (500_000, 130_000)):
                value = "c " * (min(size, characters // 2) // 2)
                yield f"{tag} {name} {size}", f'<p><{tag} {name}="{value}">' + "<p>x" * paragraphs


def attribute_floods(characters: int) -> Pages:
    numbered = count_up(characters, lambda i: f"a{i} ")
    numbered_roots = count_up(characters, lambda i: f"<html a{i}>")
    yield "distinct", f"<div {numbered}>"
    yield "all alike", f"<div {fill(characters, 'a=1 ')}>"
    yield "wide characters", f"<div {count_up(characters, lambda i: f'{chr(0x4E00 + i % 20_000)}{i // 20_000} ')}>"
    yield "a thousand a tag", fill(characters, "<p " + " ".join(f"a{i}" for i in range(1_000)) + ">")
    for root in ("html", "body", "hTmL", "body/"):
        yield f"{root}, one each", count_up(characters, lambda i, root=root: f"<{root} a{i}>")  # type: ignore[misc]
        yield f"{root}, late", f"x<{root} {numbered[:1_000_000]}>x"
        halves = numbered[:500_000], numbered[500_000:1_000_000]
        yield f"{root}, twice", f"<{root} {halves[0]}><{root} {halves[1]}>"
    yield "body with a quote in a name", f'x<body x"="> " {numbered[:1_000_000]}>'
    yield "roots behind a quote in a comment", "<!--<html x='-->" + numbered_roots[:1_000_000] + "'>"
    yield "html in open quotes", fill(characters, "<html a='x <body b=\"y ")
    yield "one value", f'<div title="{fill(characters, "x")}">'
    yield "one href", f'<a href="{fill(characters, "&amp;")}">x</a>'
    yield "one class", f'<p class="{fill(characters, "c ")}">x'
    yield "never closed", f'<a href="{fill(characters, "x > <b>")}'


def floods(characters: int) -> Pages:
    for unit in (
        "<",
        "< ",
        "<a",
        "</",
        "</>",
        "<!",
        "<?",
        "<!--",
        "<!---->",
        "<![CDATA[",
        "<!doctype html>",
        "&",
        "&amp;",
        "&notanentity",
        "&#x10ffff;",
        "&CounterClockwiseContourIntegral",
        "\0",
        "a\0",
        "<\0a>",
        "\ud800<b>",
        "\x1b\x9b",
        "\U0001f600\x1b",
        " ",
        "\n",
        "x",
        "word ",
        "<br>",
        "<p>x",
        "<base href=/x>",
        "<meta name=robots content=noindex>",
        "<meta name=description content=''>",
        '<meta http-equiv=refresh content="0;url=/x">',
        "<link rel=canonical href=/>",
        "<title>x</title>",
        "<frameset><frame src=x>",
        "<select><option>",
        "<select></select>",
        "<template></template>",
        "<noscript>x</noscript>",
        "<iframe src=/x></iframe>",
        "<a href=/x>x</a>",
        "<a href=x>",
        "<a href=/x>x<p>",
        "<a href=/x><table><tr><td>x",
        "<a href=/x><object>x",
        "<svg><a href=/x>x",
        "<textarea></textarea><title></title>",
        "<form><div></form>",
    ):
        yield repr(unit), fill(characters, unit)
    for opening in (
        "<!--",
        "<script>",
        "<script><!--<script>",
        "<textarea>",
        "<title>",
        "<svg><![CDATA[",
        "<plaintext>",
    ):
        yield f"unclosed {opening}", opening + fill(characters, "x<b>&amp;-]")
    yield "svg anchors in one another", "<svg>" + fill(characters, "<a href=/x>x")
    yield "a refresh of dots", f'<meta http-equiv=refresh content="{fill(characters, "0.; ")}">'


def tables(characters: int) -> Pages:
    for unit in (
        "x<tr>",
        "<a href=/>x",
        "<div></div>x",
        "<tr><td>x<td>y",
        "<td>x",
        "<td rowspan=65534 colspan=1000>x",
        "<caption>x",
        "<col>",
    ):
        yield f"table, {unit}", "<table>" + fill(characters, unit)
    for unit in ("<table>x", "<table><b>x", "<table><tr><td><table>x<b>", "<table></table>"):
        yield unit, fill(characters, unit)
    for depth in range(495, 513):
        yield (
            f"a table at depth {depth}",
            "<div>" * depth + fill(characters, "<table><tr><td></table>x<template><td></tbody>y"),
        )
    yield "wide columns, many rows", "<table><tr>" + ("<td>" + "x" * 1_000) * 400 + fill(characters, "<tr><td>y")


def fuzzed(characters: int) -> Pages:
    tags = FUZZED_TAGS.split()
    forms = ("<{}>", "<{}>", "</{}>", "<{} x={}>", "x<{}>")
    for seed in range(12):
        rng = random.Random(seed)  # noqa: S311 (the same pages every time)
        # Cubed, so that some tags are frequent on this page and others rare.
        weights = [rng.random() ** 3 for _ in tags]
        chosen = rng.choices(tags, weights, k=characters // 4)
        yield f"seed {seed}", "".join(rng.choice(forms).format(tag, i) for i, tag in enumerate(chosen))


def crashing(characters: int) -> Pages:
    """Deep pages on which turbohtml 1.15.4 by itself dies of a segmentation fault, and many that are like them."""
    for seed in (10, 11, 42, 43):
        yield f"seed {seed}", crash_page(characters, seed)


def crash_page(characters: int, seed: int) -> str:
    tags = FUZZED_TAGS.split()
    forms = ("<{}>", "<{}>", "</{}>", "<{} x={}>", "x<{}>")
    state = seed + 1

    def unit(i: int) -> str:
        nonlocal state
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % (1 << 64)
        place = (state >> 40) % len(tags) * ((state >> 20) % len(tags)) // len(tags)
        return forms[(state >> 33) % len(forms)].format(tags[(place + seed * 3) % len(tags)], i)

    return count_up(characters, unit)


FAMILIES: dict[str, Callable[[int], Pages]] = {
    family.__name__: family
    for family in (
        open_nesting,
        closed_nesting,
        formatting,
        multiplied_attributes,
        attribute_floods,
        floods,
        tables,
        fuzzed,
        crashing,
    )
}


class Reading(msgspec.Struct, frozen=True):
    """What became of one page."""

    page: str
    cpu_seconds: float = 0.0
    megabytes: float = 0.0
    fault: str = ""
    """What is wrong with the answer; empty if nothing is."""


def read_family(family: str, characters: int = PARSED_CHARACTERS) -> list[Reading]:
    """Of each page of the family, made so long, in a process of its own."""
    command = [sys.executable, "-P", "-m", "gossamer.testing.pathological", family, str(characters)]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 (this file)
    return msgspec.json.decode(run.stdout, type=list[Reading])


def _read(page: str, markup: str, url: Url) -> Reading:
    """In the fork."""
    resource.setrlimit(resource.RLIMIT_CPU, (KILLED_AFTER_SECONDS, KILLED_AFTER_SECONDS))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    facts = extract(markup, url)
    spent = time.process_time() - began
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    fault = ""
    if not facts.links or facts.links[0].href != "/canary":
        fault = "the first link is lost"
    elif facts.text is None or facts.main_text is None or len(facts.text) > 2 * len(markup):
        fault = "no text, or more than the page has"
    else:
        # Raises if one of them is no text that can be stored.
        msgspec.json.encode([facts.text.decode(), facts.main_text.decode(), facts.title])
    return Reading(page, spent, megabytes, fault)


def _read_apart(page: str, markup: str, url: Url) -> Reading:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, msgspec.json.encode(_read(page, markup, url)))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    if said:
        return msgspec.json.decode(said, type=Reading)
    code = os.waitstatus_to_exitcode(status)
    return Reading(page, fault=f"its reader was killed by signal {-code}" if code < 0 else "its reader raised an error")


def main() -> None:
    """Prints what became of each page of the family that is named, which are so long."""
    url = canonicalise("https://www.example.org/hostile/")
    if not isinstance(url, Url):
        raise TypeError(url)
    characters = int(sys.argv[2])
    pages = FAMILIES[sys.argv[1]](characters)
    readings = [_read_apart(name, (CANARY + page)[:characters], url) for name, page in pages]
    sys.stdout.buffer.write(msgspec.json.encode(readings))


if __name__ == "__main__":
    main()
