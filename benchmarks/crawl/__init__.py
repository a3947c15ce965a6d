"""What a page costs: Gossamer on each store, its peers, and the floor beneath them all. Run it as `./bench`.

web.py          the simulated web that all of them crawl, in processes of its own
processes.py    CPU time, memory and writes of a tree of processes, seen from outside
measured.py     what is measured of one crawl, per page
gossamer.py     a crawl by Gossamer, on each store, from the end of its warm-up to its end
known.py        the same with a frontier that knows many URLs beforehand
peers.py        a crawl by a peer, in the environment that the launcher makes for them
scrapy_peer.py  Scrapy, with its settings for broad crawls
minimal_peer.py  uvloop, aiohttp and selectolax, with sets in memory
peer_report.py  what a peer is told, and what it says of itself
floor.py        fetching only, gunzip only, parsing only; floor_parts.py does it, among the peers
profiles.py     flame graphs of each kind of process
options.py      what can be asked for
machine.py      where it ran, and with which versions
table.py        all of it side by side, as Markdown
ratios.py       floors.json: how far above the floor Gossamer may be
"""
