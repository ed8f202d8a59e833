"""Hooks of the documentation site (mkdocs.yml): pages from files outside docs/, pages of the reference, and links between all of these."""

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "upsolve"
OUTSIDE = {
    "README.md": "index.md",
    "AGENTS.md": "agents.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/LOG.md": "log.md",
}
"""File outside of docs/ -> page of the site."""
BOOST = {"Tutorials": 4.0, "Start": 3.0, "Measurements": 0.3, "Reference": 0.3}
"""Section of the navigation -> weight of its pages in the search. Other guides have 2."""
LEFT_OUT = ("log.md", "changelog.md", "agents.md")
"""Pages that the search does not find: what they say of a word is rarely what its reader wants."""
MENDED = {
    'nav",{class:"md-code__nav"}': 'div",{class:"md-code__nav"}',
    'class:"md-typeset__scrollwrap"': 'class:"md-typeset__scrollwrap",tabIndex:0',
}
"""Text of the theme's script -> what stands there for it."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the reference to the navigation."""
    for section in (config.nav or [{"": ()}])[-1].values():
        for part in section:
            if "Reference" in part:
                part["Reference"] += [{name: f"reference/{name}.md"} for name in packages()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for name, page in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=LINK.sub(partial(from_outside, name), text)))
    for name in packages():
        files.append(File.generated(config, f"reference/{name}.md", content=reference(name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links of docs/ that leave it to the pages made from those files; a file without a page is named instead of linked."""
    depth = page.file.src_uri.count("/")
    page.meta["search"] = search_of(page.file.src_uri, page.parent.title if page.parent else "")
    return LINK.sub(lambda link: from_docs(link, depth), markdown).replace("```text\n", "``` {.text .diagram}\n")  # not wrapped


def search_of(name: str, section: str) -> dict[str, Any]:
    """Return how the search treats a page: guides before measurements, and these before the reference from docstrings."""
    if name in LEFT_OUT:
        return {"exclude": True}
    return {"boost": 0.1 if name.startswith("reference/") else BOOST.get(section, 2.0)}


def on_page_content(html: str, **_: Any) -> str:
    """Make empty heads of columns plain cells: readers of screens announce a head."""
    return html.replace("<th></th>", "<td></td>")


def on_post_page(output: str, config: MkDocsConfig, **_: Any) -> str:
    """Name the dialog of the search, and parts of the table of contents that have one name, such as a method of two classes, apart."""
    landmarks = re.findall(r'<nav class="md-[a-z_]+__[^>]*aria-label="([^"]*)"', output)
    seen = Counter(name.lower() for name in (*landmarks, *sections(config.nav or ())))

    def numbered(nav: re.Match[str]) -> str:
        name = nav[1].lower()
        seen[name] += 1
        return f'<nav class="md-nav" aria-label="{nav[1]}{f" {seen[name]}" if seen[name] > 1 else ""}">'

    output = re.sub(r'<nav class="md-nav" aria-label="([^"]*)">', numbered, output)
    return output.replace(' role="dialog">', ' role="dialog" aria-label="Search">')


def sections(nav: Any) -> Iterator[str]:
    """Yield the names of the sections of a navigation, also of those in others."""
    for entry in nav:
        for name, inside in entry.items() if isinstance(entry, dict) else ():
            if isinstance(inside, list):
                yield name
                yield from sections(inside)


def on_post_build(config: MkDocsConfig) -> None:
    """Reach wide tables by the keyboard, and take the buttons of code blocks out of the landmarks, in what the theme's script makes."""
    (script,) = (Path(config.site_dir) / "assets" / "javascripts").glob("bundle.*.min.js")
    text = script.read_text(encoding="utf-8")
    for old, new in MENDED.items():
        if text.count(old) != 1:
            raise PluginError(f"{script.name}: has not one {old}")
        text = text.replace(old, new)
    script.write_text(text, encoding="utf-8")


def from_outside(name: str, link: re.Match[str]) -> str:
    """Return a link of a file outside of docs/ as a link of its page."""
    mark, text, target = link.groups()
    path, _, anchor = target.partition("#")
    if "://" in target or not path:
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    if path.startswith("docs/"):
        return f"{mark}[{text}]({path.removeprefix('docs/')}{'#' * bool(anchor)}{anchor})"
    if path in OUTSIDE:
        return f"{mark}[{text}]({OUTSIDE[path]}{'#' * bool(anchor)}{anchor})"
    return f"{text} (`{path}`)"


def from_docs(link: re.Match[str], depth: int) -> str:
    """Return a link of a page, ``depth`` folders below docs/, that may leave docs/."""
    mark, text, target = link.groups()
    up = "../" * (depth + 1)
    if not target.startswith(up):
        return link[0]
    path, _, anchor = target.removeprefix(up).partition("#")
    if path in OUTSIDE:
        return f"{mark}[{text}]({'../' * depth}{OUTSIDE[path]}{'#' * bool(anchor)}{anchor})"
    return f"{text} (`{path}`)"


def packages() -> list[str]:
    """Return the subpackages of upsolve that have a page in the reference."""
    return sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent.name not in ("cli", "recipes"))


def modules(package: str) -> Iterator[str]:
    """Yield the modules of a package with public names, by their path."""
    for path in sorted((PACKAGE / package).rglob("*.py")):
        if (path.parent / "__init__.py").exists() and path.name[0] != "_" and "__all__" in path.read_text(encoding="utf-8"):
            yield ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def reference(package: str) -> str:
    """Return the page of a package: its modules, each with the docstrings of its public names."""
    return f"# upsolve.{package}\n\n" + "\n".join(f"::: {name}\n" for name in modules(package))
