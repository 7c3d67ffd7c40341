"""What MkDocs needs to build the site from the same Markdown files that GitHub shows.

``mkdocs.yml`` names this file as a hook.  It adds the pages that stand outside ``docs/``.
The site begins with docs/index.md; README.md is for the repository.  A link from a page to another
file of the repository leads to a copy of that file in the site; a link to a folder or to a page of
the repository alone, such as README.md, becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "firmware/README.md")
"""Pages of the site that do not stand in ``docs/``."""
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
"""A link's text, its file and its heading; no address on the web, no heading of the same page."""
_HEADING_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)#([^)\s]+)\)")
"""The file and the heading of a link; no file for a heading of the same page."""
_HEADING = re.compile(r"^#{1,6} +(.*?) *$", re.M)
_CODE = re.compile(r"^(```).*?^```$", re.M | re.S)
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):(?=<code>)")


def linked(text: str, page: str) -> Iterator[str]:
    """The files of the repository that ``text`` links to, as paths from its root folder.

    ``page`` is the path of the page from the root folder, such as ``docs/sil.md``.
    """
    for match in _LINK.finditer(_CODE.sub("", text)):
        yield _from_root(match[2], page)


def linked_headings(text: str, page: str) -> Iterator[tuple[str, str]]:
    """The headings that ``text`` links to: page, as :func:`linked` returns it, and anchor."""
    for match in _HEADING_LINK.finditer(_CODE.sub("", text)):
        yield (_from_root(match[1], page) if match[1] else page), match[2]


def headings(text: str) -> set[str]:
    """The anchors of all headings of a page, as GitHub and MkDocs make them."""
    out: set[str] = set()
    for match in _HEADING.finditer(_CODE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = next(k for k in count() if (f"{anchor}-{k}" if k else anchor) not in out)
        out.add(f"{anchor}-{number}" if number else anchor)
    return out


def for_the_site(text: str, page: str) -> str:
    """The text of a page as MkDocs reads it: its links, its fences and its tables in lists."""
    uri = site_uri(page)

    def link(match: re.Match[str]) -> str:
        path = _from_root(match[2], page)
        if not in_the_site(path):
            return match[1]
        target = posixpath.relpath(site_uri(path), posixpath.dirname(uri) or ".")
        return f"[{match[1]}]({target}{match[3] or ''})"

    out, end = [], 0
    for code in _CODE.finditer(text):
        out += [_LINK.sub(link, text[end : code.start()]), code[0]]
        end = code.end()
    text = "".join([*out, _LINK.sub(link, text[end:])])
    text = re.sub(r"^```(python|c) file=(\S+)$", r'```\1 title="\2"', text, flags=re.M)
    return re.sub(r"^ {3}(?=\|)", "    ", text, flags=re.M)


def site_uri(path: str) -> str:
    """Where the site has a file of the repository: ``docs/sil.md`` is ``sil.md`` there."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return path if path in OUTSIDE else f"repository/{path}"


def outside_files(pages: dict[str, str]) -> set[str]:
    """The files outside ``docs/`` to which ``pages`` link: text by path from the root folder."""
    found = {path for page, text in pages.items() for path in linked(text, page)}
    copies = {path for path in found if not path.startswith("docs/") and path not in OUTSIDE}
    return {path for path in copies if in_the_site(path)}


def in_the_site(path: str) -> bool:
    """Whether the site has ``path``: as a page of its own, or as a file that is no page."""
    page = path.startswith("docs/") or path in OUTSIDE
    return not (ROOT / path).is_dir() and (page or not path.endswith(".md"))


def pages_of_the_project() -> dict[str, str]:
    """The text of every page of the site, by its path from the root folder."""
    pages = [*(ROOT / name for name in OUTSIDE), *sorted((ROOT / "docs").rglob("*.md"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in pages}


def _from_root(target: str, page: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


# MkDocs calls the functions below by their names.


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the root folder, and the files that pages link to."""
    from mkdocs.structure.files import File

    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for path in sorted(outside_files(pages_of_the_project())):
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, site_uri(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite a page for the site."""
    name = page.file.src_uri
    return for_the_site(markdown, name if name in OUTSIDE else f"docs/{name}")


def on_page_content(html: str, **_: Any) -> str:
    """Docstrings write ``:class:`Name` `` and end a line before an example with ``::``."""
    return _ROLE.sub("", html).replace("::</p>", ":</p>")
