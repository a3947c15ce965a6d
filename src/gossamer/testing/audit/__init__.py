"""The auditor: what a crawler did, by the server's access log, against what it should have done, by the known graph.

    audit(access_log.read(files), web, Rules(seeds=web.seeds(), delay_seconds=70))  ->  Audit

    rules.py    what the crawler was told to do, and what an auditor asks of a web
    visits.py   the requests, canonical and in order, site by site
    robots.py   robots.txt: first, and not too often
    pauses.py   visits that ask for robots.txt and no page: apart from each other, ever rarer
    auditor.py  coverage, duplicates, gaps and overlaps; the one call
    report.py   offences, examples, the verdict

A request is judged by what the server saw, so nothing that a crawler says of itself counts. One deed is one offence:
what is disallowed is not also unreachable, and what overlaps is not also too soon.
"""
