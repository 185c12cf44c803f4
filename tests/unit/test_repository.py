"""The repository as others use it: installed beside ComfyUI, imported as a pack, without what is optional."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

OLD = {"torch": "2.4.0", "numpy": "1.26.4", "onnxruntime-gpu": "1.18.0"}
NEW = {"torch": "2.9.0", "numpy": "2.2.6", "onnxruntime-gpu": "1.23.2"}


def environment_with(folder: Path, packages: dict[str, str]) -> Path:
    """An environment that holds the metadata of packages: all that pip sees of what is installed."""
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    for name, version in packages.items():
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "INSTALLER").write_text("pip\n")
        (info / "RECORD").write_text("")
    return folder


def planned(environment: Path, *arguments: str) -> dict[str, str]:
    """What pip would install there."""
    report = environment / "report.json"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install"),
            *("--quiet", "--dry-run", "--report", str(report), *arguments),
        ],
        check=True,
        cwd=ROOT,
    )
    items = json.loads(report.read_text())["install"]
    return {item["metadata"]["name"].lower(): item["metadata"]["version"] for item in items}


@pytest.mark.parametrize("packages", [OLD, NEW], ids=["old", "new"])
def test_requirements_change_nothing_that_comfyui_has(tmp_path, packages):
    plan = planned(environment_with(tmp_path / "environment", packages), "-r", "requirements.txt")
    assert {"safetensors", "transformers", "av", "onnx"} <= set(plan)
    assert not set(plan) & set(packages)
    assert not [name for name in plan if name.startswith(("onnxruntime", "torch", "nvidia", "opencv"))]


def copy_of_the_repository(target: Path) -> Path:
    return shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(".*", "out", "tests", "__pycache__"))


def run_python(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_pack_imports_from_a_folder_with_any_name(tmp_path):
    """As ComfyUI does it, by path; the pack's entry itself needs neither ComfyUI nor weights nor a GPU."""
    pack = copy_of_the_repository(tmp_path / "Ditto Live-main ü")
    code = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("pack_by_path", {str(pack / "__init__.py")!r},
                                              submodule_search_locations=[{str(pack)!r}])
module = importlib.util.module_from_spec(spec)
sys.modules["pack_by_path"] = module
spec.loader.exec_module(module)
from pack_by_path.ditto_core.checkpoints import load_models
from pack_by_path.ditto_core.errors import DittoError
print(callable(module.comfy_entrypoint), load_models().preset.name)
print([name for name in sys.modules if name.startswith(("comfy", "onnxruntime", "tensorrt", "ditto_core"))])
"""
    assert run_python(code, tmp_path).splitlines()[-2:] == ["True miniature", "[]"]


def test_a_wheel_holds_the_runtime_alone(tmp_path):
    source = copy_of_the_repository(tmp_path / "source")
    subprocess.run(
        [*(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(source))],
        check=True,
    )
    (wheel,) = tmp_path.glob("ditto_live-*.whl")
    listing = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(wheel)], capture_output=True, text=True, check=True
    ).stdout
    assert "ditto_core/networks/warping.py" in listing and "ditto_core/py.typed" in listing
    for file in ("presenter.png", "news.wav", "miniature/decoder.safetensors", "miniature/hubert/model.safetensors"):
        assert f"ditto_core/bundled/{file}" in listing
    assert "nodes/" not in listing and "tests/" not in listing
