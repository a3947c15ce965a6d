"""Seeds: where a crawl begins.

    typed.py  what a person types as a URL: a host without a scheme gets https
    formats.py  files that are no list of seeds: UTF-16, archives, tables
    table_advice.py  which command takes the URLs out of a table
    copy.py   what was typed and what the seed file holds, judged line by line and copied into the data directory
    load.py   the copy admitted to the store, batch by batch

The copy comes first and is whole before anything else starts: the file may be a pipe, or be gone at the resume. From
then on the crawl knows only the copy and how far it was admitted, so that a kill at any moment loses no seed.
"""
