"""PyTorch's private interfaces, all in one place.

The fast path, `is_eager`, is used only with tested versions of PyTorch. With any other version the registered operator
runs instead, by public interfaces. The other functions support any version: if a private interface is missing, they
return the conservative answer.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.utils import parametrize

__all__ = [
    "TESTED",
    "call_pre_hooks",
    "compute_hooked_weights",
    "count_dispatch_modes",
    "current_raw_stream",
    "current_transform_level",
    "find_apply",
    "find_tensors",
    "fix_weights",
    "has_hooks",
    "is_eager",
    "is_tested",
    "is_tracing",
    "is_transformed",
    "is_wrapped",
    "multiply_all_",
    "without_history",
]

TESTED = ((2, 11), (2, 13))
"""The oldest and the newest minor version of PyTorch that the tests run with."""


def is_tested(version: str = torch.__version__) -> bool:
    """Return whether the tests run with this version of PyTorch; nightly builds count as the version they precede."""
    major, minor = version.split(".")[:2]
    return TESTED[0] <= (int(major), int(minor)) <= TESTED[1]


_TESTED_HERE = is_tested()
_FUNCTORCH = getattr(torch._C, "_functorch", None)
_PLAIN = (Tensor, nn.Parameter)


def _find(name: str, otherwise: object) -> Callable[..., Any]:
    """Return a function of functorch, or one that returns `otherwise` if it does not exist."""
    return getattr(_FUNCTORCH, name, lambda *_: otherwise)


is_wrapped = _find("is_functorch_wrapped_tensor", True)
current_transform_level = _find("maybe_current_level", None)
count_dispatch_modes: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_interpreter_stack = _find("get_interpreter_stack", None)
_innermost_interpreter = _find("peek_interpreter_stack", None)
_is_legacy_batched = _find("is_legacy_batchedtensor", False)


def is_eager(tensors: Sequence[Tensor | None]) -> bool:
    """Return whether the tensors are plain ones outside torch.compile, functorch, tracing and forward-mode AD.

    Only then may the dispatcher be bypassed. The answer is False for a version of PyTorch that is not tested.
    """
    if (
        not _TESTED_HERE
        or torch.compiler.is_compiling()
        or _innermost_interpreter() is not None
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
    ):
        return False
    for x in tensors:  # noqa: SIM110 (this is asked at every call)
        if x is not None and (type(x) not in _PLAIN or _is_legacy_batched(x)):
            return False
    return True


def _public_raw_stream(device: int) -> int:
    return torch.cuda.current_stream(device).cuda_stream


current_raw_stream: Callable[[int], int] = (
    getattr(torch._C, "_cuda_getCurrentRawStream", _public_raw_stream) if _TESTED_HERE else _public_raw_stream
)
"""Function (device) -> address of its current stream."""


def is_tracing() -> bool:
    """Return whether torch.jit.trace is recording."""
    return not torch.compiler.is_compiling() and torch._C._get_tracing_state() is not None


def is_transformed(tensors: Sequence[Tensor | None]) -> bool:
    """Return whether torch.func.grad or forward-mode AD is active, which PyTorch does not pass to custom operators."""
    if torch.compiler.is_compiling():
        return False
    if any(level.key().name in ("Grad", "Jvp") for level in _interpreter_stack() or ()):
        return True
    if getattr(forward_ad, "_current_level", 0) < 0:
        return False
    return any(x is not None and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def find_apply(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Return the `apply` of a function without the check for transforms, which `is_eager` makes."""
    if not _TESTED_HERE:
        return function.apply
    return super(torch.autograd.Function, function).apply  # pyright: ignore[reportAttributeAccessIssue]


def find_tensors(module: nn.Module, names: Sequence[str]) -> list[Tensor | None]:
    """Return parameters and buffers of a module by name, faster than `getattr`."""
    parameters, buffers, tensors = module._parameters, module._buffers, []
    for name in names:
        value = parameters.get(name)
        if value is None:
            value = buffers.get(name)
        tensors.append(getattr(module, name) if value is None else value)
    return tensors


def fix_weights(module: nn.Module) -> tuple[Any, list[Tensor]]:
    """Return the module with its present weights, whatever becomes of the module, and these weights.

    A checkpoint runs it again in the backward pass. Then parametrizations may compute others, of which dropout and
    spectral norm are examples, and `functional_call` has put the former ones back.
    """
    # In this order random parametrizations draw.
    names = (*module._parameters, *module._buffers, *getattr(module, "parametrizations", ()))
    weights = {name: getattr(module, name) for name in names}
    fixed = object.__new__(parametrize.type_before_parametrizations(module))
    fixed.__dict__ = {**module.__dict__, "_parameters": {}, "_buffers": {}, **weights}
    # Autograd does not save tensors of the inference mode.
    return fixed, [weight for weight in weights.values() if weight is not None and not weight.is_inference()]


def call_pre_hooks(module: nn.Module, input: Tensor) -> None:
    """Call the forward pre-hooks of a module whose `forward` is not called: those of pruning compute its weights."""
    hooks = getattr(module, "_forward_pre_hooks", None)
    if hooks:
        with_keywords = getattr(module, "_forward_pre_hooks_with_kwargs", {})
        for number, hook in hooks.items():
            hook(module, (input,), *([{}] if number in with_keywords else []))


def compute_hooked_weights(module: nn.Module) -> None:
    """Compute the weights that pruning, `weight_norm` and `spectral_norm` of `nn.utils` set before a call, as it would.

    After a step of an optimiser they are those of the previous call. Other hooks are not called.
    """
    hooks = getattr(module, "_forward_pre_hooks", None)
    if hooks:
        from torch.nn.utils.prune import BasePruningMethod
        from torch.nn.utils.spectral_norm import SpectralNorm
        from torch.nn.utils.weight_norm import WeightNorm

        for hook in hooks.values():
            if isinstance(hook, BasePruningMethod | SpectralNorm | WeightNorm):
                hook(module, ())


def has_hooks(module: nn.Module) -> bool:
    """Return whether a call of the module would call hooks."""
    names = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    return any(getattr(module, name, None) for name in names)


def without_history(tensor: Tensor) -> Tensor:
    """Return the tensor as one that is not a view: it may be changed in place, and detached.

    For the results of a function that autograd does not look into, which are parts of one allocation.
    """
    return tensor.data


def _public_multiply_all_(tensors: Sequence[Tensor], factors: Sequence[Tensor]) -> None:
    for x, factor in zip(tensors, factors, strict=True):
        x.mul_(factor)


multiply_all_: Callable[..., object] = (
    getattr(torch, "_foreach_mul_", _public_multiply_all_) if _TESTED_HERE else _public_multiply_all_
)
"""Function (tensors, factors) that multiplies the tensors in place, by one call."""
