"""Text to machine code: symbols, errors, hosts, threads and lifetimes."""

import ctypes
import gc
import threading

import pytest
from llvmlite.binding.context import ContextRef
from llvmlite.binding.executionengine import ExecutionEngine

from ftrace.core.errors import BackendError
from ftrace.core.lazy import MAKING
from ftrace.cpu.llvm import machine_code as compiling
from ftrace.cpu.llvm.machine_code import LEVELS, assembly, compile_module, host

PRODUCT = """
declare i64 @outside(i64)
@number = external global i64
define i64 @product(i64 %x) {
  %y = call i64 @outside(i64 %x)
  %n = load i64, ptr @number
  %z = mul i64 %y, %n
  ret i64 %z
}
"""
KIND = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def test_external_names_lie_at_the_addresses_given():
    outside = KIND(lambda x: x + 5)
    address = ctypes.cast(outside, ctypes.c_void_p).value
    number = ctypes.c_int64(2)
    symbols = {"outside": address, "number": ctypes.addressof(number), "never": 1}
    module = compile_module(PRODUCT, symbols, host())
    assert KIND(module.address("product"))(16) == 42


def test_functions_of_the_c_library_need_no_address():
    text = "declare i64 @labs(i64)\n"
    text += "define i64 @f(i64 %x) {\n  %y = call i64 @labs(i64 %x)\n  ret i64 %y\n}\n"
    assert KIND(compile_module(text, {}, host()).address("f"))(-7) == 7


def test_a_name_without_an_address_is_an_error():
    text = "declare void @nobody_has_this()\n"
    with pytest.raises(BackendError, match="needs 'nobody_has_this'"):
        compile_module(text, {}, host())


def test_a_value_that_is_read_where_it_is_not_known_is_refused():
    arms = "entry:\n br i1 true, label %a, label %b\na:\n %x = add i32 1, 2\n br label %b\n"
    text = f"define i32 @f() {{\n{arms}b:\n ret i32 %x\n}}"
    with pytest.raises(BackendError, match="does not dominate"):
        compile_module(text, {}, host())


def test_text_that_llvm_refuses_is_shown():
    text = "define void @f() {\n  %x = add i32 1, undefined_name\n  ret void\n}\n"
    with pytest.raises(BackendError, match=r"%x = add i32 1, undefined_name"):
        compile_module(text, {}, host())


def test_a_function_that_is_not_there_is_named():
    module = compile_module("define void @f() {\n  ret void\n}\n", {}, host())
    with pytest.raises(BackendError, match="no function 'g'"):
        module.address("g")


def test_assembly_shows_the_machine_code():
    text = "define double @f(double %x) {\n  %y = fmul double %x, %x\n  ret double %y\n}\n"
    assert "mulsd" in assembly(text, host("sse2"))


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_describes_its_vectors(level):
    made = host(level)
    assert (made.vector_bytes, made.masked) == {
        "avx512": (64, True),
        "avx2": (32, False),
        "sse2": (16, False),
    }[level]
    assert made.fma == (level != "sse2")


def test_modules_compile_and_run_in_many_threads():
    results: dict[int, int] = {}

    def work(i: int) -> None:
        text = f"define i64 @f(i64 %x) {{\n  %y = add i64 %x, {i}\n  ret i64 %y\n}}\n"
        module = compile_module(text, {}, host())
        gc.collect(0)
        results[i] = KIND(module.address("f"))(100)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: 100 + i for i in range(8)}


@pytest.mark.parametrize("cyclic", [False, True])
def test_code_is_freed_before_its_context(cyclic, monkeypatch):
    """The collector may take both at once; a context that goes first takes living code along."""
    order = []
    module = compile_module("define i32 @one() {\n  ret i32 1\n}", {}, host())
    for kind in (ExecutionEngine, ContextRef):
        free = kind.close
        monkeypatch.setattr(
            kind, "close", lambda part, free=free: (order.append(type(part)), free(part))
        )
    if cyclic:
        module.itself = module
    del module
    gc.collect()
    assert order[:2] == [ExecutionEngine, ContextRef]


def test_code_that_dies_while_another_thread_compiles_is_freed_by_the_next_compilation():
    module = compile_module("define i32 @one() {\n  ret i32 1\n}", {}, host())
    held, go = threading.Event(), threading.Event()

    def hold():
        with MAKING:
            held.set()
            go.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(60)
    del module  # must not wait
    assert len(compiling._dead) == 1
    go.set()
    other.join()
    compile_module("define i32 @two() {\n  ret i32 2\n}", {}, host())
    assert not compiling._dead
