"""The first page of the contributor guide, followed by a live call."""

import re
import sys
from pathlib import Path

import numpy as np

import ftrace

PACKAGE = Path(ftrace.__file__).parent
GUIDE = PACKAGE.parent / "CONTRIBUTING.md"


def files_of_a_call():
    """ftrace's files in the order in which `jit(vmap(grad(f)))(x)` first enters them."""
    f = ftrace.jit(ftrace.vmap(ftrace.grad(lambda x: np.sin(x) * x)))
    seen = []

    def note(frame, event, arg):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            if name not in seen:
                seen.append(name)

    sys.setprofile(note)
    try:
        f(np.ones(3))
    finally:
        sys.setprofile(None)
    return seen


def test_the_files_named_in_the_guide_are_the_files_of_a_live_compiled_call():
    chapter = GUIDE.read_text().split("## Set up")[0]
    named = set(re.findall(r"\b[a-z]+(?:/[a-z_]+)+\.py\b", chapter))
    entered = files_of_a_call()
    print(" -> ".join(entered))
    assert named - set(entered) == {"core/check.py", "core/avals.py"} - set(entered)


def test_a_call_goes_down_the_layers_before_it_comes_back():
    entered = files_of_a_call()
    order = [
        "api/compiled/compiling.py",
        "interpreters/staging.py",
        "api/vmap.py",
        "api/derivatives/autodiff.py",
    ]
    assert sorted(order, key=entered.index) == order
