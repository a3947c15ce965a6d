"""No page can lead the crawler into anybody's own network, whatever it writes and whatever its names resolve to.

A network namespace in which *every* address leads to this machine: one listener per port stands on all of them at once,
and the address that a connection was made to is the accepted socket's. Two of them are the open web, where the pages
are served that lead to all others: connections to these come from another address, as if they were not this machine's
own. There is no `--connect-to`. Besides the listeners, the kernel counts: no connection
was begun in the namespace, to whatever address and port, but those that the two public addresses got.

The kernel itself begins no connection to multicast, broadcast and link-local addresses without their interface. Nothing
can be heard there; that those were refused by rule is seen by their outcome.

The store is the embedded one: a server that runs outside is not reached from there, and what is refused is refused long
before a store hears of it.
"""

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from ipaddress import IPv6Network, ip_address
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gossamer.fetch.addresses import is_forbidden
from gossamer.testing.web.dns_message import address_record
from gossamer.testing.web.hostile.redirects import PRIVATE_HOSTS, SPELLINGS
from gossamer.testing.web.resolver import Answerer, Reply, Resolver
from gossamer.url import Url, canonicalise

#: Four crawls, one after the other; 25 s on an idle machine.
PATIENCE_SECONDS = 400.0
pytestmark = pytest.mark.timeout(500)

#: Real addresses of the open web, which exist here inside the namespace alone.
PUBLIC = ("93.184.216.34", "2606:2800:220:1::1")
#: As open as those, but connecting to it fails at once: whoever then tries the name's next address is found out.
UNREACHABLE = "93.184.216.99"
#: The kernel wants to know by which interface.
LINK_LOCAL_V6 = IPv6Network("fe80::/10")
PORTS = (80, 443, 22, 2375, 5432, 6379, 8080, 9200)

#: Beyond those of the hostile table: a network each, spellings, and what carries an IPv4 address in an IPv6 one.
MORE_HOSTS = [
    *("10.255.255.255", "172.20.10.2", "192.168.0.1", "192.168.255.255", "100.127.255.255", "169.254.0.1"),
    *("0.1.2.3", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "240.0.0.1"),
    *("239.255.255.250", "127.127.127.127", "[fc00::1]", "[fdff:ffff::1]", "[fec0::1]", "[ff02::1]", "[100::1]"),
    *("[2001:db8::1]", "[3fff::1]", "[2001:2::1]", "[2001:20::1]", "[5f00::1]", "[64:ff9b:1::a00:1]"),
    *("[::ffff:10.0.0.1]", "[::ffff:0:127.0.0.1]", "[::ffff:192.168.0.1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::a00:1]"),
    *("[2002:a00:1::1]", "[2002:a9fe:a9fe::1]", "[2002:c0a8:1::1]", "[2001:0:808:808::80ff:fffe]"),
    *("[2001:0:7f00:1::f7f7:f7f7]", "[0000::0001]", "[::00:1]", "[fe80::a9fe:a9fe]"),
    *("0x7f.0.0.1", "0177.1", "127.0x1", "0x7F000001.", "00000177.0.0.1", "2130706434", "0xC0A80001", "0300.0250.0.1"),
    *("167772161", "0xa.1", "012.1", "172.1048577", "0x64.64.1", "0xa9.0xfe.0xa9.0xfe", "169.254.43518", "4294967295"),
    *("168.63.129.16", "[2a00::5efe:a00:1]", "[2a00::200:5efe:a9fe:a9fe]", "[fe80::5efe:808:808]"),
    *("0.0.0.0.", "127.0.0.1%2e", "%30x7f.1", "①②⑦.⓪.⓪.①", "127．0．0．1", "127。1。"),
]
#: Names that mean this machine to every system, without any name server.
LOCAL_NAMES = ["localhost", "LOCALHOST.", "local%68ost", "ｌocalhost", "any.localhost", "a.b.localhost."]

#: Addresses of the open web that this machine has itself: two, and two that carry the first.
OWN = ("91.198.174.192", "2620:0:860:2::1")
OWN_HOSTS = [OWN[0], f"[{OWN[1]}]", "[64:ff9b::5bc6:aec0]", "[2a00::5efe:5bc6:aec0]"]

