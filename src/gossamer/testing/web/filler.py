"""The part of a page that many pages share: markup as the web has it, without a single link.

Head with styles, navigation, scripts, nested divisions, tables, lists, entities, images and paragraphs in a language of
the page's charset. The last division is left open for what follows.
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
    chances = draws(60, draw, number, "block")
    text = [words[(chance >> 8) % len(words)] for chance in chances]
    for place in range(7, 60, 13):
        text[place] = _ENTITIES[chances[place] & 7]
    paragraph = " ".join(text).capitalize()
    kind = chances[0] & 7
    if kind == 0:
        return _SCRIPT
    if kind == 1:
        cells = "".join(f"<td>{text[place]}</td><td>{chances[place] >> 50}</td>" for place in range(20))
        return f'<table class="t{number}"><tr><th>{text[0]}</th></tr><tr>{cells}</tr></table>\n'
    if kind == 2:
        deep = 4 + number % 12
        return f"{'<div class=box>' * deep}<p>{paragraph}</p>{'</div>' * deep}\n"
    if kind == 3:
        image = '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" alt="">'
        return f"<figure>{image}<figcaption>{text[5]}</figcaption></figure>\n"
    if kind == 4:
        return f"<ul>{''.join(f'<li>{word}' for word in text[:24])}</ul>\n<!-- {text[0]} {number} -->\n"
    return f'<div class="card c{number % 9}"><h2>{text[1]} {text[2]}</h2><p>{paragraph}.</p></div>\n'
