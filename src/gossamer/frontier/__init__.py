"""The frontier: which URLs wait, of which sites, and when each site may be asked again.

    admission.py    which URLs are crawled at all; a reason for each that is not
    traps.py        of these, the rules against sites that make URLs without end
    store.py        the Protocol: what every store guarantees, verb by verb
    stores/         the stores themselves
    slots.py        a site's slot, which is what a fetcher owns
    politeness.py   when a site may be asked next, and where a URL goes that was not fetched

A URL is born as a *candidate*: a line of the seeds, a link of a page, the target of a redirect. The seed loader or a
parser asks `AdmissionRules` about it and offers what passes to the store, many at a time. The store alone knows whether
it is new. From there on it is in exactly one state, and each arrow is one verb of the store:

    candidate ──admit──► queued ──lease──► leased ──spool──► spooled ──finish──► finished
                           ▲                 │                  │
                           ├── spool: TAIL ──┤                  │
                           ├── spool: HEAD ──┤                  │
                           ├── own ──────────┘                  │
                           └── unspool ─────────────────────────┘

    who                   moves a URL                    when
    seed loader, parser   into the queue of its site     it passed the rules and was never seen
    fetcher               queued to leased               its site is due, has no other lease, and the slot is owned
    fetcher               leased to spooled              its outcome stands in a closed segment file
    fetcher               leased to the tail             it failed for a passing reason and has attempts left
    fetcher               leased to the head             the site was busy, we ran short of something, or we stop
    next owner of a slot  leased to the head             its holder died, or lost the slot
    leader                spooled to the head            its segment is lost
    parser                spooled to finished            its outcome is committed and its links are admitted

Who looks into a crawl moves none: a store that is open for reading only says where a URL is (`find`) and what is known
of sites (`site_states`), also while the crawl runs.

A *site* has a life of its own beside its URLs. While one of them is leased the site is busy; `release` frees it, when
the request has ended and long before the outcome is committed. Its clock is written twice for each request: by `lease`,
so that a crash in mid-request opens no gap, and by `release`, with what `politeness.decide` made of the answer.

What always holds:

- A URL is admitted at most once. Seen and queued change together, so none is lost and none comes twice.
- A site has at most one lease, under the epoch of its slot's one owner. Whoever comes late with an older epoch is told
  so and has changed nothing.
- No site is leased before its `not_before`, and nothing moves that earlier: not a new link, not a restart, not a second
  owner. Only a lease that sent no request gives back what it had taken.
- A URL goes round finitely often. Attempts bound the way by the tail, the failures of its site in a row bound the way
  back from a busy one, the count of dead holders bounds the rest.
- A site gets finitely many URLs, whatever it links to: the store counts those of the site, and those of each path that
  comes with ever new parameters.
- The rules are asked twice, of a candidate and of a lease. What was queued under yesterday's rules is crawled under
  today's.
- `admitted` and `finished` only grow, and a URL is finished after its links are admitted: when the two are equal, the
  crawl has reached its end.
"""
