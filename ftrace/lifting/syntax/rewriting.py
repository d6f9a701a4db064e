"""Rewriting a function so that traced values may decide.

The rewritten function is the user's, statement by statement, with the same cells, globals, lines
and names. Only decisions are asked about first: where a test is undecided (a traced value that
has no truth value yet) the statement is handed to its *site*, which stages it. So on values that
are known the code is Python's own.

    if test: A           if _ft.undecided(t := test): x = site.branch(t, locals)
    else: B       ->     elif t: A
                         else: B

What a site stages are *regions*: statement lists compiled, when they are first needed, as
functions of the local names they use. Inside a region `return`, `break` and `continue` become
exits; what follows a statement that may jump is part of its region. Sites are in `sites.py`.
"""

import ast
import copy
import inspect
import types
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ftrace.control.rows.raising import is_following
from ftrace.core.errors import LiftError
from ftrace.core.weak import dropping
from ftrace.lifting.sources import finding
from ftrace.lifting.staging.sites import Region, Site
from ftrace.lifting.state import names
from ftrace.lifting.state.names import NEXT, RAISE, RETURN, Liveness, Names
from ftrace.lifting.state.points import Points
from ftrace.lifting.syntax.emitting import Emitter, Place, forget, leave, positional
from ftrace.lifting.syntax.paths import exploring
from ftrace.lifting.syntax.patterns import Patterns
from ftrace.lifting.syntax.runtime import Helper
from ftrace.lifting.syntax.users_operators import Operators

Mode = tuple[bool, bool]


