"""Gossamer, a broad web crawler. This page follows one URL through the folders, in reading order.

A *reference* stands in a seed file, in a page's link or in a redirect. `url.py` resolves it against its page and gives
it its one canonical form, or says why it is refused; the same file knows its site (the unit of politeness) and its
fingerprint. `records.py` has the forms in which it then travels from process to process.

Seeds are copied into the data directory (`seed/copy.py`) and admitted from there (`seed/load.py`).
`frontier/admission.py` has the rules for every candidate, those against traps in `frontier/traps.py`; what they refuse
is counted, and remembered for a while, in `frontier/refused_links.py`; what passes goes to the store, which queues it
if it was never seen. `frontier/store.py` is what every store promises, `frontier/stores/` has them, `frontier/slots.py`
gives a site its slot, which is what a fetcher owns, and `frontier/politeness.py` says when the site may be asked next.

A fetcher (`fetch/fetcher.py`) owns slots (`fetch/slots_held.py`) and leases URLs in batches (`fetch/feeder.py`, as
often as `fetch/ticks.py` says); many workers (`fetch/worker.py`) take one each. Before it may be requested, the
robots.txt of its origin is asked: `fetch/robots_cache.py` knows it or gets it, `fetch/robots.py` says what the answer
means and the file says to whom, `fetch/robots_rules.py` gives the verdict, with the line that decided.
`fetch/client.py` makes the request: names from `fetch/names.py`, judged by `fetch/addresses.py`.
`fetch/server_addresses.py` says whether the server may be visited now, `fetch/visits.py` which visits take too long,
`fetch/robots_redirects.py` where a robots.txt may be redirected to; `fetch/byte_budget.py` bounds the bodies that are
in memory. The outcome goes to the spool, the site is free again (`fetch/deliveries.py`).

The spool (`spool/`) is segment files between fetchers and parsers: `writer.py` makes them, `directory.py` hands them
out, `pressure.py` slows the fetchers when too much waits, `room.py` has the hard limit, `recovery.py` takes care of
what a death left.

A parser (`parse/worker.py`) reads them page by page. `parse/decode.py` undoes the content encoding within a cap,
`parse/charset.py` makes text of the bytes, `parse/taming.py` writes away what would make the HTML parser grow without
bound (`parse/glance.py` tells it that nearly no page has any), `parse/html.py` reads links and facts, `parse/text.py`
the plain text and the main text; `parse/page.py` takes these steps in their order. The links are references again
(`parse/candidates.py`). When a page has killed its parser, which the note says that every parser keeps
(`parse/note.py`), pages are read for a while in a process that may die (`parse/guarded.py`, `parse/isolated.py`); what
is known of such pages is in the spool (`spool/suspects.py`). What fails otherwise, `parse/failures.py` deals with.

What became of it goes to the sinks (`sinks/sink.py` says what one is): the archive with its index (`sinks/warc.py`,
`sinks/cdxj.py`), the table of pages (`sinks/pages.py`) and the log of all outcomes (`sinks/log.py`). It counts from the
moment of a commit (`sinks/commit.py`): then the URL is finished.

`look/` reads what is left behind, while a crawl runs and after it: `look/tables.py` has the tables, `look/archive.py`
the records of the archive, `look/explain.py` says what became of a URL and why, `look/doctor.py` what is wrong.

All of this runs in processes that `run/leader.py` starts, watches and ends (`run/supervisor.py` keeps them alive,
`run/watch.py` finds those that hang, `run/deaths.py` says what their deaths mean). What they do is counted as it
happens (`run/meters.py`, into `report/counters.py`; `report/metrics.py` has every metric). Every five seconds the
leader adds up (`run/observation.py`) and puts a sample (`report/sample.py`) on the board (`report/board.py`), with what
limits the crawl (`report/bounds.py`); once a minute it logs the rates (`run/minutes.py`). `report/history.py` keeps the
points of the charts. From the board the terminal (`report/progress.py`), the metrics (`report/exposition.py`) and the
dashboard (`report/dashboard/`) show it. `report/diagnosis.py` is loaded when somebody asks what a process holds.

`config.py` holds every setting, `setting_types.py` the kinds of values that they have; `layers.py` reads them from
files, environment and flags, with the units of `units.py` and the suggestions of `spelling.py`. `patterns.py` compiles
those that are patterns, `endings.py` says which endings of paths are skipped by default. `errors.py` is what can go
wrong with us, `invocation.py` how the program was called, `disk.py` brings files to the disk. `cli/` is the command
line.

`testing/` is what we ship for tests and no crawl needs: `testing/web/` is a web that is known before it is crawled,
with hostile sites; `testing/audit/` judges a crawl of it by the server's log; `testing/stores/` has a model of the
store and the suite that every store must pass; `testing/nemesis/` breaks crawls on purpose and looks at what is left;
`testing/pathological.py` has pages made to hurt a parser;
`testing/servers.py` starts real Redis and PostgreSQL servers, `testing/prometheus.py` a Prometheus, and
`testing/browser.py` drives a real browser. `testing/loop_disk.py` has a disk that loses its power.
"""
