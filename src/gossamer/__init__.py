"""Gossamer, a broad web crawler. This page follows one URL through the folders, in reading order.

A *reference* stands in a seed file, in a page's link or in a redirect. `url.py` resolves it against its page and gives
it its one canonical form, or says why it is refused; the same file knows its site (the unit of politeness) and its
fingerprint. `frontier/slots.py` gives the site its slot, which is what a fetcher process owns.

Before the URL may be requested, the robots.txt of its origin is asked: `fetch/robots.py` says what the answer to that
request means and what the file says to whom, `fetch/robots_rules.py` gives the verdict on each URL, with the line that
decided.

What comes back is bytes. `parse/decode.py` undoes the content encoding within a cap, `parse/charset.py` finds the
character encoding and makes text of them. `parse/guard.py` writes away what would make the HTML parser grow without
bound; `parse/html.py` reads the base URL, the links and the facts, `parse/text.py` the plain text and the main text;
`parse/page.py` takes these steps in their order. The links are references again.

`config.py` holds every setting, `errors.py` what can go wrong with us. `cli/` is the command line: it shows each of
these steps by itself.

`testing/` is what we ship for tests and no crawl needs: `testing/web/` is a web that is known before it is crawled,
with hostile sites; `testing/audit/` judges a crawl of it by the server's log; `testing/servers.py` starts real Redis
and PostgreSQL servers.
"""
