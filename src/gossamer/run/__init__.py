"""The processes of a crawl and who leads them.

`leader.py` is the whole of a run: it takes the data directory, puts right what an earlier run left, starts fetchers and
parsers, is fetcher 0 itself, watches over the others (`supervisor.py`), asks when to stop (`stop.py`) and ends
everything in order. `process.py` is what a started process does, `orders.py` what leader and processes say to each
other, `wiring.py`, `fetching.py` and `parsing.py` what each is made of, `stores.py` the only file that knows which
stores there are and `sinks.py` which sinks, `data_directory.py` what is where.
"""
