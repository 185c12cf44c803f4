"""Lets ComfyUI import PyPI's torchvision beside a CPU build of torch.

PyPI's torchvision is built for CUDA: its compiled operators do not load here, and its Python part then fails because
two of them are unknown to torch. ComfyUI uses the Python part only, so the two are declared, without a body, just
before torchvision is imported.
"""

import importlib.abc
import sys


class _OperatorsBeforeTorchvision(importlib.abc.MetaPathFinder):
    """Finds nothing; only notices that torchvision is about to be imported."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            from torch import library

            for name in ("nms", "qnms"):
                library.define(f"torchvision::{name}", "(Tensor boxes, Tensor scores, float threshold) -> Tensor")
        return None


sys.meta_path.insert(0, _OperatorsBeforeTorchvision())
