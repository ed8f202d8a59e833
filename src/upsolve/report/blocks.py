"""Parts of a page as trees of elements, which reports write as HTML and the viewer builds from JSON: every text is escaped.

An element is ``[name, attributes, *children]``; a child is an element or a text. Text is never interpreted.
"""

import base64
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["Node", "Points", "bars", "curve", "digest", "el", "html_of", "inline_script", "listing"]

Node = Any
"""A text, or ``[name, attributes, *children]``."""
Points = Sequence[tuple[float, float]]
"""Step and value of a curve."""
MOST_POINTS = 600
"""Most points of a line that are drawn. A longer line is split into equal shares of steps; the minimum and maximum of each are drawn."""
VOID = ("line", "polyline", "rect")
"""Elements of SVG without children."""


def el(name: str, *children: Node | None, **attributes: str | None) -> Node:
    """Return an element; ``class_`` and ``aria_label`` become the attributes ``class`` and ``aria-label``; an attribute that is None is left out."""
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    return [name, named, *(child for child in children if child is not None)]


def html_of(node: Node) -> str:
    """Return an element as HTML."""
    if isinstance(node, str):
        return escape(node)
    name, attributes, *children = node
    given = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{given}/>" if name in VOID else f"<{name}{given}>{''.join(map(html_of, children))}</{name}>"


def listing(facts: Mapping[str, Node]) -> Node:
    """Return names with their values."""
    return el("dl", *(part for name, value in facts.items() for part in (el("dt", name), el("dd", value))), class_="facts")


def curve(
    name: str, lines: Mapping[str, Points], *, limit: float | None = None, steps: Mapping[str, int] | None = None
) -> Node:
    """Return a figure with a line for each label (a label may be empty), the ``limit`` of the values, and marked ``steps`` by label."""
    known = {label: [(x, y) for x, y in points if math.isfinite(y)] for label, points in lines.items()}
    known = {label: points for label, points in known.items() if points}
    xs = [x for points in known.values() for x, _ in points] or [0.0]
    ys = [y for points in known.values() for _, y in points] or [0.0]
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)
    near = limit is not None and 2 * low - high <= limit <= 2 * high - low  # else the line would be flat
    low, high = (min(low, limit), max(high, limit)) if limit is not None and near else (low, high)

    def at(x: float, y: float) -> str:
        return f"{300 * (x - left) / ((right - left) or 1):.1f},{98 - 96 * (y - low) / ((high - low) or 1):.1f}"

    def level(y: float, kind: str) -> Node:
        (x1, y1), (x2, y2) = (at(x, y).split(",") for x in (left, right if right > left else left + 1))
        return el("line", class_=kind, x1=x1, x2=x2, y1=y1, y2=y2)

    def drawn(points: Points, number: int) -> Node:
        ends = points if len(points) > 1 else [points[0], (right, points[0][1])]  # a point is seen as a line
        return el("polyline", class_=f"curve s{number}", points=" ".join(at(x, y) for x, y in thinned(ends)))

    if known and (left == right or (low == high and not near)):
        last = "; ".join(f"{label and f'{label}: '}{short(points[-1][1])}" for label, points in known.items())
        text = f" {last} {'throughout' if left < right else f'at step {left:g}'}"
        text += "" if limit is None else f"; limit {short(limit)}"
        return el("figure", el("figcaption", el("b", name), el("span", text, class_="soft")), class_="flat")
    marks = [(label, step) for label, step in (steps or {}).items() if left <= step <= right]
    text = caption(known, limit, marks) if known else "no values"
    picture = el(
        "svg",
        level(low, "grid"),
        level(high, "grid"),
        *([level(limit, "limit")] if limit is not None and near else []),
        *(
            el("line", class_="mark", x1=at(step, low).split(",")[0], x2=at(step, low).split(",")[0], y1="2", y2="98")
            for _, step in marks
        ),
        *(drawn(points, number) for number, points in enumerate(known.values())),
        viewBox="0 0 300 100",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{name}: {text}, steps {left:g} to {right:g}",
    )
    keys = [el("span", f"— {label} ", class_=f"s{number}") for number, label in enumerate(known) if label]
    values = el("div", el("span", short(high)), el("span", short(low)), class_="values")
    axis = el("div", el("span", f"step {left:g}"), el("span", f"{right:g}"), class_="steps")
    head = el("figcaption", el("b", name), " ", *keys, el("span", text, class_="soft"))
    return el("figure", head, el("div", values, picture, class_="plot"), axis)


def bars(name: str, rows: Sequence[tuple[str, str, tuple[float, float, float], str]]) -> Node:
    """Return a figure with a bar for each row: its kind (``base``, ``trained`` or ``control``), which has a colour; its label; a share with its
    interval as a thin line (nan: none); and a note below. The axis goes from 0 to 100 %.
    """
    parts: list[Node] = []
    for kind, label, values, note in rows:
        share, low, high = (f"{100 * min(1.0, max(0.0, value)):.1f}" if math.isfinite(value) else "" for value in values)
        lines = [el("line", class_="grid", x1=x, x2=x, y1="0", y2="10") for x in ("0", "25", "50", "75", "100")]
        bar = el("rect", class_=kind, x="0", y="2", width=share, height="6")
        error = [el("line", class_="interval", x1=low, x2=high, y1="5", y2="5")] if low else []
        text = f"{share} % [{low}, {high}]" if low else f"{share} % (no interval)"
        size = {"viewBox": "0 0 100 10", "preserveAspectRatio": "none"}
        drawn = el("svg", *lines, bar, *error, **size, role="img", aria_label=f"{label}: {text}")
        parts.append(
            el(
                "div",
                el("b", label),
                drawn,
                el("span", text, class_="value"),
                el("span", note, class_="note") if note else None,
            )
        )
    ticks = el("div", *(el("span", text) for text in ("0", "25", "50", "75", "100 %")), class_="ticks", aria_hidden="true")
    return el("figure", el("figcaption", name), *parts, el("div", ticks), class_="bars")


def caption(lines: Mapping[str, Points], limit: float | None, marks: Sequence[tuple[str, int]]) -> str:
    """Return the first and the last value of each line, the limit and the marked steps."""
    parts = [
        f"{label + ': ' if label else ''}{short(points[0][1])} to {short(points[-1][1])}" for label, points in lines.items()
    ]
    parts += [f"limit {short(limit)}"] if limit is not None else []
    return "; ".join([*parts, *(f"{label} at step {step}" for label, step in marks)])


def thinned(points: Points) -> list[tuple[float, float]]:
    """Return the points of a line; if there are many, the extremes of each share of steps."""
    if len(points) <= MOST_POINTS:
        return [*points]
    size = -(-2 * len(points) // MOST_POINTS)
    shares = [points[start : start + size] for start in range(0, len(points), size)]
    return [point for share in shares for point in sorted({min(share, key=value), max(share, key=value)})]


def value(point: tuple[float, float]) -> float:
    """Return the value of a point."""
    return point[1]


def short(number: float) -> str:
    """Return a number with four digits."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def inline_script(modules: str) -> str:
    """Return modules as one script of a page, in the order of their imports."""
    script = re.sub(r"^(?:export |import .*;\n)", "", modules, flags=re.MULTILINE)
    return f'"use strict";\n(() => {{\n{script}\n}})();\n'


def digest(text: str) -> str:
    """Return the SHA-256 of a text as a Content-Security-Policy writes it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
