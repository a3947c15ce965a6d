"""The simulated web: a web that is known before it is crawled, served from one loopback address.

What there is, in closed form from a seed:

    graph.py         the web: what the server answers at each URL, what links to what, what is reachable
    sites.py         one site: its hosts, its pages, the way from its home page to each of them
    hrefs.py         how a link is written, in all the ways in which people write them
    policies.py      each origin's robots.txt, and what it forbids

What is sent:

    filler.py        the parts that pages share, made and compressed once
    pages.py         the bytes of a page: filler, then its own links, compressed without compressing anew
    certificates.py  an authority and its certificates, made at the start
    client_hello.py  which host a TLS client asks for, before TLS begins

Who sends it:

    stream.py        a thin socket layer, plain and TLS
    channel.py       one connection: requests in, answers out
    server.py        HTTP and HTTPS on loopback
    processes.py     the same in processes of their own
    access_log.py    what is written down of every request, and how it is read back

What else there is:

    hostile/         the sites that do to a crawler what the web does
    resolver.py      a name server for what only DNS can play; dns_message.py is its wire format
"""
