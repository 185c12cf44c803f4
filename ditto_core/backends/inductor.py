"""Compilation by Inductor, without Dynamo: a traced function keeps nothing in the process but its own code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from ..errors import BackendError
from .cuda_graph import PROCESS_SETTINGS

_CACHE = "TORCHINDUCTOR_CACHE_DIR"
# Frozen weights are repacked for the CPU's kernels. Inductor keeps them until the process ends, so that a GPU, whose
# kernels take them as they are, gets them as arguments.
_CPU = {"freezing": True}
_AUTOTUNE = {"max_autotune": True, "coordinate_descent_tuning": True}


Result = TypeVar("Result", Tensor, tuple[Tensor, Tensor])


def compile_function(
    function: Callable[..., Result], examples: tuple[Tensor, ...], *, autotune: bool = False
) -> Callable[..., Result]:
    """Compiles a function of tensors for the shapes, types and layouts of the examples.

    Compiled code is kept in the user's cache folder, so that the next process is quicker. The tool chain (Triton's or
    the C++ compiler) runs in processes of its own.

    Args:
        function: takes tensors and gives one, or two; it reads the weights of modules that are not trained any more.
        examples: its arguments, for instance.
        autotune: whether to try several kernels for each product and convolution, which takes minutes.

    Returns:
        The compiled function.

    Raises:
        BackendError: there is no tool chain, or it fails.
    """
    import torch._inductor  # takes seconds to import
    from torch.fx.experimental.proxy_tensor import make_fx

    options = (_CPU if examples[0].device.type == "cpu" else {}) | (_AUTOTUNE if autotune else {})
    try:
        with torch.no_grad(), _cache_folder():
            traced = make_fx(lambda *arguments: function(*arguments))(*examples)
            made = torch._inductor.compile(traced, list(examples), options=options)
            made(*examples)
    except Exception as error:  # the tool chain's errors have no common base
        raise BackendError(
            f"compiling for {examples[0].device} failed ({type(error).__name__}: {str(error)[:300]})",
            remedy="install a C++ compiler, and Triton for a GPU, or use the backend torch",
        ) from error
    return made


@contextmanager
def _cache_folder() -> Iterator[None]:
    """Sends compiled code to the user's cache folder, where the environment names none; one thread at a time."""
    with PROCESS_SETTINGS:
        if _CACHE in os.environ:
            yield
            return
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        os.environ[_CACHE] = str(Path(home, "ditto-live", "inductor"))
        try:
            yield
        finally:
            os.environ.pop(_CACHE, None)


def channels_last(network: nn.Module, *, volumes: bool = True) -> None:
    """Reorders the convolutions' weights in memory, not in value: inputs and outputs then follow.

    Args:
        network: whose weights they are.
        volumes: whether the 3-D convolutions are reordered, too.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            module.weight.data = module.weight.data.contiguous(memory_format=torch.channels_last)
        elif volumes and isinstance(module, nn.Conv3d):
            module.weight.data = module.weight.data.contiguous(memory_format=torch.channels_last_3d)
