"""The style sheet of all pictures.

Text has the colour and the background of the page around it. Cells have colours of their own in two themes: that of
the browser (``prefers-color-scheme``), unless the notebook says which one it shows. Besides its hue, each kind of cell
has a texture, and cells to be read differ from all others in brightness. The hues are blue, violet, grey and orange,
which people who cannot tell red from green tell apart.

Each kind of cell has a ground (``0``) and an ink (``1``). ``--s`` is the size of a cell, and ``--f`` the eighths of it
that are filled.
"""

from __future__ import annotations

_LIGHT = (
    "--read:#c2410c;--line:#8885;--dim:#666;--p0:#e4e6e8;--p1:#8a9199;--n0:#8881;--n1:#8a9199;--m0:#d3e4f7;--m1:#3f7fc6;"
    "--b0:#e2dcf6;--b1:#7a5cc9;--i0:#d0ebe6;--i1:#178a7b;--c0:#efe6cd;--c1:#9a7b2d;"
    "--e:#8882;--stripe:#fffc;--h0:#c4d6f2;--h1:#a3bfea;--h2:#7ba3e0;--h3:#4f7fcb;--h4:#2f559c;--h5:#14254a;--h6:#c2410c;"
)
_DARK = (
    "--read:#ffb14a;--line:#8887;--dim:#aaa;--p0:#30353a;--p1:#868e96;--n0:#8881;--n1:#868e96;--m0:#12314f;--m1:#4d94dc;"
    "--b0:#2b2350;--b1:#9580ea;--i0:#0a3d38;--i1:#2fae9e;--c0:#3e3316;--c1:#c9a24a;"
    "--e:#8883;--stripe:#000b;--h0:#22375f;--h1:#2b4b8a;--h2:#3a62ad;--h3:#6489cc;--h4:#9db8e6;--h5:#e8eefb;--h6:#ffb14a;"
)
# JupyterLab, VS Code, Colab and Databricks, and Sphinx's themes name the theme that they show.
_NAMED_THEMES = (
    ("[data-jp-theme-light=true],.vscode-light,html[theme=light],[data-theme=light]", _LIGHT),
    ("[data-jp-theme-light=false],.vscode-dark,html[theme=dark],[data-theme=dark]", _DARK),
)

_EDGE = "calc(var(--s) - 1px)"  # a gap of one pixel is left between cells


def _texture(kind: str, shape: str) -> str:
    """Cells of one kind: `shape` in the ink of the kind, over squares in its ground."""
    ground = f"linear-gradient(90deg,var(--{kind}0) {_EDGE},transparent 0)"
    ink = shape.replace("ink", f"var(--{kind}1)")
    return f".bp-{kind}{{background:{ink} 0 0/var(--s) 100%,{ground} 0 0/var(--s) 100%}}"


_HEAT = (
    f"linear-gradient(90deg,var(--k) {_EDGE},transparent 0) 0 100%/var(--s) calc(var(--f)*12.5%) repeat-x,"
    f"linear-gradient(90deg,var(--e) {_EDGE},transparent 0) 0 0/var(--s) 100%"
)


def _circle(stops: str) -> str:
    return f"radial-gradient(circle at calc(50% - .5px),{stops})"


_RULES = [
    "{font-size:13px;line-height:1.45;text-align:left;--s:14px;--f:8}",
    "p{margin:.5em 0}",
    "code{font-size:12px;white-space:pre-wrap;overflow-wrap:anywhere;background:none;color:inherit;padding:0}",
    "table{border-collapse:collapse;margin:.6em 0;border:0;color:inherit;font-size:inherit;table-layout:auto}",
    "tr,tbody tr:nth-child(odd),tbody tr:hover{background:none}",
    "th,td{padding:2px 14px 2px 0;border:0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}",
    "th,td{white-space:normal;max-width:46em;overflow-wrap:break-word}",
    "th{font-weight:600;vertical-align:bottom}",
    ".bp-right{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}",
    ".bp-short{white-space:nowrap}",
    ".bp-why td:first-child{min-width:15em}",
    ".bp-named td:first-child{min-width:6em;overflow-wrap:anywhere}",
    ".bp-total td{font-weight:600;border-bottom:0}",
    ".bp-head{font-size:15px}",
    ".bp-dim{color:var(--dim)}",
    ".bp-over{overflow-x:auto}",
    ".bp-small{--s:7px}",
    # A cell holds a letter, which shows where a notebook leaves out the style.
    "i{display:inline-block;height:" + _EDGE + ";margin:0 0 1px;vertical-align:top;font-size:0;line-height:0;"
    "overflow:hidden;forced-color-adjust:none;print-color-adjust:exact;-webkit-print-color-adjust:exact}",
    ".bp-cells{white-space:nowrap;line-height:0;padding-bottom:1px}",
    ".bp-cells .bp-line{height:var(--s)}",
    "td i,li i{margin-top:3px}",
    ".bp-grid td{border:0;padding:1px 10px 0 0;vertical-align:middle}",
    ".bp-grid td i{margin-top:0}",
    ".bp-bar{display:flex;max-width:715px;height:14px;margin:.6em 0;font-size:0}",
    "td .bp-bar{width:143px;margin:4px 0 2px}",
    "p i{margin-top:3px}",
    ".bp-bar i{height:14px;margin:0;min-width:3px;flex:none;--s:14px}",
    f".bp-r{{background:linear-gradient(90deg,var(--read) {_EDGE},transparent 0) 0 0/var(--s) 100%}}",
    ".bp-small i{opacity:.75}",
    ".bp-small .bp-r{opacity:1;position:relative;box-shadow:0 0 0 1px var(--read);background:var(--read)}",
    _texture("p", "linear-gradient(transparent 38%,ink 0 58%,transparent 0)"),
    _texture("n", _circle("transparent 2.5px,ink 3px 4px,transparent 4.5px")),
    _texture("m", "linear-gradient(90deg,transparent 34%,ink 0 56%,transparent 0)"),
    _texture("b", _circle("ink calc(var(--s)*.2),transparent calc(var(--s)*.2 + .6px)")),
    _texture("i", "linear-gradient(135deg,transparent 40%,ink 0 56%,transparent 0)"),
    _texture("c", "linear-gradient(45deg,transparent 40%,ink 0 54%,transparent 0)"),
    *(f".bp-h{i}{{--k:var(--h{i})}}" for i in range(7)),
    f".bp-h.bp-h6{{background:repeating-linear-gradient(135deg,transparent 0 3px,var(--stripe) 3px 4.5px),{_HEAT}}}",
    *(f".bp-f{i}{{--f:{i}}}" for i in range(8)),
    f".bp-h{{background:{_HEAT}}}",
]


def _scoped(rule: str) -> str:
    """Restrict `rule` to elements of a picture, and make it stronger than the style of a notebook for tables."""
    selectors, _, body = rule.partition("{")
    each = selectors.split(",")
    return ",".join(f".bloomparquet {selector}".rstrip() for selector in each) + "{" + body


def _sheet() -> str:
    root = ".bloomparquet"
    themes = [f"{root}{{{_LIGHT}}}", f"@media (prefers-color-scheme:dark){{{root}{{{_DARK}}}}}"]
    for selectors, colours in _NAMED_THEMES:
        themes.append(",".join(f"{selector} {root}" for selector in selectors.split(",")) + f"{{{colours}}}")
    return "\n".join([*themes, *map(_scoped, _RULES)])


STYLE = _sheet()
