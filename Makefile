# `make demo` and `make test` set everything up on a fresh machine, then run.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: demo test test-long lint golden setup clean

demo: setup
	mkdir -p out
	$(PY) -m ditto_core render --avatar ditto_core/bundled/presenter.png --speech ditto_core/bundled/news.wav \
		--out out/demo.mp4 --report out/demo.json

# Everything that is quick: checks first, then all tests but those marked long.
test: lint
	$(PY) -m pytest -m "not long"

test-long: setup
	$(PY) -m pytest -m long

lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

# Writes the table of the golden suite: count and largest relative error of every file.
golden: setup
	$(PY) -m pytest tests/golden --golden-report benchmarks/golden.json

setup: $(READY)

$(READY): tools/setup.sh tools/debian-packages.txt requirements.txt tests/requirements.txt constraints.txt
	PYTHON="$(PYTHON)" tools/setup.sh "$(VENV)"
	touch $@

clean:
	rm -rf $(VENV) .cache out
