"""Text, tables and documents in HTML.

Names and values come from files and from users, so every text passes through :func:`text`. An output that a notebook
sanitizes loses its style and stays readable: the meaning of colours is also text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from bloomparquet.errors import shorten
from bloomparquet.report.style import STYLE

_MOST_CHARACTERS = 200

# The browser itself refuses what is not in the document.
_DOCUMENT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
</head>
<body style="margin:1.5em">
{body}
</body>
</html>
"""


def text(value: object, most: int = _MOST_CHARACTERS) -> str:
    """`value` as text of an element or an attribute, shortened.

    Characters that are invisible, change the direction of text or are no Unicode are shown as escapes.
    """
    shown = shorten(str(value), most)
    return escape("".join(each if each.isprintable() else _escaped(each) for each in shown))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def code(value: object, most: int = _MOST_CHARACTERS) -> str:
    return f"<code>{text(value, most)}</code>"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
    short: Sequence[int] = (),
    last: bool = False,
    style: str = "",
) -> str:
    """A table of cells that are HTML.

    The columns `right` are aligned to the right, and the columns `short` are not broken. `last` is whether the last row
    is a total. `style` are classes of the table.
    """
    classes = {**dict.fromkeys(short, ' class="bp-short"'), **dict.fromkeys(right, ' class="bp-right"')}

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag}{classes.get(i, '')}>{cell}</{tag}>" for i, cell in enumerate(cells))

    body = [line(row, "td") for row in rows]
    marks = [""] * (len(body) - 1) + [' class="bp-total"' if last else ""]
    lines = "\n".join(f"<tr{mark}>{cells}</tr>" for mark, cells in zip(marks, body))
    opened = f'<div class="bp-over"><table class="{style}">' if style else '<div class="bp-over"><table>'
    return f"{opened}\n<thead><tr>{line(head, 'th')}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table></div>"


def fragment(*parts: str) -> str:
    """A picture for a notebook: its style, and the parts that are not empty."""
    return "\n".join(['<div class="bloomparquet">', f"<style>{STYLE}</style>", *filter(None, parts), "</div>"])


def document(title: str, body: str) -> str:
    """A document that a browser opens from a disk, from a mail or from the artifacts of a build."""
    return _DOCUMENT.format(title=text(title), body=body)
