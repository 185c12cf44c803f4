"""The TensorRT libraries: which one is used, what it says, how far it is. Both have the same Python interface."""

from __future__ import annotations

import collections
import importlib
import importlib.util
import logging
import re
from collections.abc import Callable
from typing import Any

import torch

from ...errors import InvalidValueError, MissingPackageError
from ...progress import Progress
from .spec import AUTO, FLAVOURS, PORTABLE, EngineError, EngineSpec

_log = logging.getLogger(__name__)

_INSTALL = {"tensorrt": "pip install 'tensorrt>=10.1'", "tensorrt_rtx": "pip install tensorrt-rtx-cu13"}
_OLDEST_TENSORRT = (10, 1)
"""The first with sizes of device memory in 64 bits."""
_RTX_CAPABILITIES = re.compile(r"7\.5|8\.[069]|12\.\d")
_OLDEST_FP8 = 8.9
_OLDEST_PORTABLE = 8.0
_STEPS = 1000
_KEPT_MESSAGES = 20
_LONGEST_MESSAGE = 300


def load_library(flavour: str) -> Any:
    """The module of a flavour.

    Raises:
        InvalidValueError: the word is no flavour; nothing is imported then.
        MissingPackageError: it is not installed.
        EngineError: it is older than TensorRT 10.1, or its libraries do not load.
    """
    if flavour not in FLAVOURS:
        raise InvalidValueError(f"flavour {flavour!r:.60}", remedy=f"choose {' or '.join(FLAVOURS)}")
    if importlib.util.find_spec(flavour) is None:
        raise MissingPackageError(flavour, needed_for=f"an engine of flavour {flavour}", install=_INSTALL[flavour])
    try:
        library: Any = importlib.import_module(flavour)
    except (ImportError, OSError, RuntimeError) as error:
        raise EngineError(
            f"{flavour} does not load ({error})", remedy=f"install it again: {_INSTALL[flavour]}"
        ) from error
    if flavour == "tensorrt" and tuple(map(int, library.__version__.split(".")[:2])) < _OLDEST_TENSORRT:
        raise EngineError(f"tensorrt {library.__version__}, too old", remedy=_INSTALL[flavour])
    return library


def gpu_capability() -> str | None:
    """Compute capability of the GPU that torch sees, as "12.0"; None without one."""
    return "{}.{}".format(*torch.cuda.get_device_capability()) if torch.cuda.is_available() else None


def gpu_misfit(flavour: str, target: str, here: str | None) -> str:
    """Why a GPU can't run an engine; empty where it can.

    Args:
        flavour: of the engine.
        target: compute capability for which it was built, or "portable".
        here: compute capability of the GPU; None without one.
    """
    if here is None:
        return "torch sees no GPU"
    if flavour == "tensorrt_rtx" and not _RTX_CAPABILITIES.fullmatch(here):
        return f"tensorrt_rtx does not run on compute capability {here}"
    if target != PORTABLE:
        return "" if target == here else f"it is for compute capability {target}, and this GPU has {here}"
    return "" if float(here) >= _OLDEST_PORTABLE else f"it needs compute capability 8.0, and this GPU has {here}"


def resolve(spec: EngineSpec) -> tuple[str, str, str]:
    """Flavour and compute capability of a spec whose choices may be "auto".

    Returns:
        The flavour, "12.0" or "portable", and why the flavour.

    Raises:
        EngineError: the target is not named and there is no GPU, it has no such numbers, or the flavour can't build
            for it here.
        MissingPackageError: neither library is installed.
    """
    here = gpu_capability()
    target = spec.compute_capability
    if target == AUTO:
        if here is None:
            raise EngineError(
                "no GPU here, and no compute capability named", remedy="name one, such as 12.0, or portable"
            )
        target = here
    if spec.precision == "fp8" and target != PORTABLE and float(target) < _OLDEST_FP8:
        raise EngineError(f"fp8 for compute capability {target}", remedy=f"choose fp16, or a GPU from {_OLDEST_FP8} on")
    on_rtx = target == PORTABLE or _RTX_CAPABILITIES.fullmatch(target) is not None
    flavour, reason = spec.flavour, "asked for"
    if flavour == AUTO:
        usable = {"tensorrt_rtx": on_rtx, "tensorrt": here is not None and target in (here, PORTABLE)}
        found = [name for name in sorted(usable, key=_rtx_first) if usable[name] and importlib.util.find_spec(name)]
        if not found:
            raise MissingPackageError(
                _wanted(usable), needed_for=f"an engine for {target}", install=_INSTALL[_wanted(usable)]
            )
        flavour, reason = found[0], f"auto: installed, and builds for {target} here"
    elif flavour == "tensorrt_rtx" and not on_rtx:
        raise EngineError(
            f"tensorrt_rtx for compute capability {target}",
            remedy="it runs on 7.5, 8.0, 8.6, 8.9 and 12.0 on; choose tensorrt",
        )
    elif flavour == "tensorrt" and (here is None or target not in (here, PORTABLE)):
        raise EngineError(
            f"tensorrt for compute capability {target} on a machine with {here or 'no GPU'}",
            remedy="build it on that GPU, or choose tensorrt_rtx",
        )
    return flavour, target, reason