class Template:
    """What is known of one code object: its syntax, its names, its rewritten code, its sites.

    Args:
        fn: a function of the code.
        source: its definition.
        mode: whether operators are written as calls (`users_operators.py`); whether errors are
        exits in
            it, since a `try` around its call may catch them.
    """

    def __init__(self, fn: types.FunctionType, source: finding.Source, mode: Mode) -> None:
        code = fn.__code__
        self.count = 0  # names made up
        self.written = names.written(source.node)
        self.read_late = names.read_late(source.node)
        own = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        outer = {k: v for k, v in fn.__globals__.items() if k in code.co_names and k not in own}
        patterns = Patterns(self.fresh, outer)
        source = replace(source, node=patterns.of(source.node))
        self.read = patterns.read
        if mode[0]:
            source = replace(source, node=Operators().of(copy.deepcopy(source.node)))
        self.source = source
        self.follows = mode[1]
        self.name, self.qualname = code.co_name, code.co_qualname
        self.outer = names.outer_names(code)
        self.cells = frozenset((*code.co_cellvars, *code.co_freevars))
        declared = [n for n in ast.walk(self.source.node) if isinstance(n, ast.Global)]
        self.globals = frozenset(name for node in declared for name in node.names)
        parameters = inspect.getargs(code)
        given = (*parameters.args, *filter(None, (parameters.varargs, parameters.varkw)))
        self.shared = self.cells.union(given)  # what these names show, others may hold, too
        self.plain = frozenset(code.co_varnames) - self.cells - self.globals
        names.note_reflection(self.source.node, self.plain)
        self.first = code.co_varnames[0] if code.co_argcount else None
        self.sites: list[Site] = []
        self.helper = Helper(self)
        self.definition = self._definition()
        self.code = self._compile(self.definition)

    def fits(self, fn: types.FunctionType) -> bool:
        """Whether the globals of a function of the code are those that it was rewritten by."""
        return all(fn.__globals__.get(name) is x for name, x in self.read.items())

    def _definition(self) -> ast.FunctionDef:
        node = self.source.node
        if isinstance(node, ast.Lambda):
            body: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node.body)]
        else:
            body = list(node.body)
        if names.completes(body):
            body.append(ast.copy_location(ast.Return(ast.Constant(None)), body[-1]))
        live = Liveness({RETURN: names.NONE})
        if self.follows:
            body = Points(self.fresh).block(body)
            live = Liveness({RETURN: names.NONE, RAISE: names.NONE})
        emitter = Emitter(self, root=True)
        emitted = emitter.explained(emitter.block(body, Place(live, names.NONE)))
        kind = ast.AsyncFunctionDef if isinstance(node, ast.AsyncFunctionDef) else ast.FunctionDef
        new: Any = kind("_ft_function", _bare(node.args), emitted, [])
        return ast.copy_location(new, node)

    def fresh(self) -> str:
        """A new name that belongs to the state."""
        self.count += 1
        return f"_ft_c{self.count}"

    def _compile(self, node: ast.FunctionDef) -> types.CodeType:
        code = finding.compile_function(node, {*self.cells, "_ft"}, self.source)
        return code.replace(co_name=self.name, co_qualname=self.qualname)

    def instance(self, fn: types.FunctionType) -> types.FunctionType:
        """The rewritten function over the cells of `fn`."""
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        cells["_ft"] = types.CellType(self.helper)
        closure = tuple(cells[name] for name in self.code.co_freevars)
        new = types.FunctionType(self.code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
        new.__kwdefaults__ = fn.__kwdefaults__
        new.__qualname__, new.__module__ = fn.__qualname__, fn.__module__
        new.__doc__, new.__annotations__ = fn.__doc__, fn.__annotations__
        new.__dict__.update(fn.__dict__)
        return new

    def region(
        self,
        stmts: Sequence[ast.stmt],
        live: Mapping[int, Names],
        always: Names = names.NONE,
        extra: tuple[str, ...] = (),
    ) -> Region:
        """Compile statements as a function of the local names they use.

        Args:
            stmts: the statements.
            live: exit -> the names needed there; NEXT is the end of the list.
            always: names needed everywhere in it.
            extra: further parameters.
        """
        self._check(stmts)
        place = Place(Liveness(live, always), live.get(NEXT, names.NONE))
        emitter = Emitter(self, False, place.after)
        emitter.unbinds = True  # what is around it may have
        body = emitter.block(list(stmts), place)
        if names.completes(stmts):
            body.append(ast.copy_location(leave(NEXT), stmts[-1] if stmts else self.definition))
        body = emitter.explained(body)
        stored = names.stores(stmts)
        loaded = names.loads(stmts)
        used = {n for n in stored | loaded if n in self.plain or n.startswith("_ft_c")}
        if "super" in loaded and self.first in self.plain:
            used.add(self.first)
        params = (*extra, *sorted(used))
        head: list[ast.stmt] = []
        if stored & self.cells:
            head.append(ast.Nonlocal(sorted(stored & self.cells)))
        if self.globals:
            head.append(ast.Global(sorted(self.globals)))
        head += [forget(name) for name in params]
        node = ast.FunctionDef("_ft_region", positional(params), head + body, [])
        ast.copy_location(node, stmts[0] if stmts else self.definition)
        for new in head:
            ast.copy_location(new, node)
        return Region(self._compile(node), params, dict(live), ast.unparse(node))

    def _check(self, stmts: Sequence[ast.stmt]) -> None:
        """Raise for what cannot be part of a region."""
        for s in stmts:
            for n in names.own_nodes(s):
                if isinstance(n, ast.Yield | ast.YieldFrom | ast.Await | ast.AsyncFor):
                    word = "await" if isinstance(n, ast.Await | ast.AsyncFor) else "yield"
                    raise self.error(
                        n,
                        f"`{word}` stands under a condition that a traced value decides.",
                        "Compute the values first and yield them outside the condition.",
                    )
            written = names.stores([s]) & self.globals
            if written:
                raise self.error(
                    s,
                    f"The global `{min(written)}` is assigned under a condition that a traced "
                    "value decides.",
                    "Return the value, or assign a local variable and the global afterwards.",
                )

    def error(self, node: ast.AST, what: str, fix: str) -> LiftError:
        """A `LiftError` at a line of this function."""
        return LiftError(what, fix, place=self.place(node))

    def place(self, node: ast.AST) -> Any:
        """The location of a node, for messages."""
        line: int = getattr(node, "lineno", self.source.node.lineno)
        code = self.code if hasattr(self, "code") else compile("0", self.source.filename, "eval")
        return _at_line(code, line)


def _at_line(code: types.CodeType, line: int) -> Any:
    """A location on a line: the code it stands for need not have run."""
    marker = compile("\n" * (line - 1) + "0", code.co_filename, "eval")
    return marker, len(marker.co_code) - 2


def _bare(args: ast.arguments) -> ast.arguments:
    """Parameters without annotations and defaults: the function object has them."""

    def bare(a: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(a.arg), a)

    return ast.arguments(
        [bare(a) for a in args.posonlyargs],
        [bare(a) for a in args.args],
        bare(args.vararg) if args.vararg else None,
        [bare(a) for a in args.kwonlyargs],
        [None] * len(args.kwonlyargs),
        bare(args.kwarg) if args.kwarg else None,
        [],
    )


# ---------------------------------------------------------------------------------- functions

_templates: dict[tuple[int, Mode], tuple[weakref.ref[types.CodeType], Template]] = {}
_Instances = weakref.WeakKeyDictionary[
    types.FunctionType, tuple[Any, Template | None, types.FunctionType]
]
_instances: dict[Mode, _Instances] = {}

_SUSPENDING: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def rewrite(fn: types.FunctionType, operated: bool = False) -> types.FunctionType:
    """The same function, rewritten; it shares the cells and globals of `fn`.

    Without source: a function that runs all paths (`paths.py`).

    Args:
        fn: a user's function.
        operated: operators and attributes are lifted, too (`users_operators.py`).
    """
    instances = _instances.setdefault((operated, is_following()), _Instances())
    made_of = fn.__code__, fn.__defaults__, fn.__kwdefaults__
    found = instances.get(fn)
    if (
        found is None
        or any(x is not y for x, y in zip(found[0], made_of, strict=True))
        or not (found[1] is None or found[1].fits(fn))
    ):
        found = instances[fn] = made_of, *_rewritten(fn, operated)
    return found[2]


def _rewritten(
    fn: types.FunctionType, operated: bool
) -> tuple[Template | None, types.FunctionType]:
    if "_ft" in fn.__code__.co_freevars:
        return None, fn
    template = template_of(fn, operated)
    return template, exploring(fn) if template is None else template.instance(fn)


def template_of(fn: types.FunctionType, operated: bool = False) -> Template | None:
    """The template of a function's code; None if there is no source."""
    code = fn.__code__
    mode = operated, is_following() and not code.co_flags & _SUSPENDING
    key = id(code), mode
    entry = _templates.get(key)
    if entry is None or not entry[1].fits(fn):
        source = finding.find(fn)
        if source is None:
            return None
        made = Template(fn, source, mode)
        entry = dropping(code, _templates, key), made
        _templates[key] = entry
    return entry[1]


def rewritten_source(fn: types.FunctionType) -> str:
    """The rewritten function as text."""
    template = template_of(fn)
    if template is None:
        raise finding.no_source(fn)
    named = copy.copy(template.definition)
    named.name = fn.__name__ if fn.__name__.isidentifier() else "function"
    return ast.unparse(named)
