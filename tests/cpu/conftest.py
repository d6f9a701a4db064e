"""Fixtures of the CPU tests."""

import pytest

from ftrace.cpu.runtime import entry


@pytest.fixture(params=["native", "portable"])
def each_entry(request, monkeypatch):
    """Both ways into native code: reading objects, and asking NumPy for addresses."""
    if request.param == "portable":
        portable = entry._Native(None)
        monkeypatch.setattr(entry, "_native", lambda: portable)
