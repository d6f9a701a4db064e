"""The mutation tool changes what it says, chooses the same sample again, and reports survivors."""

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tools import mutate
from tools.mutation import covering, serving, sources, targets
from tools.mutation.running import Outcome

pytestmark = pytest.mark.slow  # it parses and changes every source

ROOT = Path(mutate.ROOT)
ROWS = '''
"""A module."""


def _double_jvp(t, y, x):
    """The rule; not 1."""
    if t is ZERO:
        return ZERO
    return mul(sub(t, x), 2)


double = unary("double", np.add, REAL, jvp=_double_jvp, doc="x - 1.")
half = unary("half", np.subtract, REAL, jvp=lambda t, y, x: neg(t), mask="same", doc="x / 2.")


def _half_samples():
    yield Sample((1 - 2,), {})


class Trace:
    def process(self, a):
        if type(a) is Tracer and a.owner is self:
            return a.fresh()
        raise ValueError(f"{a - 1}")
'''


def changes(unit, source=ROWS, path="ftrace/primitives/some.py"):
    return {
        (m.operator, m.before, m.after) for m in sources.mutants_of(path, source) if m.unit == unit
    }


def test_a_rule_loses_terms_swaps_operands_and_is_off_by_one():
    found = changes("_double_jvp")
    assert ("drop-term", "mul(sub(t, x), 2)", "sub(t, x)") in found
    assert ("swap-operands", "sub(t, x)", "sub(x, t)") in found
    assert ("off-by-one", "2", "3") in found
    assert ("drop-zero-handling", "t is ZERO", "False") in found


def test_a_row_loses_its_sign_and_its_mask():
    assert ("flip-sign", "neg(t)", "t") in changes("half.jvp")
    assert ("drop-mask", '"same"', "''") in changes("half.mask")


def test_a_row_gets_the_rule_of_the_row_before_it():
    assert ("neighbour-rule", "np.subtract", "np.add") in changes("half.impl")


def test_a_trace_loses_its_tag_check_and_its_copy():
    found = changes("Trace.process")
    condition = "type(a) is Tracer and a.owner is self"
    assert ("drop-tag-check", condition, "(type(a) is Tracer)") in found
    assert ("drop-fresh", "a.fresh()", "a") in found


def test_messages_documentation_and_samples_are_not_mutated():
    mutants = sources.mutants_of("ftrace/primitives/some.py", ROWS)
    assert not [m for m in mutants if "samples" in m.unit or "doc" in m.unit]
    assert not [m for m in mutants if "a - 1" in m.before or "A module" in m.before]


def test_every_mutant_is_another_program():
    original = ast.dump(ast.parse(ROWS))
    mutants = sources.mutants_of("ftrace/primitives/some.py", ROWS)
    programs = [ast.dump(ast.parse(m.applied(ROWS))) for m in mutants]
    assert original not in programs
    assert len(set(programs)) == len(programs) > 20


def test_positions_count_characters_not_bytes():
    text = "def f(x):\n    y = 'é → ü'; return x - 1\n"
    (swapped,) = [
        m for m in sources.mutants_of("ftrace/core/x.py", text) if m.operator == "swap-operands"
    ]
    assert "return (1 - x)" in swapped.applied(text)


def test_names_survive_edits_elsewhere_in_the_file():
    before = [m.name for m in sources.mutants_of("ftrace/primitives/some.py", ROWS)]
    edited = ROWS.replace('"""A module."""', '"""A module."""\n\nimport numpy as np\n')
    after = [m.name for m in sources.mutants_of("ftrace/primitives/some.py", edited)]
    assert before == after
    assert len(set(before)) == len(before)


@pytest.fixture(scope="module")
def texts():
    return targets.sources(ROOT)


@pytest.fixture(scope="module")
def chosen(texts):
    return targets.mutants(texts)


@pytest.fixture(scope="module")
def every(texts):
    """Of the traces, and of the files that the list of equivalent mutants names."""
    named = {path for path, *_ in mutate.reasons()}
    some = {p: t for p, t in texts.items() if "interpreters" in p or p in named}
    return targets.mutants(some, every=True)


def test_the_sample_is_large_fixed_and_reaches_every_row(texts, chosen):
    assert len(chosen) >= 300
    some = {path: text for path, text in texts.items() if "interpreters" in path}
    again = [m.name for m in targets.mutants(some)]
    assert again == [m.name for m in chosen if m.path in some]
    assert targets.uncovered(chosen, targets.Uses(texts)) == []
    assert {m.path for m in chosen} >= {
        f"ftrace/interpreters/{n}.py"
        for n in ("jvp", "partial", "transpose", "batching", "staging")
    } | {f"ftrace/control/rows/{n}.py" for n in ("cond", "while_loop", "scan", "jit")}


