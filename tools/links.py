"""Check the links of the prose: README, CONTRIBUTING, docs, changelog, notebooks.

A relative link must lead to a file of the repository, and its `#anchor` to a heading there. Links
to other sites are counted, not followed: a check must not depend on the network. Exits 1 and names
file and line where a link is broken.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROSE = ("*.md", "docs/**/*.md", "changelog.d/*.md", "notebooks/*.py")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^(```|~~~)")


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number, line) outside fenced code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(text: str) -> set[str]:
    """The anchors that a Markdown page offers: its headings, in lower case with hyphens."""
    headings = (line.lstrip("#").strip() for _, line in prose_lines(text) if line.startswith("#"))
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def problem(page: Path, target: str) -> str | None:
    """Why a link of `page` leads nowhere, or None."""
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.is_relative_to(ROOT) and page.is_relative_to(ROOT):
        return f"{target} leaves the repository"
    if not path.exists():
        return f"{target} does not exist"
    if anchor and path.suffix == ".md" and anchor not in anchors(path.read_text(encoding="utf-8")):
        return f"{target}: no such heading"
    return None


def check(root: Path) -> tuple[list[str], int, int]:
    """(problems, number of local links, number of links to other sites)."""
    problems: list[str] = []
    local = outside = 0
    for page in sorted(path for pattern in PROSE for path in root.glob(pattern)):
        for number, line in prose_lines(page.read_text(encoding="utf-8")):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    outside += 1
                    continue
                local += 1
                reason = problem(page, target)
                if reason:
                    problems.append(f"{page.relative_to(root)}:{number}: {reason}")
    return problems, local, outside


def main() -> int:
    """Print the problems and the counts."""
    problems, local, outside = check(ROOT)
    for line in problems:
        print(line)
    print(f"{local} links inside the repository, {len(problems)} broken; {outside} to other sites")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
