"""The part of a page that many pages share: markup as the web has it, without a single link.

Head with styles, navigation, scripts, nested divisions, tables, lists, forms, drawings, entities, images and paragraphs
in a language of the page's charset. Of 100 KB some 16 % are text and a third scripts and styles, with 12 elements to a
KB: about what news and shop pages have. The last division is left open for what follows.
"""

from gossamer.testing.web.sites import draws

_FRENCH = (
    "la le les une des forêt été élève maison fenêtre être après déjà hôpital rivière château école année musée "
    "lumière marché jardin pêche où garçon façade théâtre montagne vallée chemin pierre soleil printemps histoire "
    "voyage tableau cœur fête nuit étoile bateau rivage ville place pont route saison récolte moulin atelier"
)
_JAPANESE = (
    "日本 東京 世界 新聞 学校 図書館 電車 時間 天気 春 夏 秋 冬 山 川 海 空 花 鳥 風 月 町 駅 店 道 橋 家族 友達 料理 "
    "音楽 写真 映画 歴史 文化 旅行 写真館 公園 市場 病院 大学"
)
_ENGLISH = (
    "the of and to in that with as for was on are by this have from which were all their there been one more when "
    "water house people morning garden village station market library painting history journey window river season "
    "method record engine summer letter country evening forest island planet bridge castle theatre"
)

_STYLE = """<style>
.nav{display:flex;gap:1rem;margin:0;padding:0 1.5rem;background:#f7f7f5;border-bottom:1px solid #ddd}
.nav>li{list-style:none;padding:.4rem .6rem}.card{border-radius:6px;box-shadow:0 1px 3px rgba(0,0,0,.2)}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(18rem,1fr))}
@media (max-width:40em){.grid{display:block}}
h1,h2,h3{font-family:Georgia,"Times New Roman",serif;line-height:1.2}p{max-width:42em;hyphens:auto}
</style>
"""
_SCRIPT = """<script>
(function(w,d){var q=w.queue=w.queue||[];q.push(["start",new Date().getTime()]);
for(var i=0;i<3&&i>-1;i++){var e=d.createElement("span");
e.innerHTML="<em class=\\"m\\">"+i+"<\\/em>";q.push(e)}})(window,document);
</script>
"""
#: Of so many pages one has tables.
_PAGES_PER_TABLES = 3
_ENTITIES = ("&nbsp;", "&mdash;", "&eacute;", "&#8217;", "&amp;", "&laquo;", "&hellip;", "&#x20AC;")


def filler(draw: int, size: int, *, charset: str | None, language: str) -> str:
    """Some `size` characters that follow from `draw`; never less than head and navigation take."""
    words = tuple(f"{_ENGLISH} {_JAPANESE if language == 'ja' else _FRENCH}".split())
    first = draws(8, draw, "title")
    title = " ".join(words[number % len(words)] for number in first)
    meta = "" if charset is None else f'<meta charset="{charset}">'
    start = (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>{meta}<title>{title}</title>\n'
        f'<meta name="description" content="{title} &ndash; {words[first[0] % 7]}">\n'
        f'<meta name="viewport" content="width=device-width">\n{_STYLE}{_SCRIPT}</head>\n<body class="page">\n'
        '<ul class="nav"><li>Home<li>News<li>Shop<li>About<li>Contact</ul>\n<div id="wrap" class="grid">\n'
    )
    parts = [start]
    length = len(start)
    block = 0
    while length < size:
        text = _block(words, draw, block)
        parts.append(text)
        length += len(text)
        block += 1
    return "".join(parts)


