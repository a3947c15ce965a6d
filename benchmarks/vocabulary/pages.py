"""Made pages that cost a parser what real ones do: the same seed gives the same page, on any machine.

The proportions were set by eye on news and shop pages of about 100 KB: a third of the bytes in inline CSS and
JavaScript, half in tags with their classes, data attributes and drawings, a dozen levels of nesting, and 15 % in text.
"""

import json
import random

#: Enough different words that text neither compresses nor hashes like a toy, few enough to read.
_VOCABULARY = (
    "harbour winter ledger minister council river library engine garden market signal bridge copper station valley "
    "paper lantern autumn courier village theatre railway orchard museum compass meadow printing glacier pepper "
    "violin anchor basket candle thunder window mirror parcel saddle timber velvet walnut quarry the of and to in a "
    "is that for it as was with be by on not he his but at are this have from or had an they which one you were all "
    "her she there would their we him been has when who will no more if out so up said what its about than into them "
    "Zürich naïve café façade São Łódź"
)
_WORDS = _VOCABULARY.split()
_ENTITIES = ("&amp;", "&nbsp;", "&mdash;", "&rsquo;", "&#8217;", "&eacute;", "&quot;", "&hellip;")
_INLINE = ("b", "i", "em", "strong", "span", "code")
_HOSTS = ("www.example.org", "news.example.com", "static.example.net", "blog.example.co.uk", "shop.example.de")


def page(seed: int, target_bytes: int = 100_000, links: int = 100) -> str:
    """A whole document of about `target_bytes` in UTF-8 with `links` anchors, from `seed` alone.

    A target smaller than the head, the navigation and the footer (some 25 KB with 100 links) is overshot.
    """
    rng = random.Random(seed)
    in_menus = links * 2 // 5
    in_article = links - 2 * in_menus
    head = _head(rng, seed, target_bytes)
    menu, footer = _menu(rng, in_menus), _footer(rng, in_menus)
    wanted = target_bytes - sum(len(part.encode()) for part in (head, menu, footer))
    return "".join((head, menu, _article(rng, wanted, in_article), footer))


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(_WORDS, k=count))


def _address(rng: random.Random) -> str:
    path = "/".join(rng.choices(_WORDS, k=rng.randint(1, 4))).lower()
    form = rng.random()
    if form < 0.55:
        return f"/{path}/{rng.randint(1, 99_999)}.html"
    if form < 0.75:
        return f"https://{rng.choice(_HOSTS)}/{path}"
    if form < 0.9:
        return f"../{path}?id={rng.randint(1, 999)}&amp;page={rng.randint(1, 20)}"
    return f"{path}#part-{rng.randint(1, 9)}"


def _anchor(rng: random.Random, label: str) -> str:
    rel = ' rel="nofollow noopener" target="_blank"' if rng.random() < 0.1 else ""
    return f'<a class="link link--{rng.choice(_WORDS)}" href="{_address(rng)}"{rel}>{label}</a>'


def _head(rng: random.Random, seed: int, target_bytes: int) -> str:
    title = _words(rng, 7).capitalize()
    named = ("description", "keywords", "author", "viewport", "theme-color", "generator", "twitter:card")
    opengraph = ("og:title", "og:type", "og:url", "og:image", "og:description", "og:site_name", "og:locale")
    metas = [f'<meta name="{name}" content="{_words(rng, 12)}">' for name in named]
    metas += [f'<meta property="{name}" content="{_words(rng, 8)}">' for name in opengraph]
    sheets = [f'<link rel="stylesheet" href="/assets/{_words(rng, 1)}.{rng.randint(1, 999)}.css">' for _ in range(5)]
    styles: list[str] = []
    size = 0
    while size < target_bytes // 10:
        rule = (
            f".{rng.choice(_WORDS)}-{rng.choice(_WORDS)} > li:hover{{margin:{rng.randint(0, 40)}px;"
            f"color:#{rng.randrange(1 << 24):06x};display:flex}}"
        )
        styles.append(rule)
        size += len(rule)
    scripts: list[str] = []
    size = 0
    while size < target_bytes // 4:
        statement = (
            f"if(w.{rng.choice(_WORDS)}>{rng.randint(1, 99)}&&d){{q.push({{'{rng.choice(_WORDS)}':'{_words(rng, 3)}',h:"
            f"'<div class=\"{rng.choice(_WORDS)}\"></div>'}});}}"
        )
        scripts.append(statement)
        size += len(statement)
    data = json.dumps({"@context": "https://schema.org", "@type": "NewsArticle", "headline": title})
    return (
        '<!DOCTYPE html>\n<html lang="en-GB" class="no-js">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{title} &ndash; Page {seed}</title>\n"
        + "\n".join(metas)
        + f'\n<meta name="robots" content="index, follow, max-image-preview:large">\n'
        f'<link rel="canonical" href="https://www.example.org/{seed}">\n'
        f'<link rel="alternate" hreflang="de" href="https://www.example.org/de/{seed}">\n'
        + "\n".join(sheets)
        + f"\n<style>{''.join(styles)}</style>\n<script>(function(w,d){{{''.join(scripts)}}})(window,document);"
        f'</script>\n<script type="application/ld+json">{data}</script>\n</head>\n'
    )


