"""`gossamer simweb`: serves a simulated web on loopback until it is told to stop."""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from gossamer.cli.arguments import Parser, duration, print_row, read_file
from gossamer.errors import GossamerError, UsageError
from gossamer.testing.web.graph import Web
from gossamer.testing.web.hostile.catalogue import hostile_seeds
from gossamer.testing.web.processes import WebProcesses
from gossamer.testing.web.resolver import Resolver
from gossamer.units import counted

SUMMARY = "Serve a simulated web on loopback: every page known beforehand, every request written down."
NOTES = """All host names are answered on two ports of 127.0.0.1; a crawler is led there by its --connect-to, or by the
resolver. The log directory gets web.json (what the web is), ca.pem (whom to trust) and an access log per process:
`gossamer audit` reads them. Stop it with an interrupt or SIGTERM; it then says what it served."""

#: How soon a server process that died by itself is noticed.
_LOOK_SECONDS = 0.5


def add_arguments(parser: Parser) -> None:
    parser.add_argument("--sites", type=int, metavar="N", help="how many sites, s0.test and so on [100]")
    parser.add_argument("--pages", type=int, metavar="N", help="pages of each site [100]")
    parser.add_argument("--seed", type=int, metavar="N", help="another number makes another web [0]")
    parser.add_argument(
        "--https-share", type=float, metavar="X", help="part of the sites that live on HTTPS, 0 to 1 [0]"
    )
    parser.add_argument("--latency", type=duration, metavar="DURATION", help="median time before an answer begins [0]")
    parser.add_argument("--web", metavar="FILE", help="a web.json with all of the web's options; the flags above win")
    parser.add_argument("--hostile", action="store_true", help="also play the hostile sites, h01.test and so on")
    parser.add_argument("--http-port", type=int, metavar="PORT", default=0, help="[a free one]")
    parser.add_argument("--https-port", type=int, metavar="PORT", default=0, help="[a free one]")
    parser.add_argument("--resolver-port", type=int, metavar="PORT", help="also run the test resolver; 0: a free one")
    parser.add_argument("--processes", type=int, metavar="N", default=1, help="server processes [1]")
    parser.add_argument("--close", action="store_true", help="close each connection after one answer")
    parser.add_argument("--log-directory", metavar="DIR", default="simweb-log", help="[simweb-log]")
    parser.add_argument("--seeds", metavar="FILE", help="write the seed list there, the home page of every site")
    parser.add_argument("--json", action="store_true", help="one JSON line when it listens, and one when it ends")


def run(arguments: argparse.Namespace) -> int:
    web = _web(arguments)
    if arguments.processes < 1:
        raise UsageError(f"--processes: {arguments.processes} is too few; give 1 or more")
    if arguments.seeds is not None:
        _write_seeds(Path(arguments.seeds), web, hostile=arguments.hostile)
    running = WebProcesses(
        web,
        log_directory=Path(arguments.log_directory),
        processes=arguments.processes,
        http_port=_port(arguments.http_port, "--http-port"),
        https_port=_port(arguments.https_port, "--https-port"),
        keep_alive=not arguments.close,
        hostile=arguments.hostile,
    )
    try:
        with running:
            asyncio.run(_until_told(running, arguments))
    except OSError as error:
        raise UsageError(f"--log-directory: {arguments.log_directory!r}: {error.strerror or error}") from None
    _print_end(running, as_json=arguments.json)
    return 0


async def _until_told(running: WebProcesses, arguments: argparse.Namespace) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    async with contextlib.AsyncExitStack() as stack:
        resolver_port = None
        if arguments.resolver_port is not None:
            port = _port(arguments.resolver_port, "--resolver-port")
            try:
                resolver_port = (await stack.enter_async_context(Resolver(port))).port
            except OSError as error:
                raise UsageError(f"--resolver-port: {port}: {error.strerror or error}; choose another") from None
        _print_start(running, resolver_port, as_json=arguments.json)
        while not told.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), _LOOK_SECONDS)
            if running.has_failed():
                raise GossamerError("a server process ended by itself; what it said stands above")


def _web(arguments: argparse.Namespace) -> Web:
    chosen = {
        "sites": arguments.sites,
        "pages": arguments.pages,
        "seed": arguments.seed,
        "https_share": arguments.https_share,
        "latency_median_seconds": arguments.latency,
    }
    try:
        options: Any = msgspec.json.decode(read_file(arguments.web, source="--web")) if arguments.web else {}
        if not isinstance(options, dict):
            raise UsageError(f"--web: {arguments.web!r} holds no object")
        given = {name: value for name, value in chosen.items() if value is not None}
        return msgspec.convert(options | given, Web)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"the web cannot be made: {error}") from None


def _port(number: int, flag: str) -> int:
    if not 0 <= number < 65_536:
        raise UsageError(f"{flag}: {number} is no port; give 0 to 65535")
    return number


def _write_seeds(file: Path, web: Web, *, hostile: bool) -> None:
    try:
        with file.open("w", encoding="ascii") as seeds:
            seeds.writelines(f"{web.home(index)}\n" for index in range(web.sites))
            seeds.writelines(f"{url}\n" for url in (hostile_seeds() if hostile else ()))
    except OSError as error:
        raise UsageError(f"--seeds: cannot write {str(file)!r}: {error.strerror or error}") from None


def _print_start(running: WebProcesses, resolver_port: int | None, *, as_json: bool) -> None:
    facts = {
        "http_port": running.http_port,
        "https_port": running.https_port,
        "resolver_port": resolver_port,
        "ca_certificate": str(running.ca_certificate),
        "log_files": [str(file) for file in running.log_files],
        "pids": running.pids,
    }
    if as_json:
        print(json.dumps(facts), flush=True)
        return
    print(f"{counted(running.web.sites, 'site')} of {counted(running.web.pages, 'page')}, on 127.0.0.1")
    for name, value in facts.items():
        if value is not None:
            print_row(name.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list) else value)
    sys.stdout.flush()


def _print_end(running: WebProcesses, *, as_json: bool) -> None:
    answered: dict[int, int] = {}
    for totals in running.totals:
        for status, count in totals.answered.items():
            answered[status] = answered.get(status, 0) + count
    facts = {
        "requests": sum(answered.values()),
        "body_bytes": sum(totals.body_bytes for totals in running.totals),
        "cpu_seconds": round(sum(totals.cpu_seconds for totals in running.totals), 3),
        "by_status": {str(status): count for status, count in sorted(answered.items())},
    }
    if as_json:
        print(json.dumps(facts))
        return
    print("served")
    for name, value in facts.items():
        shown = ", ".join(f"{count} x {key}" for key, count in value.items()) if isinstance(value, dict) else value
        print_row(name.replace("_", " "), shown)
