# make demo   the main job for real: two llama.cpp replicas on the CPU, audit and export
# make test   the tests
# make check  lint, types, import contracts
# make bench  the benchmarks in full; each states its goal and its rival

PYTHON ?= python3
VENV ?= .venv

.PHONY: demo test check bench test-full test-vllm clean

demo: $(VENV)/.ready
	$(VENV)/bin/sevenfold demo

test: $(VENV)/.ready-dev
	scripts/check
	scripts/test

check: $(VENV)/.ready-dev
	scripts/check

test-full: $(VENV)/.ready-dev
	scripts/test --full

# real vLLM on the CPU: SEVENFOLD_VLLM names its python, SEVENFOLD_VLLM_MODEL a small model's folder
test-vllm: $(VENV)/.ready-dev
	scripts/test --full tests/e2e/test_vllm.py -s

bench: $(VENV)/.ready-dev
	scripts/bench

$(VENV)/.ready: pyproject.toml scripts/setup
	PYTHON=$(PYTHON) VENV=$(VENV) scripts/setup llamacpp

$(VENV)/.ready-dev: $(VENV)/.ready
	PYTHON=$(PYTHON) VENV=$(VENV) scripts/setup llamacpp,dev -dev

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
