#!/usr/bin/env bash
# Usage: tools/setup.sh VENV
# Debian packages for the tests and the demo, then a virtual environment with the tested versions.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

if command -v dpkg-query >/dev/null; then
    missing=()
    while read -r package; do
        status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
        [ "$status" = "install ok installed" ] || missing+=("$package")
    done < tools/debian-packages.txt
    if [ ${#missing[@]} -gt 0 ]; then
        if [ "$(id -u)" = 0 ]; then
            apt-get update -q
            DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
        else
            echo "Missing Debian packages. Install them, then run make again:" >&2
            echo "  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
            exit 1
        fi
    fi
else
    echo "Not a Debian system: make sure that these are installed: $(tr '\n' ' ' < tools/debian-packages.txt)" >&2
fi

[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$venv/bin/python" -m pip install -q --upgrade pip
"$venv/bin/python" -m pip install -q -c constraints.txt -r requirements.txt -r tests/requirements.txt
