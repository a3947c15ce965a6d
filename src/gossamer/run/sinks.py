"""Which sinks a parser writes to: from the setting to the objects, in the order in which they take an outcome."""

import hashlib
from importlib.metadata import version

import msgspec

from gossamer.config import Settings
from gossamer.run.data_directory import DataDirectory
from gossamer.run.orders import Orders
from gossamer.sinks.log import LogSink
from gossamer.sinks.pages import PagesSink
from gossamer.sinks.sink import Sink
from gossamer.sinks.warc import WarcSink


def made_sinks(data: DataDirectory, settings: Settings, orders: Orders) -> list[Sink]:
    wanted = set(settings.sinks.sinks.split(","))
    sinks: list[Sink] = []
    if "warc" in wanted:
        sinks.append(
            WarcSink(
                data.root,
                run=orders.run,
                parser=orders.name,
                index=orders.index,
                file_bytes=settings.sinks.warc_bytes,
                facts=archive_facts(data, settings),
                urls=settings.url,
            )
        )
    if "pages" in wanted:
        sinks.append(PagesSink(data.root, parser=orders.name, crawl=crawl_name(data)))
    if "log" in wanted:
        sinks.append(LogSink(data.root, parser=orders.name, urls=settings.url))
    return sinks


def crawl_name(data: DataDirectory) -> str:
    """What its owner calls it: its directory."""
    return data.root.resolve().name


def archive_facts(data: DataDirectory, settings: Settings) -> dict[str, str]:
    """What every archive says of the crawl that made it; the names are those of the standard, where it has one."""
    # Where the frontier is kept changes nothing in an archive, and may hold a password.
    told = msgspec.structs.replace(settings, frontier=Settings().frontier)
    identity = settings.identity
    return {
        "software": f"Gossamer/{version('gossamer')}",
        "operator": "; ".join(contact for contact in (identity.contact, identity.email) if contact),
        "http-header-user-agent": identity.user_agent(version("gossamer")),
        "robots": "RFC 9309, as Gossamer; no answer is no permission",
        "isPartOf": crawl_name(data),
        "settings-digest": f"sha256:{hashlib.sha256(msgspec.json.encode(told)).hexdigest()}",
    }