LITERALS = list(dict.fromkeys([*PRIVATE_HOSTS, *SPELLINGS, *MORE_HOSTS, *OWN_HOSTS]))
#: What names lead to when they are asked again.
REBOUND = ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "fd00::1", "::ffff:10.0.0.1", "0.0.0.0", "64:ff9b::a00:1"]
#: All ports, so that it is the address which is refused.
FLAGS = (
    *("--email=test@example.org", "--backoff=0.01", "--max-attempts=2", "--blocked-ports=", "--json"),
    # Many of its names share an address, and it is not about their turns.
    *("--address-gap=0", "--address-concurrency=0"),
)


def parsed(text: str) -> Url:
    url = canonicalise(text)
    assert isinstance(url, Url), text
    return url


def addresses() -> list[str]:
    """Of all literals, each once: what names resolve to."""
    return list(dict.fromkeys(parsed(f"http://{host}/").host.strip("[]") for host in LITERALS))


def targets(way: str) -> list[str]:
    """Every form as one way leads to it, with a path and a port of its own."""
    hosts = [*LITERALS, *LOCAL_NAMES, *(f"to-{number}.test" for number in range(len(addresses())))]
    ports = [PORTS[number % len(PORTS)] for number in range(len(hosts))]
    return [
        f"{'https' if port == 443 else 'http'}://{host}:{port}/{way}-{number}"
        for number, (host, port) in enumerate(zip(hosts, ports, strict=True))
    ]


def seeds() -> list[str]:
    """Not all of them: it is the same to the crawler, and one site after another URL takes its time."""
    return targets("seed")[::3]


def tags() -> list[tuple[str, str]]:
    """Ways in which a page can name a place, besides a link; and where it leads."""
    return [
        ("<base href='http://127.0.0.1:8080/'><a href=base-relative>", "http://127.0.0.1:8080/base-relative"),
        ("<meta http-equiv=refresh content='0;url=http://169.254.169.254/refresh'>", "http://169.254.169.254/refresh"),
        ("<iframe src='http://[::1]/frame'></iframe>", "http://[::1]/frame"),
        ("<map><area href='http://10.0.0.1/area'></map>", "http://10.0.0.1/area"),
        ("<a href='http:/\\127.1\\slashes'>", "http://127.0.0.1/slashes"),
        ("<a href='http://93.184.216.34@127.0.0.1/userinfo'>", "http://127.0.0.1/userinfo"),
        ("<a href='http://127.0.0.1:80\t80/tab'>", "http://127.0.0.1:8080/tab"),
        ("<a href='http://93.184.216.34&#64;10.0.0.1/entity'>", "http://10.0.0.1/entity"),
    ]


class Names(Resolver):
    """Where the names of this test lead to; those that rebind are public until `has_turned`, and private ever after."""

    def __init__(self) -> None:
        super().__init__()
        self.has_turned = False
        self._names = {f"to-{number}.test": self._fixed(address) for number, address in enumerate(addresses())}
        self._names["mixed.test"] = self._fixed(UNREACHABLE, "127.0.0.1", "10.0.0.1", "::1", "fd00::1")
        for host in ("links.test", "redirects.test", "tags.test", *robots_hosts()):
            self._names[host] = self._fixed(*PUBLIC)
        for number, address in enumerate(REBOUND):
            self._names[f"rebind-{number}.test"] = self._turning(address)

    def _fixed(self, *found: str) -> Answerer:
        return lambda name, _: Reply(records=tuple(address_record(name, address, 0) for address in found))

    def _turning(self, private: str) -> Answerer:
        before, after = self._fixed(*PUBLIC), self._fixed(private)
        return lambda name, count: after(name, count) if self.has_turned else before(name, count)


def robots_hosts() -> list[str]:
    return [f"robots-{number}.test" for number in range(len(targets("robots")))]


# Inside the namespace.


class Place:
    """Every address of the namespace, on every port of ours."""

    def __init__(self) -> None:
        self.connections = Counter[str]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = writer.get_extra_info("sockname")[:2]
        self.connections[str(ip_address(host))] += 1
        try:
            if port == 443:
                return  # nobody here speaks TLS; being connected to is enough
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            writer.write(answer(head))
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()


