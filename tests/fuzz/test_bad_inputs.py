"""Bad inputs over the whole public API: nothing nonsensical passes in silence."""

import pytest

from ftrace import lax
from ftrace.errors import ShapeError
from tests.fuzz.bad_inputs import FAMILIES, Call, Given, calls, classified, public, table


def call(family, name, *arguments, context="eager", **keywords):
    return Call(family, name, arguments, tuple(keywords.items()), context)


def test_calls_are_many_and_the_seed_decides_them():
    assert len(public()) > 600
    assert [*map(str, calls(50, 1))] == [*map(str, calls(50, 1))] != [*map(str, calls(50, 2))]
    assert {c.family for c in calls(2000, 0)} == {*FAMILIES}


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (call("numpy", "sum", "X"), "taken"),
        (call("numpy", "sum", "X", "10**40"), "numpy"),
        (call("numpy", "median", "X", "(2, -1)", context="jit"), "ours"),
        (call("numpy", "sum", "X", keepdims="1j", context="jit"), "numpy"),
        (call("numpy", "sin", "X", "()"), "numpy"),
        (call("lax", "pad", "X", "0", "None", context="jit"), "ours"),
        (call("lax", "add", "texts", "-1"), "ours"),
        (call("lax", "exp", "X", "X", context="jit"), "ours"),
        (call("lax", "fmax", "X", context="grad"), "ours"),
        (call("lax", "top_k", "X", "np.sin"), "ours"),
        (call("lax", "cummax", "X", "(2, -1)", context="grad"), "ours"),
        (call("lax", "index_in_dim", "X", "None", context="grad"), "ours"),
        (call("tree_util", "treedef_children", "10**40"), "ours"),
        (call("methods", "resize", "X", "()", context="jit"), "ours"),
        (call("methods", "shape=", "X", "0", context="vmap"), "ours"),
        (call("lax", "map", "np.sin", "X"), "taken"),
        (call("lax", "map", Given(lambda x: {}["a"]), "X"), "theirs"),
        (call("ftrace", "grad", "np.sin", axes_="-1"), "call"),
        (call("ftrace", "custom_vjp", "np.sin", nondiff_argnames="2.5"), "ours"),
        (call("ftrace", "custom_jvp", "np.sin", nondiff_argnames="(1, 'a')"), "ours"),
        (call("nn", "standardize", "-5", context="jit"), "call"),
        (call("ftrace", "named_scope", "objects", context="jit"), "ours"),
        (call("numpy", "sliding_window_view", "X", "True"), "numpy"),
        (call("ftrace", "elementwise_partials", "np.sin", argnums="()"), "taken"),
    ],
)
def test_what_comes_back_is_classified(bad, kind):
    found, words = classified(bad)
    assert found == kind, words


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (lambda x, axis: axis + 1, "INSIDE"),  # the class that NumPy raises, by accident
        (lambda x, axis: x, "SILENT"),
    ],
)
def test_accidents_and_silence_are_seen(monkeypatch, broken, kind):
    code = broken.__code__.replace(co_filename=lax.__file__)  # as if it were a function of ftrace
    monkeypatch.setattr(FAMILIES["numpy"], "flip", type(broken)(code, {}))
    assert classified(call("numpy", "flip", "X", "'abc'"))[0] == kind


def test_words_that_are_too_long_are_seen(monkeypatch):
    def flip(x):
        raise ShapeError("shapes", "y" * 5000)

    monkeypatch.setattr("ftrace.core.errors.brief", lambda text, most=0: text)
    monkeypatch.setattr(FAMILIES["numpy"], "flip", flip)
    assert classified(call("numpy", "flip", "X"))[0] == "INSIDE"


def test_bad_inputs_are_refused_and_none_from_inside():
    found, wrong = table(1500, 0)
    assert not wrong, "\n".join(wrong)
    assert found["ours"] > 300
    assert found["numpy"] > 300
