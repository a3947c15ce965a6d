"""One crawl and what is done to it: started, broken, resumed, until it ends by itself."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gossamer.config import Settings
from gossamer.errors import CrashLoop
from gossamer.report.resources import started
from gossamer.run.stop import StopReason
from gossamer.testing.nemesis.events import Deed, Event
from gossamer.testing.nemesis.stores import AttackedStore, frozen
from gossamer.testing.nemesis.story import Story
from gossamer.testing.nemesis.victims import Victim, Victims
from gossamer.testing.web.processes import WebProcesses

#: A crawl that does not end within this time after its last event hangs.
PATIENCE_SECONDS = 150.0
#: A process that is restarted waits for some seconds when several have died before it, and after a resume for those of
#: the last run to leave; a busy machine may need half a minute to start it.
_VICTIM_SECONDS = 100.0
_LOOK_SECONDS = 0.01
#: A fetcher that is stopped is replaced after a minute of silence; on a busy machine it takes longer to look.
_REPLACED_SECONDS = 60.0 + _VICTIM_SECONDS
#: Between two looks at the files of the spool.
_SPOOL_SECONDS = 0.25
#: A request in flight through a stop of so many seconds may run into a time-out of ours, and is then tried again.
_TIMES_OUT_SECONDS = 10.0


class Attack:
    """Leads one crawl of a simulated web through its events; `run` is called once. Nothing of it is left running."""

    def __init__(
        self,
        directory: Path,
        web: WebProcesses,
        store: AttackedStore,
        events: Sequence[Event],
        *,
        delay_seconds: float,
        flags: Sequence[str],
        beside: Sequence[str] = (),
    ) -> None:
        """`beside` are seeds of hostile sites, which the web's servers play too."""
        self.data = directory / "crawl"
        self.story = Story()
        self._directory = directory
        self._web = web
        self._store = store
        self._events = events
        self._delay_seconds = delay_seconds
        self._flags = flags
        self._beside = beside
        self._looked_at = 0.0
        self._runs = 0
        self._past: list[subprocess.Popen[bytes]] = []
        fetchers = next(int(flag.partition("=")[2]) for flag in flags if flag.startswith("--num-fetcher-processes="))
        self._victims = Victims(self.data, Settings().url.slots, fetchers, store)

    def run(self) -> Story:
        began_at = time.monotonic()
        story = self.story
        self._leader = self._crawl()
        try:
            self._until_it_exists()
            for event in self._events:
                if self._goes_on(event.wait_seconds) and self._do(event):
                    story.done.append(event)
                else:
                    story.left.append(event)
            self._until_it_ends()
        finally:
            self._end_all()
            story.seconds = time.monotonic() - began_at
        return story

    def output(self) -> str:
        """What the last run said."""
        return "\n".join(self._said(end).read_text("utf-8", "replace") for end in ("out", "err"))

    # The crawl's own course.

    def _crawl(self) -> subprocess.Popen[bytes]:
        seeds = self._directory / "seeds.txt"
        seeds.write_text("".join(f"{seed}\n" for seed in (*self._web.web.seeds(), *self._beside)))
        return self._gossamer(
            "crawl",
            f"--data-dir={self.data}",
            f"--seed-file={seeds}",
            "--email=test@example.org",
            f"--delay={self._delay_seconds}",
            "--backoff=0.2",
            f"--store={self._store.url}",
            f"--store-patience={PATIENCE_SECONDS}",  # a resume may meet a server that is away
            f"--connect-to=http=127.0.0.1:{self._web.http_port},https=127.0.0.1:{self._web.https_port}",
            *self._flags,
        )

    def _resume(self) -> None:
        self.story.resumes += 1
        # The last one is not waited for yet: a process that is dead must not look as if it still led the crawl.
        self._past.append(self._leader)
        self._leader = self._gossamer("resume", str(self.data))

    def _gossamer(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Says what it has to say to files: a pipe would stay open as long as any process that inherited it."""
        self._runs += 1
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GOSSAMER_")}
        with self._said("out").open("wb") as output, self._said("err").open("wb") as errors:
            return subprocess.Popen(  # noqa: S603 (our own program)
                [sys.executable, "-P", "-m", "gossamer", *arguments, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=environment,
                cwd=self._directory,
            )

    def _said(self, end: str) -> Path:
        return self._directory / f"run-{self._runs}.{end}"

    def _goes_on(self, seconds: float) -> bool:
        """Whether there is still a crawl after so many seconds; one that gave up is resumed."""
        until = time.monotonic() + seconds
        while True:
            code = self._leader.poll()
            if code == CrashLoop.exit_code:
                self.story.gave_up += 1
                self._until_the_web_knows()
                self.story.repeats_allowed += self._victims.leased()
                self.story.fetcher_deaths += 1
                self._resume()
            elif code is not None:
                return False
            elif time.monotonic() >= until:
                return True
            self._look_at_spool()
            time.sleep(_LOOK_SECONDS)

    def _look_at_spool(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < _SPOOL_SECONDS:
            return
        self._looked_at = now
        for segment in self.data.glob("spool/*/**/*.seg"):
            with contextlib.suppress(FileNotFoundError):
                size = segment.stat().st_size
                self.story.largest_segment_bytes = max(self.story.largest_segment_bytes, size)

    def _until_it_exists(self) -> None:
        """Before its settings are written there is nothing that could be resumed."""
        while self._goes_on(0.0) and not (self.data / "crawl.toml").exists():
            time.sleep(_LOOK_SECONDS)

    def _until_it_ends(self) -> None:
        if self._goes_on(PATIENCE_SECONDS):
            self.story.failures.append(f"the crawl does not end: {self.output()[-500:]}")
        elif self._leader.returncode != 0:
            self.story.failures.append(f"exit code {self._leader.returncode}: {self.output()[-500:]}")

    def _end_all(self) -> None:
        for victim in self._victims.all():
            victim.signal(signal.SIGKILL)
        if self._leader.poll() is None:
            self._leader.kill()
        for process in (*self._past, self._leader):
            process.wait()

    # What is done to it.

    def _do(self, event: Event) -> bool:
        """Whether it came to it: not if the crawl was over first."""
        match event.deed:
            case Deed.FETCHER | Deed.PARSER:
                return self._kill_one(event)
            case Deed.LEADER:
                return self._kill_leader(event)
            case Deed.TREE:
                return self._kill_tree()
            case Deed.STOP:
                return self._stop(event)
            case Deed.FETCHER_STOP:
                return self._stop_for_good(event)
            case Deed.TERMINATE:
                return self._terminate(event)
            case Deed.SERVER:
                return self._kill_server(event)
            case Deed.SERVER_STOP:
                return self._stop_server(event)

    def _victim(self, event: Event, *kinds: str, of_this_run: bool = True) -> Victim | None:
        """Right after a resume there may be none but stragglers, which are about to leave."""
        deadline = time.monotonic() + _VICTIM_SECONDS
        while self._goes_on(0.0) and time.monotonic() < deadline:
            found = self._victims.of(*kinds, led_by=self._leader.pid if of_this_run else None)
            if found:
                return found[int(event.draw * len(found))]
            time.sleep(_LOOK_SECONDS)
        return None

    def _kill_one(self, event: Event) -> bool:
        victim = self._victim(event, event.deed)
        if victim is None:
            return False
        self._prepare(victim, event)
        self._kill([victim])
        return True

    def _prepare(self, victim: Victim, event: Event) -> None:
        if event.warned_seconds is not None:
            victim.signal(signal.SIGTERM)
            time.sleep(event.warned_seconds)
        elif event.is_writing:
            self.story.caught_writing += self._victims.stop(victim, is_writing=True)

    def _kill(self, victims: Sequence[Victim]) -> None:
        """All of them, and note what that may cost: what fetchers have leased, as it stands when they are gone.

        A leader that lives puts right at once what a dead fetcher had leased. It is stopped until that was counted.
        """
        leader = self._leader_itself() if {victim.kind for victim in victims} == {Deed.FETCHER} else None
        if leader is not None:
            leader.signal(signal.SIGSTOP)
        try:
            self._kill_them(victims)
            self._note_cost(victims)
        finally:
            if leader is not None:
                leader.signal(signal.SIGCONT)

    def _kill_them(self, victims: Sequence[Victim]) -> None:
        """Returns when they are gone, and the web's server has seen it."""
        for victim in victims:
            victim.signal(signal.SIGKILL)
            self.story.deaths[victim.kind or "unnamed"] += 1
        deadline = time.monotonic() + _VICTIM_SECONDS
        while any(victim.is_alive for victim in victims) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS / 10)
        self._until_the_web_knows()

    def _until_the_web_knows(self) -> None:
        """By the server's log a request ends when the server sees that its client has left, on a busy machine some time
        after the death. Whoever takes over counts the gap from the death, so nobody may take over before.

        The server is asked for something that is no request, which it does not write down. It answers in the order of
        what it hears: the last words of the dead were read before the first answer, and their end before the second.
        """
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", self._web.http_port), timeout=_VICTIM_SECONDS) as asked:
                asked.sendall(b"?\r\n\r\n")
                while asked.recv(4096):
                    pass

    def _note_cost(self, victims: Sequence[Victim]) -> None:
        fetchers = {victim.fetcher for victim in victims if victim.fetcher is not None}
        if fetchers:
            self.story.fetcher_deaths += 1
            # The leader takes the others with it: they hand back what they can.
            self.story.repeats_allowed += self._victims.leased(None if 0 in fetchers else fetchers - {None})

    def _leader_itself(self) -> Victim | None:
        """Also one that has not yet put down its name: it may be mending what the last one left."""
        when = started(self._leader.pid) if self._goes_on(0.0) else None
        return None if when is None else Victim(self._leader.pid, when, "leader")

    def _kill_leader(self, event: Event) -> bool:
        victim = self._leader_itself()
        if victim is None:
            return False
        if event.with_stopped:
            others = self._victims.of("fetcher", "parser")
            if others:
                self._victims.stop(others[int(event.draw * len(others))], is_writing=event.is_writing)
        else:
            self._prepare(victim, event)
        self._kill([victim])
        self._resume()
        return True

    def _kill_tree(self) -> bool:
        leader = self._leader_itself()
        if leader is None:
            return False
        self._kill([leader, *(victim for victim in self._victims.all() if victim.pid != leader.pid)])
        self._resume()
        return True

    def _stop(self, event: Event) -> bool:
        # What matters in a long one is the slots, and these are of fetchers and the leader.
        kinds = ("leader", "fetcher") if event.is_long else ("leader", "fetcher", "parser")
        victim = self._victim(event, *kinds, of_this_run=event.is_long)
        if victim is None:
            return False
        self.story.caught_writing += self._victims.stop(victim, is_writing=event.is_writing)
        if victim.fetcher is not None and event.stopped_seconds > _TIMES_OUT_SECONDS:
            self.story.repeats_allowed += self._victims.leased({victim.fetcher})
        goes_on = self._goes_on(event.stopped_seconds)
        self._note_replaced(victim)
        victim.signal(signal.SIGCONT)
        return goes_on

    def _stop_for_good(self, event: Event) -> bool:
        victim = self._victim(event, "fetcher")
        if victim is None:
            return False
        self._victims.stop(victim, is_writing=False)
        # It leases nothing more, and what it has leased is asked for again by whoever replaces it.
        self.story.repeats_allowed += self._victims.leased({victim.fetcher or 0})
        until = time.monotonic() + _REPLACED_SECONDS
        while self._goes_on(0.0) and victim.is_alive and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        if self._note_replaced(victim):
            return True
        # Nothing more may depend on it; the crawl may have been over first.
        victim.signal(signal.SIGKILL)
        if self._goes_on(0.0):
            self.story.failures.append(f"{victim.name} was stopped for {_REPLACED_SECONDS:.0f} s and not replaced")
        return False

    def _note_replaced(self, victim: Victim) -> bool:
        """Whether the leader has ended a fetcher that was silent for too long."""
        if victim.kind != "fetcher" or victim.is_alive:
            return False
        self.story.replaced += 1
        self.story.fetcher_deaths += 1
        self.story.deaths["fetcher"] += 1
        return True

    def _terminate(self, event: Event) -> bool:
        """Any of them, also one that has just been started and knows nothing yet."""
        deadline = time.monotonic() + _VICTIM_SECONDS
        found: list[Victim] = []
        while not found:
            if not self._goes_on(0.0) or time.monotonic() > deadline:
                return False
            found = self._victims.all()
        victim = found[int(event.draw * len(found))]
        victim.signal(signal.SIGTERM)
        if victim.kind == "leader":
            return self._after_interrupt()
        return True

    def _after_interrupt(self) -> bool:
        try:
            code = self._leader.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            return True  # that it does not end is found out in the end
        # Before it listens to signals, one ends it; when everything is done, one comes too late.
        if code in {StopReason.INTERRUPTED.exit_code, -signal.SIGTERM}:
            self._resume()
        return True

    # What is done to the server of its store.

    def _kill_server(self, event: Event) -> bool:
        """Nothing is forgiven for it: a crawl waits, and asks for nothing twice."""
        server = self._store.server
        if server is None or not self._goes_on(0.0):
            return False
        victim = self._victim(event, "fetcher", "parser") if event.with_death else None
        server.kill()
        goes_on = self._goes_on(event.stopped_seconds / 2)
        if victim is not None:
            self._kill_them([victim])
        goes_on = self._goes_on(event.stopped_seconds / 2) and goes_on
        # As soon as the store is back, the leader puts right what the dead had leased: it is to be counted before that.
        leader = self._leader_itself() if victim is not None else None
        if leader is not None:
            leader.signal(signal.SIGSTOP)
        try:
            server.restart()
            self._note_cost([] if victim is None else [victim])
        finally:
            if leader is not None:
                leader.signal(signal.SIGCONT)
        return goes_on

    def _stop_server(self, event: Event) -> bool:
        server = self._store.server
        if server is None or not self._goes_on(0.0):
            return False
        with frozen(server):
            return self._goes_on(event.stopped_seconds)
