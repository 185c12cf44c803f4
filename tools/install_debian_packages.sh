#!/usr/bin/env bash
# The Debian packages that the tests need, from debian-packages.txt. Without root: says what to install, and stops.
set -euo pipefail
cd "$(dirname "$0")/.."

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
