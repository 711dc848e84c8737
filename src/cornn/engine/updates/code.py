"""Expressions of an update, and the code that is generated from them: C, CUDA and PyTorch.

An expression has numbers, names, + - * /, parentheses and the functions of `FUNCTIONS`. Comparisons are the first
argument of `select`. This is C as well as Python, so Python's parser checks it, and nothing else is ever evaluated or
compiled. C and CUDA get the same text: `NUMBER` and `pointwise_...` are defined in csrc/pointwise.h for vectors of
neurons and in kernels/update.cuh for one neuron.
"""

import ast
import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["FUNCTIONS", "Code", "Names", "c_source", "check_code", "cuda_source", "evaluate"]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "abs": torch.abs,
    "sign": torch.sign,
    "exp": torch.exp,
    "sin": torch.sin,
    "cos": torch.cos,
    "sqrt": torch.sqrt,
    "select": torch.where,
}
"""Functions of an expression, in PyTorch. `select(a > b, yes, no)` is the only one with more than one argument."""

_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Code:
    """An update and its derivative as expressions, from which the kernels are generated.

    Attributes:
        step: State -> its next value. All expressions see the states before the step.
        derivative: State -> name -> derivative of its next value with respect to a pre-activation, a state or a
            parameter. What is left out is 0.
        kept: Name -> expression of the pre-activations, one per pre-activation: what is kept of a step for the backward
            pass. The other expressions use these names instead of the pre-activations. None: the pre-activations.
        where: Name -> expression of what is kept, of states, parameters and earlier entries, for the other expressions.

    Examples:
        >>> leaky = Code(
        ...     kept={"force": "tanh(pre)"},
        ...     step={"h": "leak * h + gain * force"},
        ...     derivative={
        ...         "h": {"pre": "gain * (1 - force * force)", "h": "leak", "leak": "h", "gain": "force"},
        ...     },
        ... )
    """

    step: Mapping[str, str]
    derivative: Mapping[str, Mapping[str, str]]
    kept: Mapping[str, str] | None = None
    where: Mapping[str, str] = field(default_factory=dict)


class Names(NamedTuple):
    """The names of an update: its states, its pre-activations and its parameters."""

    state: tuple[str, ...]
    pre: tuple[str, ...]
    parameters: tuple[str, ...]


def _kept(code: Code, names: Names) -> Mapping[str, str]:
    return {name: name for name in names.pre} if code.kept is None else code.kept


def _is_number(value: object) -> bool:
    """Return whether a constant is a finite number; an integer may be too large for one."""
    if type(value) not in (int, float):
        return False
    try:
        return math.isfinite(value)  # pyright: ignore[reportArgumentType]
    except OverflowError:
        return False


def _has_name(*trees: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) for tree in trees for part in ast.walk(tree))


