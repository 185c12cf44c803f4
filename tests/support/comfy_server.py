"""A real ComfyUI server with this pack among its custom nodes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMFYUI = ROOT / ".comfyui"
PROBE = ROOT / "tests" / "comfyui" / "probe"
PACK_FOLDER = "Ditto Live-pack ü"
"""A name that a package can't have, as ComfyUI users give to folders: a space, a hyphen, a letter beyond ASCII."""

_PACK_FILES = ("__init__.py", "nodes", "ditto_core", "web", "workflows", "pyproject.toml", "requirements.txt")
_CACHES = shutil.ignore_patterns("__pycache__")
_START_SECONDS = 180
_STOP_SECONDS = 20


class ComfyServer:
    """Runs ComfyUI on the CPU, on a free port, with a base folder of its own.

    Use it as a context manager: it is ready inside, and gone afterwards.

    Args:
        base: a folder that is made.
        arguments: more of them for the server.
        pack_folder: what the pack's folder is called.
        environment: more variables of the server's environment.

    Attributes:
        base: holds input, output, models, user and custom_nodes.
        url: of the server.
        pack: the copy of this pack that the server loaded.
    """

    def __init__(
        self,
        base: Path,
        *arguments: str,
        pack_folder: str = PACK_FOLDER,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.base = base
        self.pack = base / "custom_nodes" / pack_folder
        self._arguments, self._environment = arguments, dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    @property
    def input(self) -> Path:
        """The folder that nodes read from."""
        return self.base / "input"

    @property
    def output(self) -> Path:
        """The folder that nodes write to."""
        return self.base / "output"

    @property
    def pid(self) -> int:
        """Of the server's process."""
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """All that the server wrote so far."""
        return (self.base / "server.log").read_text(errors="replace")

    def probe(self) -> dict[str, Any]:
        """What happens inside the process: see tests/comfyui/probe."""
        with urllib.request.urlopen(f"{self.url}/ditto_probe", timeout=_STOP_SECONDS) as answer:
            return json.loads(answer.read())

    def resident_mb(self) -> float:
        """Memory of the server's process, in MB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def __enter__(self) -> ComfyServer:
        python = COMFYUI / "venv" / "bin" / "python"
        if not python.exists():
            raise RuntimeError(f"no ComfyUI in {COMFYUI}; make it with: make test, or tools/setup_comfyui.sh .comfyui")
        self._lay_out()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the process and returns when it answers."""
        command = [
            *(COMFYUI / "venv" / "bin" / "python", COMFYUI / "ComfyUI" / "main.py", "--cpu"),
            *("--listen", "127.0.0.1", "--port", str(self._port), "--base-directory", self.base),
            *("--database-url", f"sqlite:///{self.base / 'user' / 'comfyui.db'}"),
            *("--disable-api-nodes", "--disable-auto-launch", *self._arguments),
        ]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "PYTHONPATH": str(ROOT / "tests" / "comfyui" / "shim"),
            "PYTHONUNBUFFERED": "1",
            "HF_HUB_OFFLINE": "1",
            **self._environment,
        }
        with open(self.base / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=self.base, start_new_session=True
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the process as Ctrl-C does, or by force where that does not help."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends the process at once, as a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _lay_out(self) -> None:
        for folder in ("input", "output", "temp", "models", "user/default", "custom_nodes"):
            (self.base / folder).mkdir(parents=True)
        # Without it a dialog for new users covers the canvas.
        settings = {"Comfy.TutorialCompleted": True, "Comfy.Minimap.Visible": False}
        (self.base / "user/default/comfy.settings.json").write_text(json.dumps(settings))
        shutil.copytree(PROBE, self.base / "custom_nodes" / "probe", ignore=_CACHES)
        self.pack.mkdir()
        for name in _PACK_FILES:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.pack / name, ignore=_CACHES)
            else:
                shutil.copy2(source, self.pack / name)

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"ComfyUI ended with code {self._process.returncode}:\n{self.log()[-3000:]}")
            try:
                with urllib.request.urlopen(f"{self.url}/system_stats", timeout=10):
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        raise TimeoutError(f"ComfyUI did not answer within {_START_SECONDS} s:\n{self.log()[-3000:]}")
