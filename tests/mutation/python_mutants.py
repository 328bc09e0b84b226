"""Mutants of Python sources: one small change of the syntax tree each.

>>> [mutant.new for mutant in find_mutants("def f(a, b=2):\\n    return a < b\\n", "f.py")]
['3', 'return None', '(a <= b)', 'not (a < b)']
"""

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}
_CACHES = ("cache", "lru_cache", "functools.cache", "functools.lru_cache")


class Mutant(NamedTuple):
    """Bytes ``begin`` to ``end`` of a file are replaced by ``new``."""

    path: str
    begin: int
    end: int
    new: str
    lines: tuple[int, int]
    """First and last line of the statement that changes."""
    scope: tuple[int, int] | None
    """First and last line of the function around it; None outside of functions."""
    function: str
    """The name of the function around it; "" outside of functions."""
    runs_at_import: bool
    """Whether the changed code runs when the module is imported: default values, constants."""
    is_cached: bool
    """Whether the function runs once for all tests, because its result is cached."""

    def apply(self, source: bytes) -> bytes:
        """Return the source with the change."""
        return source[: self.begin] + self.new.encode() + source[self.end :]


def find_mutants(source: str, path: str) -> list[Mutant]:
    """Return every mutant of a source, in the order of the syntax tree."""
    return list(_Finder(source, path).find())


class _Finder:
    def __init__(self, source: str, path: str) -> None:
        self.tree, self.path = ast.parse(source), path
        self.starts = [0]  # offset of each line in bytes, as the columns of the tree are
        for line in source.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.text = source.encode()

    def find(self) -> Iterator[Mutant]:
        yield from self._visit_body(self.tree.body, None)

    def _visit_body(self, body: list[ast.stmt], scope: ast.AST | None) -> Iterator[Mutant]:
        for statement in body:
            if not _is_skipped(statement):
                yield from self._visit_statement(statement, scope)

    def _visit_statement(self, node: ast.stmt, scope: ast.AST | None) -> Iterator[Mutant]:
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function:
            # A default value belongs to the function, though it is computed at import.
            for default in [*node.args.defaults, *node.args.kw_defaults]:
                if default is not None:
                    yield from self._visit_default(default, node, node, scope is None)
        if isinstance(node, ast.If):  # the body never runs
            yield self._make(node.test, "False", node, scope, scope is None)
        inner = node if is_function else scope
        at_import = scope is None and not is_function
        for mutant in self._mutate_statement(node):
            yield self._make(node, mutant, node, scope, at_import)
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody") and isinstance(value, list):
                yield from self._visit_body(value, inner)
            elif name == "handlers":
                for handler in value:
                    yield from self._visit_body(handler.body, inner)
            elif name not in ("args", "decorator_list", "annotation", "returns", "bases"):
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.expr | ast.withitem | ast.match_case):
                        yield from self._visit_expression(child, node, scope, at_import)

    def _visit_default(
        self, node: ast.expr, function: ast.stmt, scope: ast.AST, at_import: bool
    ) -> Iterator[Mutant]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield self._make(node, repr(node.value + "_"), function, scope, at_import)
        yield from self._visit_expression(node, function, scope, at_import)

    def _visit_expression(
        self, node: ast.AST, statement: ast.stmt, scope: ast.AST | None, at_import: bool
    ) -> Iterator[Mutant]:
        if isinstance(node, ast.JoinedStr):
            return  # positions inside of an f-string are wrong before Python 3.12
        for new in _mutate_expression(node):
            yield self._make(node, new, statement, scope, at_import)
        function = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        for child in ast.iter_child_nodes(node):
            text = ast.unparse(child)
            # NumPy reads every negative size as -1. The strictness of zip is an assertion.
            is_same = function.endswith(".reshape") and text == "-1"
            if not (is_same or (function == "zip" and text == "strict=True")):
                yield from self._visit_expression(child, statement, scope, at_import)

    def _mutate_statement(self, node: ast.stmt) -> Iterator[str]:
        if isinstance(node, ast.Return) and not _is_none(node.value):
            yield "return None"
        elif isinstance(node, ast.Raise) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ):
            yield "pass"

    def _make(
        self, node: ast.AST, new: str, statement: ast.stmt, scope: ast.AST | None, at_import: bool
    ) -> Mutant:
        begin = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        last = statement.end_lineno
        if isinstance(getattr(statement, "body", None), list):  # only the head of a block
            last = max(statement.lineno, statement.body[0].lineno - 1)
        lines = (statement.lineno, last)
        around = None if scope is None else (scope.lineno, scope.end_lineno)
        name = getattr(scope, "name", "")
        decorators = [ast.unparse(decorator) for decorator in getattr(scope, "decorator_list", [])]
        is_cached = any(text.partition("(")[0] in _CACHES for text in decorators)
        return Mutant(self.path, begin, end, new, lines, around, name, at_import, is_cached)


def _mutate_expression(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[i] = _COMPARISONS[type(operator)]()
            yield f"({ast.unparse(changed)})"
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            yield f"not ({ast.unparse(node)})"
    elif isinstance(node, ast.BoolOp):
        changed = copy.deepcopy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(changed)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        if not any(_is_text(operand) for operand in (node.left, node.right)):
            changed = copy.deepcopy(node)
            changed.op = _ARITHMETIC[type(node.op)]()
            yield f"({ast.unparse(changed)})"
    elif isinstance(node, ast.Constant):
        yield from _mutate_constant(node.value)
    elif isinstance(node, ast.IfExp):
        yield f"({ast.unparse(node.body)})"


def _mutate_constant(value: object) -> Iterator[str]:
    if isinstance(value, bool):
        yield str(not value)
    elif isinstance(value, int):
        yield str(value + 1)
    elif isinstance(value, float):
        yield repr(value * 2 if value else 1.0)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _is_skipped(node: ast.stmt) -> bool:
    """Return whether a statement has no behaviour: imports, docstrings, types, `__all__`."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Assign):
        return "__all__" in ast.unparse(node.targets[0])
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Assert) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