def test_every_folder_that_is_changed_is_so_in_all_its_rooms(texts):
    """And the tables of likely tests name modules that there are, and tests that there are."""
    rooms = {str(Path(path).parent) for path in texts}
    below = {
        str(p.parent.relative_to(ROOT))
        for path in rooms - {"ftrace/core"}
        for p in (ROOT / path).rglob("*.py")
        if p.name != "__init__.py"
    }
    assert below <= rooms
    stems = {Path(path).stem for path in texts}
    assert {*targets.LIKELY, *targets.COMPILER} <= stems
    named = targets._named(" ".join(targets.LIKELY.values()))
    others = [f"tests/{name}.py" for names in targets.COMPILER.values() for name in names.split()]
    missing = {f for f in (*named, *others) if not (ROOT / f).exists()}
    assert not missing


def test_every_tag_check_of_the_traces_is_in_the_sample(chosen, every):
    names = {m.name for m in chosen}
    checks = [
        m for m in every if m.operator == "drop-tag-check" and m.unit.endswith("Trace.process")
    ]
    assert len(checks) >= 3
    assert all(m.name in names for m in checks)


def test_each_entry_of_the_list_of_equivalent_mutants_names_one(every):
    known = mutate.reasons()
    named = {mutate.identity(m) for m in every}
    assert [entry for entry in known if entry not in named] == []
    assert all(len(why) > 20 for why in known.values())


def test_the_likely_tests_of_every_module_exist():
    for module in targets.LIKELY:
        (mutant, *_) = sources.mutants_of(f"ftrace/control/{module}.py", SMALL)
        found = targets.tiers(mutant, targets.Uses({}), ROOT)
        missing = [f for tier in found for f in tier.files if not (ROOT / f).exists()]
        assert (module, missing) == (module, [])
        assert found[0].files
        assert {f for tier in found for f in tier.files} >= {
            p.relative_to(ROOT).as_posix() for p in ROOT.glob("tests/api/test_*.py")
        }


def test_uses_of_a_helper_lead_to_its_rows():
    uses = targets.Uses(
        {
            "ftrace/primitives/low.py": "def helper(x): ...\nlow = unary('low', helper)\n",
            "ftrace/primitives/high.py": textwrap.dedent("""
                from ftrace.primitives.low import helper, low
                high = unary("high", None, jvp=lambda t: low(t))
            """),
        }
    )
    assert uses.rows_reached("low", "helper") == [["low"], ["high"]]
    assert targets.spread([["a", "b", "c", "d"], ["e"]], 2) == ["a", "c"]


# ---------------------------------------------------------------------------------- running


SMALL = "def f(x, y):\n    return x - y\n\n\ndef g(x):\n    return x + 0\n"


def test_a_report_names_the_survivors_and_counts_them(capsys):
    source = SMALL
    mutants = sources.mutants_of("ftrace/core/trace.py", source)
    outcomes = [Outcome(m, [] if m.unit == "g" else ["tests/test_f.py::test_f"]) for m in mutants]
    bad = mutate.report(outcomes, {"ftrace/core/trace.py": source}, 60.0)
    out = capsys.readouterr().out
    assert bad == sum(m.unit == "g" for m in mutants) > 0
    assert f"{len(mutants)} mutants in 1.0 minutes; {bad} to be explained" in out
    assert "-    return x + 0" in out


def test_what_came_out_is_known_to_the_next_run_until_the_file_changes(tmp_path):
    path = "ftrace/core/trace.py"
    first, second, *_ = sources.mutants_of(path, SMALL)
    mutate.Saved(tmp_path / "saved", {path: SMALL}).add(Outcome(first, ["a test"], 1, 2.0))
    again = mutate.Saved(tmp_path / "saved", {path: SMALL})
    assert again.outcome(first) == Outcome(first, ["a test"], 1, 2.0)
    assert again.outcome(second) is None
    changed = mutate.Saved(tmp_path / "saved", {path: SMALL + "\n"})
    assert changed.outcome(first) is None


def test_the_folders_that_have_tests_of_their_own_are_tried_on_these_first(chosen):
    for folder in targets.OWN:
        mutants = [m for m in chosen if m.path.startswith(f"ftrace/{folder}/")]
        assert len(mutants) >= 100
        for tier in targets.tiers(mutants[0], targets.Uses({}), ROOT)[:3]:
            assert tier.fast
            assert any(f.startswith(f"tests/{folder}/") for f in tier.files)


def test_an_equivalent_mutant_that_is_killed_refutes_the_list():
    (mutant,) = [
        m
        for m in sources.mutants_of("ftrace/core/x.py", "def f(x):\n    return x - 1\n")
        if m.operator == "swap-operands"
    ]
    known = {(mutant.path, mutant.unit, "x - 1", "1 - x"): "because"}
    assert mutate.verdict(Outcome(mutant, ["a test"]), known) == "refuted"
    assert mutate.verdict(Outcome(mutant, []), known) == "equivalent"
    assert mutate.verdict(Outcome(mutant, []), {}) == "survived"
    assert mutate.verdict(Outcome(mutant, ["a test"]), {}) == "killed"


