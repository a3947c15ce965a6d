"""Scrapy with the settings that its manual has for broad crawls: links followed, robots.txt obeyed, bodies stored.

Bodies go to one file, decoded, as a spider gets them. Its queue and what it has seen are in memory, as by default.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.exceptions import CloseSpider
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import CachingThreadedResolver
from twisted.internet.defer import Deferred, succeed

from benchmarks.crawl.peer_report import PageCount, Task

#: From the page "Broad Crawls" of Scrapy's manual. The priority queue that it recommends is the default here.
BROAD_CRAWL = {
    "CONCURRENT_REQUESTS": 100,
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "LOG_LEVEL": "INFO",
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 15,
    "REDIRECT_ENABLED": True,  # the others follow redirects, too
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}


class Loopback(CachingThreadedResolver):
    """Leads every name to the ports of the simulated web."""

    ports: dict[int, int]

    def install_on_reactor(self) -> None:
        super().install_on_reactor()
        connect, ports = self.reactor.connectTCP, self.ports

        def connect_there(host: str, port: int, *words: Any, **more: Any) -> Any:
            return connect(host, ports.get(port, port), *words, **more)

        self.reactor.connectTCP = connect_there

    def getHostByName(self, name: str, timeout: Any = ()) -> "Deferred[str]":  # noqa: N802 (the name is Twisted's)
        del name, timeout
        return succeed("127.0.0.1")


class Everywhere(Spider):
    """Follows every link."""

    name = "everywhere"

    def __init__(self, task: Task, count: PageCount, **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = Path(task.seeds).read_text().split()
        self._extractor = LinkExtractor()
        self._count = count
        self._bodies = Path(task.directory, "bodies").open("wb")  # noqa: SIM115 (closed with the spider)

    def parse(self, response: Response, **_: Any) -> Iterator[Request]:
        if response.status != 200 or not isinstance(response, TextResponse):
            return
        self._bodies.write(response.body)
        for link in self._extractor.extract_links(response):
            yield Request(link.url)
        if self._count.page(int(response.headers.get("Content-Length") or 0)):
            raise CloseSpider("enough")

    def closed(self, reason: str) -> None:
        del reason
        self._bodies.close()


def main() -> None:
    task = Task.told()
    count = PageCount(task)
    Loopback.ports = {80: task.http_port, 443: task.https_port}
    process = CrawlerProcess(
        BROAD_CRAWL
        | {
            "ROBOTSTXT_OBEY": True,
            "DOWNLOAD_DELAY": 0,
            # The product token of all systems here: some sites of the web have a rule for it.
            "USER_AGENT": "Gossamer/0 (+mailto:benchmark@example.org)",
            "TWISTED_DNS_RESOLVER": Loopback,
            "LOG_FILE": str(Path(task.directory, "log")),
        }
    )
    process.crawl(Everywhere, task=task, count=count)
    process.start()
    count.say()


if __name__ == "__main__":
    main()
