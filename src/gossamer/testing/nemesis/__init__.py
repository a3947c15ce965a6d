"""The nemesis breaks a running crawl of a simulated web, on a seeded schedule; the checker judges what is left of it.

    events.py    what is done to a crawl and when: drawn from a seed, so that it can be done again
    victims.py   the processes of a running crawl, who is who among them
    stores.py    the store that it has, its server included, and what a death costs at most by its account
    story.py     what happened to one crawl
    attack.py    one crawl with its events, resumed whenever it was ended, up to its own end
    checker.py   three witnesses compared: the server's log, the store, the files of the sink
    campaign.py  many crawls, until every kind of event has happened as often as it was asked for
    __main__.py  `python -m gossamer.testing.nemesis`

The schedule is the same for the same seed; what a process is doing when its moment comes is not. The honest bound of
repeated requests is what the store had leased to the dead when they died: so it is read from the store, at that moment.
"""
