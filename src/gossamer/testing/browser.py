"""A real Chromium for tests of what a person sees, driven through a pipe without any library.

    with Browser(find_chromium()) as browser, browser.page() as page:
        page.open("http://127.0.0.1:8470/")
        page.wait_for("document.title !== ''")
        page.click("#pause")
        page.screenshot(Path("seen.png"))
        page.complaints          what the console, the network and the page's scripts found wrong
        page.requests            the URL of everything that was asked for

It has a profile of its own, resolves no name but loopback's, and is gone afterwards with all that it started: on
leaving the block, on an exception, and when this process is killed.
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from gossamer.errors import GossamerError
from gossamer.testing.guard import Guard, is_running
from gossamer.testing.server_binaries import UNPACKED, ServerUnavailable

CHROMIUM_VARIABLE = "GOSSAMER_TEST_CHROMIUM"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

#: An idle core starts it in a second; a loaded one may need twenty times that.
START_SECONDS = 60.0
#: A process that was killed is gone in milliseconds, unless the disk holds it.
END_SECONDS = 60.0
#: For one answer, or for a condition to become true. Idle, each takes a fraction of a second; this is only to end a
#: test that hangs, and a loaded machine must never reach it.
ANSWER_SECONDS = 60.0
#: Between two looks at a condition: ten of them are cheap beside what the page itself does.
LOOK_SECONDS = 0.05

FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # as root it refuses to run otherwise; it is shown nothing but pages of our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-dev-shm-usage",  # in containers /dev/shm is often too small
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--password-store=basic",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    # Whatever a page or the browser itself asks for, nothing leaves the machine.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
)

#: The keys that a person without a mouse uses: code, virtual key, and the text that it types.
KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    " ": ("Space", 32, " "),
    "End": ("End", 35, ""),
    "Home": ("Home", 36, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
}
_SHIFT = 8

Message = dict[str, Any]


class BrowserError(GossamerError):
    """The browser said no, or the page threw; the text has its words."""


def find_chromium() -> Path:
    """With GOSSAMER_TEST_CHROMIUM set, that one; else the system's; else the one unpacked beside the servers."""
    chosen = os.environ.get(CHROMIUM_VARIABLE)
    unpacked = Path(sysconfig.get_path("data")).resolve() / UNPACKED / "chromium"
    for name in [chosen] if chosen else [*PROGRAMS, str(unpacked)]:
        found = shutil.which(name)
        if found:
            return Path(found)
    where = f"{CHROMIUM_VARIABLE} names {chosen}, which cannot be run" if chosen else "there is no Chromium"
    raise ServerUnavailable(f"{where}: scripts/servers.sh gets one, or the system's package manager")


