"""Fetching: the story of a lease, from the store to a server and from there into the spool.

A fetcher process is one event loop with one `Fetcher` (fetcher.py). It owns slots (slots_held.py) and renews them; from
each renewal it knows the store's time, and until when nobody else may have its sites.

Tick by tick (ticks.py) the `Feeder` (feeder.py) leases a batch: one URL each of sites that are due. It leases no more
than there are workers for, and less or nothing while too much waits in the spool, while this machine runs short of
something (shortage.py), or while the leader says so. With each lease goes the verdict of its origin's robots.txt, if
that is known.

A worker (worker.py) takes it from there. Is the slot still ours, do the rules of admission still let it pass, did it
come back five times because a process died that had it? Then the origin's robots.txt: from memory or the store
(robots_cache.py), or asked for (robots_request.py; to other sites only as robots_redirects.py lets it) and read
(robots_file.py, robots.py, robots_rules.py). What is disallowed is dropped; a Crawl-delay that is news and not over yet
sends the URL back for later, and so does an origin that asked for silence. Only then is the page requested, through
client.py; the HTTP library is known to response.py and translation.py alone. Redirects are not followed: where one
leads is a new candidate, and the parser's business.

All that a lease sends to its site is one visit (visits.py). Its first request needs a turn at the server's network
(server_addresses.py), it ends after a time, and if too many workers wait for slow ones, before it.

However it ended, `frontier/politeness.py` says what follows, and the worker writes three things down: the outcome for
the spool, the move of the URL, the release of the site with its new clock. The outcome has all that was answered, as it
came, for the archive: the answer to the request, an error's or a redirect's with its body too, and what was answered on
the way when robots.txt was asked for. `Deliveries` (deliveries.py) sends them tick by tick. A site is free at once; an
outcome waits until its segment closes. Copies of robots.txt are saved beside that (robots_copies.py).

All bodies that are in memory, from the first byte received to the segment file, are counted (byte_budget.py). When
their limit is reached, connections are not read until there is room.

    store ──lease──► Feeder ──queue──► Worker ──► server
      ▲                                  │
      └──release, spool── Deliveries ◄───┘──► segment in spool/open, then spool/ready

At a drain nothing more is leased, requests in flight have five seconds, and what is then left goes back to the head of
its queue. At a kill the store has every lease still, and the next owner of the slots gets it back.
"""
