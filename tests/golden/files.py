"""Golden files: texts kept in the repository, one section each, rewritten by `--update-golden`.

A file is a list of sections `=== name` followed by the text. `make golden` rewrites the sections
of the tests that ran and shows the difference; a section that no test asks for is an error.
"""

import re
from pathlib import Path

HERE = Path(__file__).parent
SECTION = re.compile(r"^=== (.*)\n", re.MULTILINE)


def read(path: Path) -> dict[str, str]:
    """The sections of a golden file; of a file that is not there, none."""
    if not path.exists():
        return {}
    parts = SECTION.split(path.read_text(encoding="utf-8"))[1:]
    return {name: text.rstrip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def write(path: Path, sections: dict[str, str]) -> None:
    """A golden file of these sections, in this order."""
    path.parent.mkdir(exist_ok=True)
    text = "\n\n".join(f"=== {name}\n{body}" for name, body in sections.items())
    path.write_text(text + "\n", encoding="utf-8")


class Golden:
    """Compares texts with golden files, or collects them to be written."""

    def __init__(self, update: bool) -> None:
        self.update = update
        self.files: dict[Path, dict[str, str]] = {}

    def sections(self, file: str) -> dict[str, str]:
        """The sections of a file, read once."""
        path = HERE / file
        if path not in self.files:
            self.files[path] = read(path)
        return self.files[path]

    def check(self, file: str, name: str, text: str) -> None:
        """Assert that a section has this text, or give it this text."""
        sections = self.sections(file)
        if self.update:
            sections[name] = text
        assert name in sections, f"{file} has no section {name!r}: run `make golden`"
        assert sections[name] == text

    def finish(self) -> None:
        """Write what was updated."""
        if self.update:
            for path, sections in self.files.items():
                write(path, sections)