def _block(words: tuple[str, ...], draw: int, number: int) -> str:
    """One of sixteen: the proportions of the whole follow from how many of them are of a kind."""
    chances = draws(60, draw, number, "block")
    text = [words[(chance >> 8) % len(words)] for chance in chances]
    for place in range(7, 60, 13):
        text[place] = _ENTITIES[chances[place] & 7]
    paragraph = " ".join(text).capitalize()
    kind = chances[0] & 15
    if kind < 3:
        return _script(text, chances)
    if kind == 3:
        return _style(text, chances)
    if kind == 4 and draw % _PAGES_PER_TABLES == 0:
        cells = "".join(f"<td>{text[place]}</td><td>{chances[place] >> 50}</td>" for place in range(8))
        return f'<table class="t{number}"><tr><th scope="col">{text[0]}</th></tr><tr>{cells}</tr></table>\n'
    if kind == 5:
        deep = 4 + number % 12
        return f"{'<div class=box>' * deep}<p>{paragraph}</p>{'</div>' * deep}\n"
    if kind in {4, 6}:
        items = "".join(f'<li class="menu__item" data-index="{place}">{text[place]}' for place in range(12))
        return f'<ul class="menu menu--{number % 7}">{items}</ul>\n<!-- {text[0]} {number} -->\n'
    if kind == 7:
        return _drawing(text, chances)
    if kind == 8:
        options = "".join(f'<option value="{chances[place] & 255}">{text[place]}' for place in range(16))
        return f'<form class="filter"><label>{text[0]}</label><select name="f{number}">{options}</select></form>\n'
    if kind < 14:
        return _tile(text, chances, number)
    return f'<div class="card c{number % 9}"><h2>{text[1]} {text[2]}</h2><p>{paragraph}.</p></div>\n'


def _script(text: list[str], chances: tuple[int, ...]) -> str:
    """As pages bring them along: settings and a little of what they do."""
    settings = ",".join(
        f'"{chances[place] >> 40:x}":{{"kind":"{text[place]}","on":{place % 3},"at":{chances[place] & 0xFFFFF}}}'
        for place in range(0, 36, 2)
    )
    return f"<script>window.page=window.page||{{}};Object.assign(window.page,{{{settings}}});</script>\n{_SCRIPT}"


def _style(text: list[str], chances: tuple[int, ...]) -> str:
    rules = "".join(
        f".{text[place].strip('&;#')}-{chances[place] & 0xFFF:x}>li:hover{{margin:{chances[place] >> 12 & 31}px 0;"
        f"color:#{chances[place] >> 20 & 0xFFFFFF:06x};display:flex}}\n"
        for place in range(20, 36)
    )
    return f"<style>\n{rules}</style>\n"


def _drawing(text: list[str], chances: tuple[int, ...]) -> str:
    """An icon, in the page itself."""
    path = " ".join(
        f"l{chance >> 8 & 63}.{chance & 255} -{chance >> 16 & 63}.{chance >> 24 & 255}" for chance in chances
    )
    return (
        f'<button type="button" class="icon icon--{text[2].strip("&;#")}" aria-label="{text[3].strip("&;#")}">'
        f'<svg viewBox="0 0 24 24" width="24" height="24"><path fill="currentColor" d="M12 2{path}z"/></svg></button>\n'
    )


def _tile(text: list[str], chances: tuple[int, ...], number: int) -> str:
    """Much markup and few words, as shops and front pages have them."""
    image = f'<img class="tile__image lazy" loading="lazy" width="320" height="240" alt="{text[4].strip("&;#")}"'
    source = f'src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" data-hash="{chances[1]:016x}{chances[2]:016x}">'
    return (
        f'<div class="col col-12 col-md-6 col-lg-4 tile tile--{number % 11} js-track" data-id="{chances[3] & 0xFFFFFF}"'
        f' data-position="{number}" data-campaign="{chances[4]:x}">\n  <div class="tile__inner">\n    <div'
        f' class="tile__figure"><picture>{image} {source}</picture></div>\n    <div class="tile__body">\n      '
        f'<span class="label label--small">{text[5]}</span>\n      <h3 class="tile__title">{text[6]} {text[8]}</h3>\n'
        f'      <p class="tile__text">{" ".join(text[9:15])}</p>\n      <span class="price" data-value="'
        f'{chances[5] & 0xFFFF}">{chances[5] & 0xFF}.{chances[6] & 63:02d}</span>\n    </div>\n  </div>\n</div>\n'
    )