def _rtx_first(flavour: str) -> int:
    return -FLAVOURS.index(flavour)


def _wanted(usable: dict[str, bool]) -> str:
    return "tensorrt_rtx" if usable["tensorrt_rtx"] else "tensorrt"


class Messages:
    """What a library says goes to our log; the latest errors are kept, for the exception that follows them."""

    def __init__(self, library: Any) -> None:
        self._errors: collections.deque[str] = collections.deque(maxlen=_KEPT_MESSAGES)
        errors, severities = self._errors, library.ILogger.Severity

        class _Logger(library.ILogger):  # type: ignore[misc]
            def __init__(self) -> None:
                library.ILogger.__init__(self)

            def log(self, severity: Any, text: str) -> None:
                is_error = severity in (severities.INTERNAL_ERROR, severities.ERROR)
                told = is_error or severity == severities.WARNING
                _log.log(logging.INFO if told else logging.DEBUG, "%s: %s", library.__name__, text)
                if is_error:
                    errors.append(" ".join(text.split()))

        self.logger = _Logger()

    def last_error(self) -> str:
        """The latest error, short; or that there was none."""
        return self._errors[-1][:_LONGEST_MESSAGE] if self._errors else "the library gave no reason"


class Monitor:
    """Progress and cancelling of a build, through the library's IProgressMonitor.

    Args:
        library: the module.
        progress: called with ("engine", done, 1000), rising.
        check_cancelled: raises to stop; called at every step, perhaps on the library's own threads.

    Attributes:
        stopped_by: what `check_cancelled` raised, to be raised again once the library has returned.
    """

    def __init__(self, library: Any, progress: Progress | None, check_cancelled: Callable[[], None] | None) -> None:
        self.stopped_by: BaseException | None = None
        phases = BuildPhases()

        class _Monitor(library.IProgressMonitor):  # type: ignore[misc]
            def __init__(self) -> None:
                library.IProgressMonitor.__init__(self)

            def phase_start(self, name: str, parent: str | None, steps: int) -> None:
                phases.start(name, parent, steps)

            def phase_finish(self, name: str) -> None:
                phases.finish(name)

            def step_complete(self, name: str, step: int) -> bool:
                phases.step(name, step)
                return owner.continues(phases.share())

        owner = self
        self._progress, self._check = progress, check_cancelled
        self._shown = 0
        self.interface = _Monitor()

    def continues(self, share: float) -> bool:
        """Shows a share of the work; False where the build shall stop."""
        if self.stopped_by is not None:
            return False
        try:
            if self._check is not None:
                self._check()
            done = int(share * _STEPS)
            if self._progress is not None and done > self._shown:
                self._shown = done
                self._progress("engine", done, _STEPS)
        except BaseException as error:  # noqa: BLE001  (an exception may not pass through the library)
            self.stopped_by = error
            return False
        return True

    def finish(self) -> None:
        """Shows that all is done; a library may end without its last step."""
        if self._progress is not None and self._shown < _STEPS:
            self._shown = _STEPS
            self._progress("engine", _STEPS, _STEPS)


class BuildPhases:
    """How much of a build is done, from its nested phases. A phase within one counts as part of the step under way."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str | None, int, int]] = {}  # name: parent, steps, done

    def start(self, name: str, parent: str | None, steps: int) -> None:
        """A phase begins."""
        self._open[name] = (parent, max(steps, 1), 0)

    def step(self, name: str, step: int) -> None:
        """Step number `step` of a phase is done."""
        if name in self._open:
            parent, steps, _ = self._open[name]
            self._open[name] = (parent, steps, min(step + 1, steps))

    def finish(self, name: str) -> None:
        """A phase ends."""
        self._open.pop(name, None)

    def share(self) -> float:
        """Done, 0 to 1."""
        return max((self._share_of(name) for name, phase in self._open.items() if phase[0] is None), default=0.0)

    def _share_of(self, name: str) -> float:
        _, steps, done = self._open[name]
        if done == steps:
            return 1.0
        inner = max((self._share_of(child) for child, phase in self._open.items() if phase[0] == name), default=0.0)
        return (done + min(inner, 1.0)) / steps
