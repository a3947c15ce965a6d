"""Looking into a crawl, while it runs and after: what the reading commands of the command line stand on.

    tables.py    the committed rows of both tables, for SQL, through read_only_files.py: newest.py, sites.py and
                 export.py ask them
    archive.py   one answer of the archive, read back by its place
    status.py    where a crawl stands
    shown.py     what the files have of a URL: its rows (attempts.py) and its answer
    explain.py   why a URL is where it is: from evidence.py, with refusals.py and standings.py, to explanation.py
    doctor.py    what is wrong with it: processes.py asks those that run, surroundings.py looks at the machine,
                 problems.py says what to do
    verify.py    whether archive, index, tables and store agree: verify_archive.py and verify_index.py read the files,
                 verify_joins.py compares them, verify_findings.py gathers what is wrong
    wording.py   times, numbers and outcomes as a person reads them
    reference.py the columns, for the manual

Nothing here writes into a crawl, and no crawl waits for it.
"""
