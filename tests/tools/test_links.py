"""The link checker finds links that lead nowhere."""

import pytest

from tools import links


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setattr(links, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# The guide\n\n## A `code` heading: two\n")
    return tmp_path


def found(site, text):
    (site / "README.md").write_text(text)
    return links.check(site)


@pytest.mark.parametrize(
    "target",
    ["docs/guide.md", "docs/guide.md#the-guide", "docs/guide.md#a-code-heading-two", "docs"],
)
def test_links_to_files_and_headings_are_accepted(site, target):
    assert found(site, f"See [here]({target}).") == ([], 1, 0)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("docs/gone.md", "docs/gone.md does not exist"),
        ("docs/guide.md#gone", "docs/guide.md#gone: no such heading"),
        ("#gone", "#gone: no such heading"),
        ("../../etc", "../../etc leaves the repository"),
    ],
)
def test_broken_links_are_named_with_their_line(site, target, reason):
    assert found(site, f"one\n\n![picture]({target})") == ([f"README.md:3: {reason}"], 1, 0)


def test_code_blocks_are_not_prose(site):
    assert found(site, "```\n[a](gone.md)\n```\n") == ([], 0, 0)


def test_links_to_other_sites_are_counted(site):
    assert found(site, "[a](https://example.org/x)") == ([], 0, 1)


def test_the_links_of_this_project_lead_somewhere():
    problems, _, _ = links.check(links.ROOT)
    assert problems == []