def answer(head: str) -> bytes:
    path = head.split(" ")[1]
    host = next(line[6:] for line in head.split("\r\n") if line.lower().startswith("host: "))
    location, body = "", ""
    if path == "/robots.txt":
        if not host.startswith("robots-"):
            return b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n"
        location = targets("robots")[int(host.removeprefix("robots-").removesuffix(".test"))]
    elif host == "links.test":
        body = "".join(f"<a href='{target}'>x</a>" for target in targets("link"))
    elif host == "redirects.test":
        if path == "/":
            body = "".join(f"<a href='/{number}'>x</a>" for number in range(len(targets("redirect"))))
        else:
            location = targets("redirect")[int(path[1:])]
    elif host == "tags.test":
        if path == "/":
            body = "".join(f"<a href='/{number}'>x</a>" for number in range(len(tags())))
        else:
            body = tags()[int(path[1:])][0]
    elif host.startswith("rebind-") and path == "/":
        body = "<a href=/again>x</a>"
    if location:
        return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
    content = f"<!doctype html><title>page</title>{body}".encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s" % (
        len(content),
        content,
    )


def connections_begun() -> int:
    """By any process, to any address and port of this namespace, since it exists."""
    names, values = (
        line.split()[1:] for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Tcp:")
    )
    return int(dict(zip(names, values, strict=True))["ActiveOpens"])


async def gossamer(*arguments: str) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gossamer", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    summary: dict[str, Any] = json.loads(output)
    return summary


async def observed(place: Place, *arguments: str) -> dict[str, Any]:
    """One run of the crawler, and who was connected to in its time."""
    place.connections.clear()
    before = connections_begun()
    summary = await gossamer(*arguments)
    return {"summary": summary, "connections": dict(place.connections), "begun": connections_begun() - before}


async def inside(directory: Path) -> dict[str, Any]:
    place = Place()
    servers = [await asyncio.start_server(place.serve, host, port) for port in PORTS for host in ("0.0.0.0", "::")]
    homes = [f"http://{host}/" for host in ("links.test", "mixed.test", *robots_hosts())]
    (directory / "allowed.txt").write_text("\n".join(homes))  # each form by one way is enough where all are followed
    homes += ["http://redirects.test/", "http://tags.test/"]
    (directory / "refused.txt").write_text("\n".join([*homes, *seeds()]))
    found: dict[str, Any] = {}
    async with Names() as names:
        resolver = f"--resolver=127.0.0.1:{names.port}"
        for run, allowed in (("refused", ()), ("allowed", ("--allow-private-addresses",))):
            files = (f"--data-dir={directory / run}", f"--seed-file={directory / run}.txt")
            found[run] = await observed(place, "crawl", *files, resolver, *FLAGS, "--delay=0", *allowed)
        rebinding = [f"http://rebind-{number}.test/" for number in range(len(REBOUND))]
        for run, allowed in (("rebound", ()), ("rebound allowed", ("--allow-private-addresses",))):
            data = directory / run.replace(" ", "-")
            names.has_turned = False
            # With such a delay each site is asked for one page, and the limit is reached by just these: on a busy
            # machine, too, the last site gets its first request before the first site is due again.
            first = ("--delay=6", f"--max-pages={len(REBOUND)}")
            found[f"before {run}"] = await observed(
                place, "crawl", *rebinding, f"--data-dir={data}", resolver, *FLAGS, *first, *allowed
            )
            names.has_turned = True
            found[run] = await observed(place, "resume", str(data), "--delay=0", "--max-pages=0", "--json")
    for server in servers:
        server.close()
    return found


# Outside.


