"""What the frontier costs per URL, in each store. Run it as `python -m benchmarks.frontier`.

links.py        candidates, drawn as pages have them
spent.py        CPU time of this process and of a server with all its processes, and what they write
places.py       a frontier of each kind: the file, or the private server with the settings of a real crawl
sizes.py        how much room a frontier takes, by what it holds
bench.py        one frontier and the measurements on it
crowd.py        the same work by several processes at once
statements.py   how long each call takes inside of a server, as the server itself says
tables.py       all stores side by side
"""
