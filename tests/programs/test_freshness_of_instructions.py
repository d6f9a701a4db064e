"""Instructions, those of later Pythons too: what each takes from the stack, and leaves there."""

import dis
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from ftrace.control.freshness import bytecode, stack
from ftrace.control.freshness.bytecode import Instruction, listing
from ftrace.control.freshness.reading import Frame
from ftrace.control.freshness.values import NOTHING, NULL, TRACED, Made, Value, constant

HANDLES = stack.HANDLES
A, B, C, D = map(constant, "ABCD")


def outer():
    first = second = third = 0
    return first, second, third


def reader_of(**names: Value) -> stack.Reader:
    """A walk that is in a function with these variables."""
    walk = stack.Reader()
    walk.frame = Frame(outer.__code__, {}, once=True)
    walk.frame.number = 2
    walk.frame.names.update(names)
    return walk


def run(
    walk: stack.Reader, name: str, before: list[Value], arg: int = 0, value: Any = None
) -> list[Value]:
    """The stack after an instruction."""
    found = list(before)
    walk.here = Instruction(0, name, dis.opmap.get(name, 0), arg, value, -1, ends=False)
    HANDLES[name](walk, found, walk.here)
    return found


def refs(found: list[Value]) -> list[list[Any]]:
    return [list(v.refs) for v in found]


# name: (stack, number, value, stack after), with the variables p: A, q: B
MOVES = {
    "LOAD_SMALL_INT": ([D], 7, None, [["D"], [7]]),
    "LOAD_FAST_AND_CLEAR": ([D], 0, "p", [["D"], []]),
    "LOAD_FAST_LOAD_FAST": ([D], 0, ("p", "q"), [["D"], ["A"], ["B"]]),
    "STORE_FAST_LOAD_FAST": ([D, C], 0, ("r", "q"), [["D"], ["B"]]),
    "STORE_FAST_STORE_FAST": ([D, B, C], 0, ("r", "s"), [["D"]]),
    "LOAD_FROM_DICT_OR_DEREF": ([D, C], 0, "q", [["D"], ["B"]]),
    "SWAP": ([A, B], 2, None, [["B"], ["A"]]),
    "END_SEND": ([D, A, B], 0, None, [["D"], ["B"]]),
}
STORED = {"STORE_FAST_LOAD_FAST": {"r": "C"}, "STORE_FAST_STORE_FAST": {"r": "C", "s": "B"}}


@pytest.mark.parametrize("name", MOVES)
def test_values_are_moved(name: str) -> None:
    before, arg, value, after = MOVES[name]
    walk = reader_of(p=A, q=B)
    assert refs(run(walk, name, before, arg, value)) == after
    assert {n: v.refs[0] for n, v in walk.frame.names.items() if n not in "pq"} == STORED.get(
        name, {}
    )


def arrays_used(walk: stack.Reader) -> dict[int, bool]:
    return {id(use.array): use.beside for use in walk.uses.values()}


def test_bounds_of_slices_are_read() -> None:
    numbers, start, stop, new = ([1.0, 2.0], np.array(0), np.array(1), np.array(5.0))
    bounds = [Value((start,)), Value((stop,))]
    walk = reader_of()
    after = run(walk, "BINARY_SLICE", [D, constant(numbers), *bounds])
    assert len(after) == 2
    assert after[0] is D
    assert set(map(id, after[1].refs)) == {id(numbers)}
    assert arrays_used(walk) == {id(start): False, id(stop): False}
    walk = reader_of()
    assert run(walk, "STORE_SLICE", [D, Value((new,)), TRACED, *bounds]) == [D]
    assert arrays_used(walk) == dict.fromkeys(map(id, (new, start, stop)), True)


def test_arguments_by_keyword_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Any] = []
    monkeypatch.setattr(stack.Reader, "call", lambda _, f, *given: got.append((f, *given)) or C)
    walk, size = reader_of(), constant(len)
    names = constant(("k",))
    assert run(walk, "CALL_KW", [D, size, NULL, A, B, names], 2) == [D, C]
    assert got == [(size, [A], {"k": B})]


@pytest.mark.parametrize(("number", "known"), [(1, True), (2, True), (4, False), (8, False)])
def test_defaults_of_functions_made_inside_are_known(number: int, known: bool) -> None:
    walk, default = reader_of(), object()
    made = Made(outer.__code__, walk.frame, NOTHING)
    after = run(walk, "SET_FUNCTION_ATTRIBUTE", [D, constant(default), constant(made)], number)
    assert [v.refs[0] for v in after] == ["D", made]
    assert (default in made.defaults.refs) == known


@pytest.mark.parametrize("method", [False, True])
def test_attributes_of_super_are_found(method: bool) -> None:
    class Base:
        w = 2.0

    class Over(Base):
        w = 3.0

    walk = reader_of()
    parts = [constant(super), constant(Over), constant(Over())]
    after = run(walk, "LOAD_SUPER_ATTR", [D, *parts], int(method), "w")
    assert refs(after) == [["D"], *([[]] if method else []), [2.0]]


def test_pairs_of_variables_are_told_apart() -> None:
    names = outer.__code__.co_varnames
    number = next(iter(bytecode.LOCAL))
    for arg, pair in ((0x12, (names[1], names[2])), (0x20, (names[2], names[0]))):
        found = bytecode.meaning(outer.__code__, number, "LOAD_FAST_LOAD_FAST", arg)
        assert found == pair


def listed(text: str) -> Any:
    code = compile(text, "<text>", "eval")
    assert listing(code).code is code
    return weakref.ref(code)


def test_what_is_listed_does_not_keep_all_code_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "_LIMIT", 3)
    kept = [listed(f"x + {i}") for i in range(20)]
    gc.collect()
    assert sum(ref() is not None for ref in kept) <= 5
