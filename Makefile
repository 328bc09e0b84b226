# `make demo` and `make test` are all that a newcomer needs; `make help` lists the other targets. Each target
# creates its own virtual environment under .venv when it first needs it, and reuses it.
PYTHON ?= python3
VENV := .venv
BUILD := build
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE $(shell find src cpp -type f -not -path '*/__pycache__/*')
SANITIZE := address,undefined
NINJA = -G Ninja -DTRELLIS_TESTS=ON -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
CPP_TESTS = $(BIN)/cmake --build $(1) && $(BIN)/ctest --output-on-failure --test-dir $(1)
# One worker per core; each worker uses one thread of PyTorch, or they would compete for the cores.
PYTEST = OMP_NUM_THREADS=1 $(VENV)/test/bin/python -m pytest -n auto --dist worksteal
PIP := bin/python -m pip --disable-pip-version-check install --quiet
EDITED := --no-build-isolation --no-deps --force-reinstall

.PHONY: demo test test-all cpptest pytest lint format sanitize docs bench compat clean help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: $(VENV)/demo/installed  ## install, train on the embedded corpus, tag, write demo/report.html
	@$(VENV)/demo/bin/trellis demo -o demo

test: cpptest pytest  ## build, run the C++ tests and the quick Python tests (minutes)

test-all: cpptest  ## run every test: slow ones, Triton's interpreter, every instruction set
	TRELLIS_TESTS=all $(PYTEST) $(ARGS)

# The module and the C++ tests share one build folder, so that the kernels are compiled once.
cpptest: $(VENV)/test/installed
	$(VENV)/test/bin/ctest --output-on-failure --test-dir $(BUILD)/test

pytest: $(VENV)/test/installed
	$(PYTEST) -m 'not slow and not interpreter' $(ARGS)

lint: $(VENV)/lint/tools  ## ruff, mypy, clang-format
	$(VENV)/lint/bin/ruff check .
	$(VENV)/lint/bin/ruff format --check .
	$(VENV)/lint/bin/mypy
	$(VENV)/lint/bin/clang-format --dry-run --Werror $$(find cpp -name '*.[ch]pp')

format: $(VENV)/lint/tools  ## format the sources and fix what the linters can fix
	$(VENV)/lint/bin/ruff check --fix .
	$(VENV)/lint/bin/ruff format .
	$(VENV)/lint/bin/clang-format -i $$(find cpp -name '*.[ch]pp')

sanitize: BIN = $(VENV)/sanitize/bin
sanitize: $(VENV)/sanitize/installed  ## C++ tests and tests of native code under ASAN + UBSAN, threads under TSAN
	$(BIN)/cmake -S . -B $(BUILD)/sanitize-cpp $(NINJA) -DTRELLIS_SANITIZE=$(SANITIZE)
	$(call CPP_TESTS,$(BUILD)/sanitize-cpp)
	$(BIN)/cmake -S . -B $(BUILD)/sanitize-threads $(NINJA) -DTRELLIS_SANITIZE=thread
	export TSAN_OPTIONS=die_after_fork=0; $(call CPP_TESTS,$(BUILD)/sanitize-threads) -R 'test_chain|test_ctc|test_graph|test_lstm|test_thread_pool|test_vectors|test_objective|test_extractor'
	ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  $(BIN)/python -m pytest -p no:cacheprovider -m 'not slow' tests/inference tests/features tests/optim/test_online.py tests/models/chain/test_crf.py tests/models/chain/test_partial.py tests/models/chain/test_sparse_transitions.py tests/formats/test_crfsuite_file.py tests/formats/test_foreign_damage.py tests/compat/test_pycrfsuite_tagger.py $(ARGS)

docs: $(VENV)/docs/installed  ## the documentation as a site, in build/docs
	$(VENV)/docs/bin/python -m sphinx -W -q -b html docs $(BUILD)/docs
	@echo "$(BUILD)/docs/index.html"

bench: $(VENV)/bench/installed  ## measure against the peers (minutes; a quiet machine)
	$(VENV)/bench/bin/python benchmarks/chain.py $(ARGS)
	$(VENV)/bench/bin/python benchmarks/crf_train.py $(ARGS)
	$(VENV)/bench/bin/python benchmarks/crf_tag.py $(ARGS)
	$(VENV)/bench/bin/python benchmarks/ctc.py $(ARGS)
	$(VENV)/bench/bin/python benchmarks/neural.py $(ARGS)
	$(VENV)/bench/bin/python benchmarks/graph.py $(ARGS)

compat:  ## run the tests of other libraries, and programs built on them, on our replacements (minutes)
	$(PYTHON) benchmarks/compat.py $(ARGS)

clean:  ## remove everything that was built
	rm -rf $(VENV) $(BUILD) dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/demo/installed: $(SOURCES)
	@echo "Building trellis and installing its dependencies (about a minute) ..."
	@$(PYTHON) -m venv $(VENV)/demo
	@$(VENV)/demo/$(PIP) --no-compile '.[plot]'
	@touch $@

$(VENV)/docs/installed: docs/requirements.txt $(SOURCES)
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/$(PIP) . -r docs/requirements.txt
	touch $@

$(VENV)/lint/tools: lint-requirements.txt
	$(PYTHON) -m venv $(VENV)/lint
	$(VENV)/lint/$(PIP) -r lint-requirements.txt
	touch $@

$(VENV)/test/tools $(VENV)/sanitize/tools: tests/requirements.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/$(PIP) -r tests/requirements.txt
	touch $@

$(VENV)/test/installed: $(VENV)/test/tools $(SOURCES)
	PATH="$(abspath $(VENV)/test/bin):$$PATH" $(VENV)/test/$(PIP) $(EDITED) --config-settings=build-dir=$(BUILD)/test --config-settings=cmake.define.TRELLIS_TESTS=ON .
	touch $@

$(VENV)/sanitize/installed: $(VENV)/sanitize/tools $(SOURCES)
	PATH="$(abspath $(VENV)/sanitize/bin):$$PATH" $(VENV)/sanitize/$(PIP) $(EDITED) --config-settings=build-dir=$(BUILD)/sanitize --config-settings=cmake.define.TRELLIS_SANITIZE=$(SANITIZE) .
	touch $@

$(VENV)/bench/installed: benchmarks/requirements.txt benchmarks/requirements-no-deps.txt $(SOURCES)
	$(PYTHON) -m venv $(VENV)/bench
	$(VENV)/bench/$(PIP) -r benchmarks/requirements.txt
	$(VENV)/bench/$(PIP) --no-deps -r benchmarks/requirements-no-deps.txt
	$(VENV)/bench/$(PIP) .
	touch $@