@pytest.mark.slow
def test_a_change_that_a_test_notices_is_killed_and_another_survives(tmp_path):
    """In a process of its own: this one has imported ftrace, and a mutant must be first."""
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from tools.mutation import running, sources, targets
        root = Path(sys.argv[1])
        text = (root / "ftrace/core/trace.py").read_text()
        running.preload()
        mutants = sources.mutants_of("ftrace/core/trace.py", text)
        work = [(m, [targets.Tier(("tests/test_f.py",))]) for m in mutants]
        runner = running.Runner(root, {"ftrace/core/trace.py": text}, 2)
        for o in runner.outcomes(work):
            print(o.mutant.unit, o.killed_by)
        for name in ("test_f", "test_none"):
            tier = targets.Tier(("tests/test_f.py",), names=frozenset({f"tests/test_f.py::{name}"}))
            print(name, runner.failing(tier))
    """)
    (tmp_path / "ftrace" / "core").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    for package in ("ftrace", "ftrace/core", "tests"):
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "ftrace" / "core" / "trace.py").write_text(SMALL)
    test = "from ftrace.core.trace import f\n\n\ndef test_f():\n    assert f(3, 1) == 2\n"
    (tmp_path / "tests" / "test_f.py").write_text(test)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    lines = set(done.stdout.splitlines())
    assert lines == {
        "f tests/test_f.py::test_f",
        "g None",
        "test_f []",
        "test_none []",
    }


BRANCHES = "def f(x):\n    if x:\n        y = 1\n        return y\n    return [i for i in (2,)]\n"


def test_a_record_says_which_tests_run_the_statement_that_a_mutant_changes():
    marking, space = covering.Marking(), {}
    exec(marking.code("ftrace/core/x.py", BRANCHES, "x.py"), space)
    assert marking.run() == []
    tests = {}
    for name, x in (("t.py::test_a[1]", 1), ("t.py::test_b", 0)):
        space["f"](x)
        tests[name] = marking.run()
    names = sorted({s for found in tests.values() for s in found})
    record = covering.Record(frozenset({"ftrace/core/x.py"}))
    places = {t: (0.1, [names.index(s) for s in found]) for t, found in tests.items()}
    places["t.py::test_a[2]"] = (0.1, [])
    record.add({"file": "t.py", "crc": 0, "statements": names, "tests": places})
    found = {}
    for m in sources.mutants_of("ftrace/core/x.py", BRANCHES):
        found[m.line] = record.likely(record.of(m, BRANCHES), m.unit)
    both = {"t.py::test_a[1]", "t.py::test_b", "t.py::test_a[2]"}
    assert set(found[2]) == both
    assert found[3] == ["t.py::test_a[1]", "t.py::test_a[2]"]  # another case of it comes last
    assert found[5] == ["t.py::test_b"]


def test_functions_of_a_module_that_nobody_has_imported_yet_are_found(tmp_path, monkeypatch):
    (tmp_path / "imported_late.py").write_text(SMALL)
    monkeypatch.syspath_prepend(tmp_path)
    functions = serving._Functions(tmp_path, {"imported_late.py": SMALL})
    (swapped,) = [
        m
        for m in sources.mutants_of("imported_late.py", SMALL)
        if (m.unit, m.operator) == ("f", "swap-operands")
    ]
    assert functions.plant("imported_late.py", swapped.applied(SMALL), "f", swapped.line)
    assert sys.modules["imported_late"].f(3, 1) == -2


def test_mutants_are_planted_in_a_process_that_has_collected_the_tests(tmp_path):
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from tools.mutation import running, serving, sources
        root, path = Path(sys.argv[1]), "ftrace/core/trace.py"
        texts = {path: (root / path).read_text()}
        running.preload()
        mutants = sources.mutants_of(path, texts[path])
        known = serving.record(root, texts, frozenset(texts), root / "record", 1)
        for o, tried, settled in serving.outcomes(mutants, texts, root, known, 1, float("inf")):
            print(o.mutant.unit, o.killed_by, tried, settled)
    """)
    source = SMALL + textwrap.dedent("""
        def h():
            return 1 + 1
        TWO = h()
        def k():
            return 3 - 1
        def made():
            def half(x):
                return x / 2
            return half
        half = made()
    """)
    test = textwrap.dedent("""
        from ftrace.core.trace import f, g, half
        def test_f():
            assert f(g(3), half(4)) == 1
    """)
    for folder in ("ftrace/core", *(f"tests/{name}" for name in serving.FOLDERS)):
        (tmp_path / folder).mkdir(parents=True)
    for package in ("ftrace", "ftrace/core"):
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "ftrace" / "core" / "trace.py").write_text(source)
    (tmp_path / "tests" / "core" / "test_f.py").write_text(test)
    settings = "[pytest]\nmarkers = fuzz: none\n"
    (tmp_path / "pytest.ini").write_text(settings)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert set(done.stdout.splitlines()) == {
        "recorded tests/core/test_f.py",
        "f tests/core/test_f.py::test_f 1 True",
        "g tests/core/test_f.py::test_f 1 True",
        "g None 1 False",  # tried on more tests then
        "g None 1 True",
        "h None 0 False",
        "k None 0 False",
        "k None 0 True",
        "made tests/core/test_f.py::test_f 1 True",  # in what importing made
    }
