"""The loop over the launches of a sequence, in machine code: one call from Python starts them all.

`run(state, bases, stream)` goes over the launches that a table of 64-bit words describes (`State`).
It computes the words of each launch from the bases of this call; it then starts the kernel, or,
where the table has a graph, tells the graph of the words that are others than before, and starts
the graph at last. The entry points of the driver are in the table too, so that tests put others.
"""

import ctypes
from collections.abc import Callable
from typing import Any, Final

import llvmlite.binding as llvm

from ftrace.core.lazy import once

Run = Callable[[int, bytes, int], int]

# The words of a state, and of a launch in `params`: CUDA_KERNEL_NODE_PARAMS_v2.
COUNT, ENDS, MOVING, WORDS, PARAMS, NODES, GRAPH, START, UPDATE, REPLAY = range(10)
STATE: Final = 10
PARAM: Final = 9

# status | launch << 32, 0 where everything went well
_TEXT: Final = """
define i64 @run(ptr %s, ptr %bases, ptr %stream) {
entry:
  %count = load i64, ptr %s
  %at.ends = getelementptr i64, ptr %s, i64 1
  %ends = load ptr, ptr %at.ends
  %at.moving = getelementptr i64, ptr %s, i64 2
  %moving = load ptr, ptr %at.moving
  %at.words = getelementptr i64, ptr %s, i64 3
  %words = load ptr, ptr %at.words
  %at.params = getelementptr i64, ptr %s, i64 4
  %params = load ptr, ptr %at.params
  %at.nodes = getelementptr i64, ptr %s, i64 5
  %nodes = load ptr, ptr %at.nodes
  %at.graph = getelementptr i64, ptr %s, i64 6
  %graph = load ptr, ptr %at.graph
  %at.start = getelementptr i64, ptr %s, i64 7
  %start = load ptr, ptr %at.start
  %at.update = getelementptr i64, ptr %s, i64 8
  %update = load ptr, ptr %at.update
  %at.replay = getelementptr i64, ptr %s, i64 9
  %replay = load ptr, ptr %at.replay
  %direct = icmp eq ptr %graph, null
  br label %launches

launches:
  %i = phi i64 [0, %entry], [%i.next, %launched]
  %k.first = phi i64 [0, %entry], [%end, %launched]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %launch, label %last

launch:
  %at.end = getelementptr i64, ptr %ends, i64 %i
  %end = load i64, ptr %at.end
  %param.at = mul i64 %i, 9
  %p = getelementptr i64, ptr %params, i64 %param.at
  br label %moves

moves:
  %k = phi i64 [%k.first, %launch], [%k.next, %move]
  %changed = phi i1 [0, %launch], [%changed.next, %move]
  %moves.more = icmp ult i64 %k, %end
  br i1 %moves.more, label %move, label %moved

move:
  %m.at = mul i64 %k, 3
  %m = getelementptr i64, ptr %moving, i64 %m.at
  %position = load i64, ptr %m
  %m.1 = getelementptr i64, ptr %m, i64 1
  %base.number = load i64, ptr %m.1
  %m.2 = getelementptr i64, ptr %m, i64 2
  %distance = load i64, ptr %m.2
  %at.base = getelementptr i64, ptr %bases, i64 %base.number
  %base = load i64, ptr %at.base
  %new = add i64 %base, %distance
  %at.word = getelementptr i64, ptr %words, i64 %position
  %old = load i64, ptr %at.word
  %other = icmp ne i64 %new, %old
  %changed.next = or i1 %changed, %other
  store i64 %new, ptr %at.word
  %k.next = add i64 %k, 1
  br label %moves

moved:
  br i1 %direct, label %begin, label %compare

begin:
  %function = load ptr, ptr %p
  %p.gx = getelementptr i32, ptr %p, i64 2
  %gx = load i32, ptr %p.gx
  %p.gy = getelementptr i32, ptr %p, i64 3
  %gy = load i32, ptr %p.gy
  %p.gz = getelementptr i32, ptr %p, i64 4
  %gz = load i32, ptr %p.gz
  %p.bx = getelementptr i32, ptr %p, i64 5
  %bx = load i32, ptr %p.bx
  %p.by = getelementptr i32, ptr %p, i64 6
  %by = load i32, ptr %p.by
  %p.bz = getelementptr i32, ptr %p, i64 7
  %bz = load i32, ptr %p.bz
  %p.shared = getelementptr i32, ptr %p, i64 8
  %shared = load i32, ptr %p.shared
  %p.arguments = getelementptr i64, ptr %p, i64 5
  %arguments = load ptr, ptr %p.arguments
  %begun = call i32 %start(ptr %function, i32 %gx, i32 %gy, i32 %gz, i32 %bx, i32 %by, i32 %bz, i32 %shared, ptr %stream, ptr %arguments, ptr null)
  br label %checked

compare:
  br i1 %changed, label %tell, label %launched

tell:
  %at.node = getelementptr ptr, ptr %nodes, i64 %i
  %node = load ptr, ptr %at.node
  %told = call i32 %update(ptr %graph, ptr %node, ptr %p)
  br label %checked

checked:
  %status = phi i32 [%begun, %begin], [%told, %tell]
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %failed, label %launched

launched:
  %i.next = add i64 %i, 1
  br label %launches

last:
  br i1 %direct, label %good, label %play

play:
  %played = call i32 %replay(ptr %graph, ptr %stream)
  %played.bad = icmp ne i32 %played, 0
  br i1 %played.bad, label %failed, label %good

good:
  ret i64 0

failed:
  %reason = phi i32 [%status, %checked], [%played, %play]
  %number = zext i32 %reason to i64
  %where = shl i64 %i, 32
  %found = or i64 %number, %where
  ret i64 %found
}
"""  # noqa: E501 - a call is one line of LLVM's


@once
def _compiled() -> tuple[Any, Run]:
    """The engine that holds the code, and the function."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_TEXT)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    made = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return engine, made(engine.get_function_address("run"))


def run() -> Run:
    """The function `run`: of an address, the bytes of the bases, and a stream's address."""
    return _compiled()[1]
