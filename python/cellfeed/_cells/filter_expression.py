"""Expressions such as ``tissue == 'lung' and n_counts > 500``: parsed, checked, evaluated.

The syntax is that of pandas' ``query`` and of SOMA's value filters. Python's own parser reads it;
nothing of it is ever run.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import numpy as np

from ..errors import CellfeedError, InvalidArgumentError
from .conditions import Column, Condition, mirrored

# Values of a column of the rows that are looked at -> which rows it is true of.
Values: TypeAlias = Callable[[str], np.ndarray]
Test: TypeAlias = Callable[[Values], np.ndarray]

_QUOTED = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`([^`\n]*)`")
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_HELP = (
    "write conditions such as tissue == 'lung', n_counts > 500, donor in ['a', 'b'] or donor is "
    "missing, joined by and, or, not; names with spaces in backticks"
)


def parse(text: str, column: Callable[[str], Column]) -> Test:
    """The test that an expression means; every name, type and label in it is checked now.

    Parameters
    ----------
    text
        The expression.
    column
        Finds an obs column by name; raises for one that is not there.
    """
    return _Parser(text, column).test()


class _Parser:
    def __init__(self, text: str, column: Callable[[str], Column]) -> None:
        self._text = text
        self._column = column
        self._quoted_names: dict[str, str] = {}
        # In brackets, so that lines may break; names in backticks become Python's.
        self._code = "("
        self._places = [-1]  # in the text, of each character of the code
        at = 0
        for match in _QUOTED.finditer(text):
            if match[1] is not None:
                self._append(text[at : match.start()], at)
                name = f"_quoted_{len(self._quoted_names)}_"
                while name in text:
                    name += "_"
                self._quoted_names[name] = match[1]
                self._code += name
                self._places += [match.start()] * len(name)
                at = match.end()
        self._append(text[at:], at)
        self._code += "\n)"
        self._places += [len(text)] * 2

    def _append(self, text: str, at: int) -> None:
        self._code += text
        self._places += range(at, at + len(text))

    def test(self) -> Test:
        if not self._text.strip():
            raise InvalidArgumentError(f"the filter is empty: {_HELP}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what is refused below
                tree = ast.parse(self._code, mode="eval")
        except (SyntaxError, ValueError) as error:
            line = (getattr(error, "lineno", None) or 1) - 1
            at = self._begin_of(line) + (getattr(error, "offset", None) or 1) - 1
            self._refuse(getattr(error, "msg", str(error)), self._at(at))
        except (RecursionError, MemoryError):
            raise InvalidArgumentError("the filter is nested too deeply") from None
        try:
            return self._of(tree.body)
        except RecursionError:
            raise InvalidArgumentError("the filter is nested too deeply") from None

    def _of(self, node: ast.expr) -> Test:
        if isinstance(node, ast.BoolOp):
            parts = [self._of(value) for value in node.values]
            return all_of(parts) if isinstance(node.op, ast.And) else _any_of(parts)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            parts = [self._of(node.left), self._of(node.right)]
            return all_of(parts) if isinstance(node.op, ast.BitAnd) else _any_of(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
            inner = self._of(node.operand)
            return lambda values: ~inner(values)
        if isinstance(node, ast.Compare):
            return self._comparisons(node)
        if self._is_column(node) and self._column(self._name(node)).dtype == "bool":
            return self._condition(node, "==", True)
        self._refuse("this is no condition", self._place(node))

    def _comparisons(self, node: ast.Compare) -> Test:
        tests = []
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            tests.append(self._comparison(left, operator, right))
            left = right
        return all_of(tests)

    def _comparison(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> Test:
        if isinstance(operator, (ast.Is, ast.IsNot)):
            if not (isinstance(right, ast.Name) and right.id == "missing"):
                self._refuse("after is comes missing, or not missing", self._place(right))
            negated = isinstance(operator, ast.IsNot)
            return self._condition(left, "is not missing" if negated else "is missing")
        comparison = _COMPARISONS[type(operator)]
        if comparison in ("in", "not in"):
            if not isinstance(right, (ast.List, ast.Tuple, ast.Set)):
                self._refuse(f"after {comparison} comes a list of values", self._place(right))
            return self._condition(left, comparison, [self._value(e) for e in right.elts])
        if self._is_column(left):
            return self._condition(left, comparison, self._value(right))
        return self._condition(right, mirrored(comparison), self._value(left))

    def _condition(self, node: ast.expr, comparison: str, value: Any = None) -> Test:
        if not self._is_column(node):
            self._refuse("an obs column is compared with a value", self._place(node))
        try:
            condition = Condition(self._column(self._name(node)), comparison, value)
        except CellfeedError as error:
            raise type(error)(f"{error.args[0]} ({self._where(self._place(node))})") from None
        return test_of(condition)

    def _is_column(self, node: ast.expr) -> bool:
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return isinstance(node, ast.Name) or is_call

    def _name(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            # As it is written: Python's own form of a name may be another.
            begin = self._offset(node.lineno, node.col_offset)
            name = self._code[begin : self._offset(node.lineno, node.end_col_offset or 0)]
            return self._quoted_names.get(name, name)
        # attr("name with spaces"), as SOMA writes it.
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "attr"
            and len(node.args) == 1
            and not node.keywords
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            return node.args[0].value
        self._refuse("there are no functions here", self._place(node))

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and (
            node.value is None or isinstance(node.value, (str, bool, int, float))
        ):
            return node.value
        if (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, (ast.USub, ast.UAdd))
            and isinstance(node.operand, ast.Constant)
            and isinstance(node.operand.value, (int, float))
            and not isinstance(node.operand.value, bool)
        ):
            number = node.operand.value
            return -number if isinstance(node.op, ast.USub) else number
        if isinstance(node, ast.Name):
            self._refuse("a column is compared with a value; texts need quotes", self._place(node))
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            self._refuse("& and | bind tighter than ==: write and, or", self._place(node))
        self._refuse("this is no value: texts, numbers, True and False are", self._place(node))

    def _begin_of(self, line: int) -> int:
        return sum(len(text) + 1 for text in self._code.split("\n")[:line])

    def _offset(self, line: int, column: int) -> int:
        """In the code, by characters: Python counts lines from 1, and bytes."""
        text = self._code.split("\n")[line - 1]
        return self._begin_of(line - 1) + len(text.encode()[:column].decode())

    def _at(self, offset: int) -> int:
        return self._places[min(max(offset, 1), len(self._places) - 1)]

    def _place(self, node: ast.expr) -> int:
        """Of a node in the text as it was given."""
        return self._at(self._offset(node.lineno, node.col_offset))

    def _where(self, at: int) -> str:
        return f"at character {at + 1} of the filter {self._text!r}"

    def _refuse(self, what: str, at: int) -> NoReturn:
        raise InvalidArgumentError(f"{what} ({self._where(at)}); {_HELP}")


def test_of(condition: Condition) -> Test:
    """The test that one condition is."""
    return lambda values: condition.holds(values(condition.name))


def all_of(tests: list[Test]) -> Test:
    """True where all of them are."""
    if len(tests) == 1:
        return tests[0]
    return lambda values: np.logical_and.reduce([test(values) for test in tests])


def _any_of(tests: list[Test]) -> Test:
    return lambda values: np.logical_or.reduce([test(values) for test in tests])