def _tree(text: str, known: Iterable[str], what: str) -> ast.expr:
    """Parse an expression of these names."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise ValueError(f"{what}: {text!r} is not an expression") from None
    known = tuple(known)

    def check(node: ast.expr, comparison: bool = False) -> None:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if comparison and type(op) in _COMPARISONS:
                if not _has_name(node):
                    raise ValueError(f"{what}: {ast.unparse(node)!r} is a constant: write the value that it selects")
                check(left)
                check(right)
            case _ if comparison:
                raise ValueError(f"{what}: the first argument of select is a comparison, such as a > b, in {text!r}")
            case ast.Name(id=name):
                if name not in known:
                    raise ValueError(f"{what}: unknown name {name!r} in {text!r}: known are {', '.join(known)}")
            case ast.Constant(value=value) if _is_number(value):
                pass
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                check(left)
                check(right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                check(operand)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                if len(args) != (3 if name == "select" else 1):
                    raise ValueError(f"{what}: wrong number of arguments of {name} in {text!r}")
                if not _has_name(*args):
                    raise ValueError(f"{what}: {ast.unparse(node)!r} is a constant: write the number")
                for number, argument in enumerate(args):
                    check(argument, comparison=name == "select" and number == 0)
            case _:
                raise ValueError(
                    f"{what}: {ast.unparse(node)!r} is not supported in {text!r}: use numbers, names, + - * / and "
                    f"{', '.join(FUNCTIONS)}"
                )

    check(tree)
    return tree


def _used(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} - FUNCTIONS.keys()


def check_code(code: Code, names: Names) -> None:
    """Raise ValueError if an expression is wrong: its syntax, its names, or what it is for."""
    if code.kept is not None and len(code.kept) != len(names.pre):
        raise ValueError(f"kept has {len(code.kept)} entries, expected one for each of {', '.join(names.pre)}")
    if set(code.step) != set(names.state):
        raise ValueError(f"step has {', '.join(code.step)}, expected {', '.join(names.state)}")
    for name, text in _kept(code, names).items():
        if name in (*names.state, *names.parameters):
            raise ValueError(f"kept[{name!r}]: the name is taken")
        _tree(text, names.pre, f"kept[{name!r}]")
    known = [*_kept(code, names), *names.state, *names.parameters]
    for name, text in code.where.items():
        if name in known:
            raise ValueError(f"where[{name!r}]: the name is taken")
        _tree(text, known, f"where[{name!r}]")
        known.append(name)
    for name in known:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name of lower-case letters, digits and underscores")
        if name in FUNCTIONS:
            raise ValueError(f"{name!r} is the name of a function: choose another one")
    for name, text in code.step.items():
        _tree(text, known, f"step[{name!r}]")
    for state, row in code.derivative.items():
        if state not in names.state:
            raise ValueError(f"derivative[{state!r}]: the states are {', '.join(names.state)}")
        for name, text in row.items():
            if name not in (*names.pre, *names.state, *names.parameters):
                raise ValueError(f"derivative[{state!r}][{name!r}]: not a pre-activation, a state or a parameter")
            _tree(text, known, f"derivative[{state!r}][{name!r}]")


@functools.cache
def _compiled(text: str) -> CodeType:
    return compile(ast.parse(text, mode="eval"), "<expression>", "eval")


def evaluate(text: str, values: Mapping[str, Any]) -> Any:
    """Compute an expression that was checked, in PyTorch."""
    like: Tensor = next(iter(values.values()))

    def select(condition: Tensor, yes: Any, no: Any) -> Tensor:
        # Of two numbers torch.where would make a tensor of the default type.
        if not isinstance(yes, Tensor) and not isinstance(no, Tensor):
            yes = like.new_full((), yes)
        return torch.where(condition, yes, no)

    return eval(_compiled(text), {"__builtins__": {}, **FUNCTIONS, "select": select}, dict(values))


def _text(text: str) -> str:
    """Write an expression in C."""

    def write(node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return f"u_{name}"
            case ast.Constant(value=int() | float() as value):
                return f"NUMBER({float(value)!r})"
            case ast.BinOp(left=left, op=op, right=right):
                return f"({write(left)} {_OPERATORS[type(op)]} {write(right)})"
            case ast.UnaryOp(operand=operand):
                return f"(-{write(operand)})"
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return f"({write(left)} {_COMPARISONS[type(op)]} {write(right)})"
            case ast.Call(func=ast.Name(id=name), args=args):
                return f"pointwise_{name}({', '.join(map(write, args))})"
        raise AssertionError(node)

    return write(ast.parse(text, mode="eval").body)


class _Writer:
    """Writes the bodies of functions for values of one kind."""

    def __init__(self, code: Code, names: Names, kind: str) -> None:
        self.code, self.names, self.kind = code, names, kind

    def used(self, texts: Iterable[str]) -> set[str]:
        """Return the names that these expressions need."""
        used = set().union(*map(_used, texts))
        for name, text in reversed(list(self.code.where.items())):
            used |= _used(text) if name in used else set()
        return used

    def declared(self, texts: Iterable[str], sources: Mapping[str, str]) -> list[str]:
        """Declare the names that these expressions need; `sources`: where values come from."""
        used = self.used(texts)
        derived = {name: _text(text) for name, text in self.code.where.items()}
        needed = {name: source for name, source in {**sources, **derived}.items() if name in used}
        return [f"const {self.kind} u_{name} = {source};" for name, source in needed.items()]

    def sums(self, names: Sequence[str], gradient: Mapping[str, str]) -> list[str]:
        """Return what the gradients of the next states give for each of these names."""
        rows = self.code.derivative.items()
        terms = ([f"{gradient[state]} * {_text(row[name])}" for state, row in rows if name in row] for name in names)
        return [" + ".join(term) or "NUMBER(0.0)" for term in terms]

    def partials(self, names: Sequence[str]) -> list[str]:
        return [row[name] for row in self.code.derivative.values() for name in names if name in row]

    def kept(self) -> list[str]:
        """Compute what is kept of the pre-activations."""
        sources = {f"u_{name}": source for name, source in _indexed(self.names.pre, "pre").items()}
        lines = []
        for i, (name, text) in enumerate(_kept(self.code, self.names).items()):
            value = re.sub(r"\bu_\w+", lambda match: sources[match.group()], _text(text))
            lines += [f"const {self.kind} u_{name} = {value};", f"kept[{i}] = u_{name};"]
        return lines

    def looks_back(self) -> bool:
        """Return whether the gradients of pre-activations and states need the states before the step."""
        return not self.used(self.partials((*self.names.pre, *self.names.state))).isdisjoint(self.names.state)


def _indexed(names: Iterable[str], array: str) -> dict[str, str]:
    return {name: f"{array}[{i}]" for i, name in enumerate(names)}


def c_source(name: str, code: Code, names: Names, products: int) -> str:
    """Return the C of an update, for sequence.h to be included after it."""
    writer = _Writer(code, names, "vec")
    parameters, states = _indexed(names.parameters, "k"), _indexed(names.state, "state")
    before, kept = _indexed(names.state, "before"), _indexed(_kept(code, names), "kept")
    steps = [code.step[state] for state in names.state]
    stepped = [f"const vec next{i} = {_text(text)};" for i, text in enumerate(steps)]
    stored = [f"state[{i}] = next{i};" for i in range(len(steps))]
    gradient = {state: f"grad{i}" for i, state in enumerate(names.state)}
    grads = [f"const vec grad{i} = gradient[{i}];" for i in range(len(names.state))]
    both = (*names.pre, *names.state)
    adjoint = writer.declared(writer.partials(both), parameters | before | kept)
    for_pre = [f"for_pre[{i}] = {text};" for i, text in enumerate(writer.sums(names.pre, gradient))]
    for_state = [f"gradient[{i}] = {text};" for i, text in enumerate(writer.sums(names.state, gradient))]
    terms = writer.declared(writer.partials(names.parameters), parameters | before | kept)
    for_k = [f"for_k[{i}] = {text};" for i, text in enumerate(writer.sums(names.parameters, gradient))]
    macros = {
        "STATES": len(names.state),
        "DRIVES": len(names.pre),
        "PRODUCTS": products,
        "LOOKS_BACK": int(writer.looks_back()),
        "TIMED": 0,
        "PARAMETERS": len(names.parameters),
        "COEFFICIENTS": len(names.parameters),
    }
    lines = [*(f"#define {macro} {value}" for macro, value in macros.items()), "", "PARAMETERS_ARE_COEFFICIENTS", ""]
    lines += _function(
        "INLINE void NAME(step)(const vec *k, const vec *pre, vec *state, vec *kept)",
        ["(void)k, (void)pre;", *writer.kept(), *writer.declared(steps, parameters | states), *stepped, *stored],
    )
    lines += _function(
        "INLINE void NAME(adjoint)(const vec *k, const vec *kept, const vec *before, vec *gradient, vec *for_pre)",
        ["(void)k, (void)kept, (void)before;", *grads, *adjoint, *for_pre, *for_state],
    )
    lines += _function(
        "INLINE void NAME(for_coefficients)(const vec *k, const vec *kept, const vec *gradient, const vec *before,\n"
        "                                   const vec *after, vec *for_k)",
        ["(void)k, (void)kept, (void)before, (void)after;", *grads, *terms, *for_k],
    )
    head = [f"#define UPDATE {re.sub('[^a-z0-9]', '_', name.lower())}", f"#define UPDATE_NAME {json.dumps(name)}"]
    return "\n".join([*head, *lines])


def _function(head: str, body: Iterable[str]) -> list[str]:
    return [head, "{", *(f"    {line}" for line in body), "}", ""]


def cuda_source(code: Code, names: Names, products: int) -> str:
    """Return the struct `Pointwise` for one neuron, as kernels/update.cuh describes it, on one line."""
    writer = _Writer(code, names, "float")
    two = len(names.state) == 2
    parameters, kept = _indexed(names.parameters, "step.of"), _indexed(_kept(code, names), "kept")
    variables = ("y", "z") if two else ("z",)
    states = dict(zip(names.state, variables, strict=True))
    before = {state: f"before.{part}" for state, part in states.items()}
    gradient = {state: f"grad_{part}" for state, part in states.items()}
    steps = [code.step[state] for state in names.state]
    forward = [*writer.kept(), *writer.declared(steps, parameters | states)]
    forward += [f"const float next{i} = {_text(text)};" for i, text in enumerate(steps)]
    forward += [f"{part} = next{i};" for i, part in enumerate(variables)]
    reverse = ["grad_z += for_z;", *writer.declared(writer.partials(names.pre), parameters | before | kept)]
    reverse += [f"delta[{i}] = {text};" for i, text in enumerate(writer.sums(names.pre, gradient))]
    carry = writer.declared(writer.partials(names.state), parameters | before | kept)
    carry += [f"const float next{i} = {text};" for i, text in enumerate(writer.sums(names.state, gradient))]
    carry += [f"grad_{part} = next{i};" for i, part in enumerate(variables)]
    add = writer.declared(writer.partials(names.parameters), parameters | before | kept)
    add += [f"sum.of[{i}] += {text};" for i, text in enumerate(writer.sums(names.parameters, gradient))]
    counts = f"{len(names.state)}, {len(names.parameters)}, {len(names.pre)}, {products}"
    kept_array, drives = f"const float (&kept)[{len(names.pre)}]", len(names.pre)
    method = "__device__ static __forceinline__ void"
    return " ".join(
        [
            f"struct Pointwise : Parameters<{counts}> {{",
            f"static constexpr bool LOOKS_BACK = {str(writer.looks_back()).lower()};",
            f"using Parameters<{counts}>::Parameters;",
            f"{method} forward(const Step& step, const float (&pre)[{drives}], float& y, float& z,"
            f" float (&kept)[{drives}]) {{ {' '.join(forward)} }}",
            f"{method} adjoint(const Step& step, {kept_array}, const Before& before, float for_z, float grad_y,"
            f" float& grad_z, float (&delta)[{drives}]) {{ {' '.join(reverse)} }}",
            f"{method} carry(const Step& step, {kept_array}, const Before& before, float& grad_y, float& grad_z)"
            f" {{ {' '.join(carry)} }}",
            f"{method} add(Step& sum, const Step& step, {kept_array}, const Before& before, float grad_y, float grad_z)"
            f" {{ {' '.join(add)} }}",
            "};",
        ]
    )
