# `make demo` and `make test` set everything up on a fresh machine, then run.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
COMFYUI := .comfyui
TESTS_READY := $(COMFYUI)/.ready

.PHONY: demo test test-long lint golden soak setup clean

demo: setup
	mkdir -p out
	$(PY) -m ditto_core render --avatar ditto_core/bundled/presenter.png --speech ditto_core/bundled/news.wav \
		--out out/demo.mp4 --report out/demo.json

# Everything that is quick: checks first, then all tests but those marked long.
test: lint $(TESTS_READY)
	$(PY) -m pytest -m "not long"

test-long: setup $(TESTS_READY)
	$(PY) -m pytest -m long

lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	mkdir -p .cache/pack && ln -sfn ../.. .cache/pack/ditto_live
	MYPYPATH=.cache/pack $(PY) -m mypy --config-file tools/mypy_nodes.ini -p ditto_live.nodes

# Writes the table of the golden suite: count and largest relative error of every file.
golden: setup
	$(PY) -m pytest tests/golden --golden-report benchmarks/golden.json

# Half an hour of speech with prepared pictures and three minutes with drawn ones: memory and threads must stay flat.
soak: setup
	$(PY) -m tools.soak --prepared 30 --real 3 --out benchmarks/soak.json

setup: $(READY)

$(READY): tools/setup.sh requirements.txt tests/requirements.txt constraints.txt
	PYTHON="$(PYTHON)" tools/setup.sh "$(VENV)"
	touch $@

# What only the tests need: Debian packages, and a ComfyUI to run the pack in.
$(TESTS_READY): tools/install_debian_packages.sh tools/debian-packages.txt tools/setup_comfyui.sh \
		tests/comfyui/requirements.txt tests/comfyui/constraints.txt requirements.txt
	tools/install_debian_packages.sh
	PYTHON="$(PYTHON)" tools/setup_comfyui.sh "$(COMFYUI)"
	touch $@

clean:
	rm -rf $(VENV) $(COMFYUI) .cache out