class Browser:
    """One Chromium process and the pipe to it. `page` opens a tab; there may be several."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self.directory = Path()
        self._guard: Guard | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._last = 0
        self._answers: dict[int, Message] = {}
        self._listeners: dict[str, Callable[[str, Message], None]] = {}

    def __enter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="gossamer-browser-"))
        self._guard = Guard(self.directory, "KILL")
        try:
            self._start()
            self.call("Browser.getVersion", seconds=START_SECONDS)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def pid(self) -> int:
        return self._running().pid

    @contextmanager
    def page(self) -> Iterator["Page"]:
        """A tab with a storage of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", {"url": "about:blank", "browserContextId": context})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, session)
        self._listeners[session] = page.notice
        try:
            page.prepare()
            yield page
        finally:
            del self._listeners[session]
            with suppress(BrowserError):  # the browser may be what failed
                self.call("Target.disposeBrowserContext", {"browserContextId": context})

    def call(
        self, method: str, parameters: Message | None = None, session: str = "", seconds: float = ANSWER_SECONDS
    ) -> Message:
        """One command of the DevTools protocol, and its result."""
        self._last += 1
        number = self._last
        message: Message = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        self._send(json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + seconds
        while number not in self._answers:
            left = deadline - time.monotonic()
            if left <= 0 or not self.listen(left):
                raise BrowserError(f"{method}: no answer in {seconds:g} s; it said: {self._said()}")
        answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error'].get('message')}")
        result: Message = answer["result"]
        return result

    def listen(self, seconds: float) -> bool:
        """Take what the browser has to say; False if it says nothing in this time."""
        process = self._running()
        assert process.stdout is not None  # noqa: S101 (opened in _start; for the type checker)
        if not select.select([process.stdout], [], [], seconds)[0]:
            return False
        read = os.read(process.stdout.fileno(), 1 << 20)
        if not read:
            raise BrowserError(f"{self._program} has ended; it said: {self._said()}")
        *whole, self._unread = (self._unread + read).split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self._answers[message["id"]] = message
            elif (listener := self._listeners.get(message.get("sessionId", ""))) is not None:
                listener(message["method"], message["params"])
        return True

    def _start(self) -> None:
        # The shell puts the two ends of the pipe where Chromium looks for them: 3 to be told, 4 to tell.
        script = 'exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null'
        with (self.directory / "said").open("wb") as said:
            self._process = subprocess.Popen(  # noqa: S603 (a program that we found)
                ["/bin/sh", "-c", script, self._program, *FLAGS, f"--user-data-dir={self.directory / 'profile'}"],
                cwd=self.directory,
                env=os.environ
                | dict.fromkeys(("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), str(self.directory)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        if self._guard is not None:
            self._guard.watch(-self._process.pid)  # negative: its whole group

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            # The rest of its family is in its group; until it is waited for, the number is no other's.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            deadline = time.monotonic() + END_SECONDS
            while any(is_running(one.pid) for one in family) and time.monotonic() < deadline:
                time.sleep(0.01)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._guard is not None:
            if process is not None:
                self._guard.watch(None)
            self._guard.close()  # removes what a dying process may have written since
            self._guard = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrowserError(f"{self._program} is not running; it runs within its `with` block")
        return self._process

    def _send(self, message: bytes) -> None:
        process = self._running()
        assert process.stdin is not None  # noqa: S101 (opened in _start; for the type checker)
        try:
            process.stdin.write(message)
            process.stdin.flush()
        except BrokenPipeError:
            raise BrowserError(f"{self._program} has ended; it said: {self._said()}") from None

    def _said(self) -> str:
        return (self.directory / "said").read_text(errors="replace")[-2000:].strip()


class Page:
    """One tab, and what a person does with it. `Browser.page` makes it."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self._loads = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        """Errors and warnings of the console, exceptions, requests that failed or were answered with an error."""

    def prepare(self) -> None:
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Until all that the page names has been loaded; what its scripts do then is not waited for."""
        before = self._loads
        answer = self._call("Page.navigate", {"url": url})
        if "errorText" in answer:
            raise BrowserError(f"{url}: {answer['errorText']}")
        if "loaderId" in answer:  # else only what follows the # differs, and nothing is loaded
            self._until(lambda: self._loads > before, ANSWER_SECONDS, f"{url} is not loaded")

    def evaluate(self, script: str) -> Any:
        """The value of an expression; a promise is awaited."""
        answer = self._call("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            said = details.get("exception", {}).get("description", details.get("text"))
            raise BrowserError(f"{script:.200}: {said}")
        return answer["result"].get("value")

    def wait_for(self, condition: str, seconds: float = ANSWER_SECONDS) -> None:
        """Until the expression is true, in the way of JavaScript."""
        self._until(lambda: bool(self.evaluate(f"Boolean({condition})")), seconds, f"never true: {condition}")

    def press(self, key: str, *, shift: bool = False) -> None:
        """One of `KEYS`, where the focus is."""
        code, number, text = KEYS[key]
        stroke = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": _SHIFT if shift else 0}
        down = {"type": "keyDown" if text else "rawKeyDown"} | ({"text": text} if text else {})
        self._call("Input.dispatchKeyEvent", stroke | down)
        self._call("Input.dispatchKeyEvent", stroke | {"type": "keyUp"})

    def type(self, text: str) -> None:
        self._call("Input.insertText", {"text": text})

    def click(self, selector: str) -> None:
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, x, y, {"button": "left", "clickCount": 1})

    def hover(self, selector: str) -> None:
        self._mouse("mouseMoved", *self._middle(selector), {})

    def view(self, width: int, height: int, *, dark: bool = False, mobile: bool = False, scale: float = 1.0) -> None:
        """How large the window is, what the person prefers, and whether it is a phone."""
        screen = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": mobile}
        self._call("Emulation.setDeviceMetricsOverride", screen)
        self._call("Emulation.setTouchEmulationEnabled", {"enabled": mobile})
        preference = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", {"features": [preference]})

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """What is in the window as a PNG file; `whole`: all of the page, however long."""
        answer = self._call(
            "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole} | self._clip(whole)
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def take_complaints(self) -> list[str]:
        """Those until now, which are forgotten."""
        self.evaluate("0")  # what was said before this answer has been read with it
        taken, self.complaints = self.complaints, []
        return taken

    def leave(self) -> None:
        """For an empty page, and forget what was seen: as new, for half of what a new one costs."""
        self.open("about:blank")
        self._mouse("mouseMoved", 0, 0, {})
        self.take_complaints()
        self.requests.clear()

    def notice(self, method: str, event: Message) -> None:
        """What the browser tells of this tab by itself."""
        if method == "Page.loadEventFired":
            self._loads += 1
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Network.responseReceived" and event["response"]["status"] >= 400:
            self.complaints.append(f"{event['response']['status']} for {event['response']['url']}")
        elif method == "Network.loadingFailed" and not event.get("canceled"):
            self.complaints.append(f"not loaded: {event['errorText']} {event.get('blockedReason', '')}")
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.complaints.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
        elif method == "Runtime.consoleAPICalled" and event["type"] in {"error", "warning", "assert"}:
            said = " ".join(str(one.get("value", one.get("description", ""))) for one in event["args"])
            self.complaints.append(f"console: {said}")
        elif method == "Log.entryAdded" and event["entry"]["level"] in {"error", "warning"}:
            self.complaints.append(f"log: {event['entry']['text']} {event['entry'].get('url', '')}")

    def _call(self, method: str, parameters: Message | None = None) -> Message:
        return self._browser.call(method, parameters, self._session)

    def _until(self, holds: Callable[[], bool], seconds: float, otherwise: str) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            left = deadline - time.monotonic()
            if left <= 0:
                raise BrowserError(f"{otherwise} (in {seconds:g} s); complaints: {self.complaints}")
            self._browser.listen(min(left, LOOK_SECONDS))

    def _clip(self, whole: bool) -> Message:
        if not whole:
            return {}
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def _mouse(self, kind: str, x: float, y: float, more: Message) -> None:
        self._call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y} | more)

    def _middle(self, selector: str) -> tuple[float, float]:
        middle = self.evaluate(
            f"""(() => {{
                const found = document.querySelector({json.dumps(selector)});
                if (!found) return null;
                found.scrollIntoView({{block: "center", behavior: "instant"}});
                const box = found.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        if middle is None:
            raise BrowserError(f"nothing on the page is {selector}")
        return float(middle[0]), float(middle[1])
