"""The hostile sites: what the web does to a crawler, played on purpose.

table.py      the rows: hazard, what is played, the answer expected of a crawler, now or later; those from 51 on, which
              are about many sites at once, in crowd_table.py; row.py says what a row is
site.py       what a site is: its places, their pace, the words for what is expected
bodies.py, heads.py, redirects.py, robots.py, tls.py    what is wrong with an answer
links.py, pages.py                                      what is wrong with a page
crowds.py                                               what many sites do at once
catalogue.py  all of them put together, for the server, for a crawl's seeds, for docs/hostile.md
"""