def _menu(rng: random.Random, links: int) -> str:
    items = "\n".join(
        f'      <li class="menu__item" data-index="{i}">{_anchor(rng, _words(rng, 2).title())}</li>'
        for i in range(links)
    )
    return (
        '<body class="page page--article">\n<!-- the bar at the top -->\n<header id="top"><div class="wrap"><div '
        'class="row">\n  <img src="/logo.svg" alt="Home" width="120" height="40">\n  <nav aria-label="Main">\n    <ul '
        f'class="menu">\n{items}\n    </ul>\n  </nav>\n</div></div></header>\n'
    )


def _article(rng: random.Random, target_bytes: int, links: int) -> str:
    opening = (
        '<main><div class="wrap"><div class="grid"><div class="col col--8"><article class="story">\n'
        f"<h1>{_words(rng, 8).capitalize()}</h1>\n"
    )
    closing = '</article></div><aside class="col col--4"><h2>More</h2><p>Advertisement</p></aside></div></div></main>\n'
    parts = [opening]
    size, left = len(opening) + len(closing), links
    while size < target_bytes or left:
        form = rng.random()
        if form > 0.35 and size < target_bytes:
            part = _card(rng)
        else:
            part = _paragraph(rng, left > 0)
            left -= left > 0
        if form < 0.1:
            part = f"<h2 id='part-{len(parts)}'>{_words(rng, 5).capitalize()}</h2>\n" + part
        elif form < 0.2:
            part = (
                f'<div class="figure"><figure><img src="/img/{rng.randint(1, 9999)}.jpg" alt="{_words(rng, 6)}" '
                f'loading="lazy" width="640" height="360"><figcaption>{_words(rng, 9)}</figcaption></figure></div>\n'
            ) + part
        elif form < 0.25:
            rows = "".join(
                f"<tr><td>{_words(rng, 2)}</td><td class=num>{rng.randint(1, 9999)}</td></tr>" for _ in range(6)
            )
            part += f"<table><thead><tr><th>Name<th>Count</tr></thead><tbody>{rows}</tbody></table>\n"
        elif form < 0.32:
            part += "<ul>" + "".join(f"<li>{_words(rng, 6)}</li>" for _ in range(5)) + "</ul>\n"
        parts.append(part)
        size += len(part.encode())
    return "".join((*parts, closing))


def _card(rng: random.Random) -> str:
    kind, name = rng.choice(_WORDS), rng.choice(_WORDS)
    curve = " ".join(f"{rng.uniform(0, 24):.3f}" for _ in range(12))
    image = f"/img/{name}-{rng.randrange(10**6)}"
    return (
        f'<div class="card card--{kind} col-xs-12 col-md-6" data-id="{rng.randrange(10**9)}" data-track="click:{name}">'
        f'\n  <div class="card__media card__media--{kind}"><picture><source srcset="{image}.webp 1x, {image}@2x.webp '
        f'2x" type="image/webp"><img src="{image}.jpg" alt="" loading="lazy"></picture></div>\n'
        f'  <div class="card__body"><div class="card__meta"><span class="badge badge--{kind}">{_words(rng, 1)}</span>'
        f'<time datetime="2026-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}">{rng.randint(1, 30)} min</time></div>\n'
        f'    <button type="button" class="btn btn--icon" aria-label="{name}"><svg class="icon" width="24" height="24" '
        f'viewBox="0 0 24 24"><path d="M{curve}z" fill="none"/></svg><span class="sr">{_words(rng, 2)}</span>'
        "</button>\n  </div>\n</div>\n"
    )


def _paragraph(rng: random.Random, with_link: bool) -> str:
    words = rng.choices(_WORDS, k=rng.randint(25, 90))
    for place in range(7, len(words), 11):
        tag = rng.choice(_INLINE)
        words[place] = f"<{tag}>{words[place]}</{tag}>"
    for place in range(3, len(words), 23):
        words[place] += rng.choice(_ENTITIES)
    if with_link:
        words[5] = _anchor(rng, _words(rng, 3))
    return f'<p class="story__text" data-para="{rng.randint(0, 999)}">{" ".join(words).capitalize()}.</p>\n'


def _footer(rng: random.Random, links: int) -> str:
    columns = "\n".join(
        f'    <div class="footer__col"><ul><li>{_anchor(rng, _words(rng, 2).title())}</li></ul></div>'
        for _ in range(links)
    )
    return (
        f'<footer class="footer"><div class="wrap">\n{columns}\n    <p>&copy; 2026 Example Ltd.</p>\n</div></footer>\n'
        '<noscript><img src="/pixel.gif" alt=""></noscript>\n'
        '<script src="/assets/app.js" async></script>\n</body>\n</html>\n'
    )
