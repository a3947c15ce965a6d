"""URLs as people type them: a host without a scheme gets https."""

import re

#: A name with a dot in it, `localhost` or an IPv6 address, with a port or not. A word without a dot is no host here, or
#: `tel:5` and `images/logo` would be sites.
_HOST = re.compile(
    r"(?:\[[0-9a-f:.]+\]|localhost|[^\s/\\?#@:,;\[\]]+\.[^\s/\\?#@:,;\[\]]*)(?::\d{1,5})?(?=[/?#]|\Z)", re.IGNORECASE
)


def with_scheme(text: str) -> str:
    """`example.org:8080`, `shop.example/p/3` and `//shop.example/` with `https:`; anything else as it is."""
    text = text.strip("\ufeff \t\r\n")
    if text.startswith("//"):
        return f"https:{text}"
    host = _HOST.match(text)
    if host is None:
        return text
    rest = text[host.end() :]
    return f"https://{host[0]}{rest if rest.startswith('/') else f'/{rest}'}"