def namespace() -> list[str] | None:
    """The command that runs another one in a network namespace of its own, where that is possible."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return None
    for command in (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"]):
        tried = subprocess.run([*command, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
        if tried.returncode == 0:
            return command
    return None


SET_UP = f"""
ip link set lo up
ip addr add {OWN[0]}/32 dev lo
ip -6 addr add {OWN[1]}/128 dev lo nodad
ip route add local 0.0.0.0/0 dev lo
ip -6 route add local ::/0 dev lo
ip route add local {PUBLIC[0]}/32 dev lo src 127.0.0.1
ip -6 route add local {PUBLIC[1]}/128 dev lo src ::1
ip route add unreachable {UNREACHABLE}/32 table local
exec "$@"
"""


class Observed(NamedTuple):
    """What a run came to."""

    summary: dict[str, Any]
    connections: dict[str, int]
    """By the address that was connected to."""
    begun: int
    """By the kernel's count."""

    @property
    def forbidden(self) -> dict[str, int]:
        return {address: count for address, count in self.connections.items() if address not in PUBLIC}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> dict[str, Observed]:
    """All runs, made once: where tests run side by side, the first process that wants them makes them for all."""
    command = namespace()
    if command is None:
        pytest.skip("this system lets us make no network namespace: it takes `unshare`, `ip`, and the right to")
    shared = tmp_path_factory.getbasetemp()
    shared = shared if worker_id == "master" else shared.parent
    result = shared / "namespace.json"
    with (shared / "namespace.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_bytes(
                output_of([*command, "sh", "-e", "-c", SET_UP, "sh"], tmp_path_factory.mktemp("namespace"))
            )
    return {name: Observed(**found) for name, found in json.loads(result.read_bytes()).items()}


def output_of(command: list[str], directory: Path) -> bytes:
    with subprocess.Popen(
        [*command, sys.executable, "-m", "tests.crawl.test_ssrf", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the crawl's own processes leave when their leader is gone
    assert process.returncode == 0, errors.decode()
    return output


def connectable(found: Iterable[str]) -> set[str]:
    """Where connections to these end, those left out that the kernel does not even begin."""
    ends = set()
    for address in map(ip_address, found):
        if address.is_multicast or str(address) == "255.255.255.255" or address in LINK_LOCAL_V6:
            continue
        mapped = getattr(address, "ipv4_mapped", None)
        ends.add({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(address), str(mapped or address)))
    return ends


def test_there_are_enough_forms_and_each_is_one_that_may_not_be_connected_to() -> None:
    assert len(LITERALS) >= 60
    assert len(addresses()) >= 40
    own = [parsed(f"http://{host}/").host.strip("[]") for host in OWN_HOSTS]
    assert [address for address in addresses() if not is_forbidden(ip_address(address))] == own
    assert [address for address in (*PUBLIC, UNREACHABLE) if is_forbidden(ip_address(address))] == []


def test_no_link_redirect_name_or_robots_txt_leads_to_a_forbidden_address(runs: dict[str, Observed]) -> None:
    run = runs["refused"]
    assert run.forbidden == {}
    assert run.begun == sum(run.connections.values())
    forms = {parsed(target).text for target in (*seeds(), *targets("link"), *targets("redirect"))}
    forms |= {leads_to for _, leads_to in tags()}
    assert run.summary["failures"] == {
        "blocked-address": len(forms),
        "robots-unreachable": len(robots_hosts()),
        "connect": 1,
    }
    pages, redirects = 3 + len(tags()), len(targets("redirect"))
    assert (run.summary["pages"], run.summary["outcomes"]["done"]) == (pages, pages + redirects)


def test_the_same_listeners_hear_of_every_form_where_it_is_allowed(runs: dict[str, Observed]) -> None:
    run = runs["allowed"]
    assert connectable(addresses()) - run.forbidden.keys() == set()
    assert run.begun == sum(run.connections.values())
    assert "blocked-address" not in run.summary["failures"]


def test_a_name_that_was_public_is_not_followed_when_it_turns_private(runs: dict[str, Observed]) -> None:
    before, after = runs["before rebound"], runs["rebound"]
    assert (before.summary["pages"], before.forbidden) == (len(REBOUND), {})
    assert (after.connections, after.begun) == ({}, 0)
    assert after.summary["failures"] == {"blocked-address": len(REBOUND)}


def test_the_same_listeners_hear_of_every_name_that_turned_where_it_is_allowed(runs: dict[str, Observed]) -> None:
    run = runs["rebound allowed"]
    assert run.connections.keys() == connectable(REBOUND)
    assert run.summary["pages"] == 2 * len(REBOUND)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(inside(Path(sys.argv[1])))))
