#!/usr/bin/env bash
# Usage: tools/setup.sh VENV
# A virtual environment with the tested versions.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$venv/bin/python" -m pip install -q --upgrade pip
"$venv/bin/python" -m pip install -q -c constraints.txt -r requirements.txt -r tests/requirements.txt
