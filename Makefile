# Two commands do everything: `make demo` and `make test`. Each verb has a virtual environment of its own
# under .venv, made when first needed and used again after.
PYTHON ?= python3
VENV := .venv
BUILD := build
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE $(shell find src cpp -type f -not -path '*/__pycache__/*')
SANITIZE := address,undefined
CMAKE := $(VENV)/test/bin/cmake
CTEST := $(VENV)/test/bin/ctest --output-on-failure
PIP := bin/python -m pip --disable-pip-version-check install --quiet
EDITED := --no-build-isolation --no-deps --force-reinstall

.PHONY: demo test cpptest pytest lint format sanitize bench clean help

help:  ## say what each verb does
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

demo: $(VENV)/demo/installed  ## install, and decode a small example
	@$(VENV)/demo/bin/python examples/casino.py

test: cpptest pytest  ## build and run all tests

cpptest: $(VENV)/test/tools
	@$(CMAKE) -S . -B $(BUILD)/cpp -G Ninja -DTRELLIS_TESTS=ON -DCMAKE_MAKE_PROGRAM=$(abspath $(VENV)/test/bin/ninja) > $(VENV)/test/cmake.log || { cat $(VENV)/test/cmake.log; exit 1; }
	@$(CMAKE) --build $(BUILD)/cpp
	$(CTEST) --test-dir $(BUILD)/cpp

pytest: $(VENV)/test/installed
	$(VENV)/test/bin/python -m pytest $(ARGS)

lint: $(VENV)/test/installed  ## ruff, mypy, clang-format
	$(VENV)/test/bin/ruff check .
	$(VENV)/test/bin/ruff format --check .
	$(VENV)/test/bin/mypy
	$(VENV)/test/bin/clang-format --dry-run --Werror $$(find cpp -name '*.[ch]pp')

format: $(VENV)/test/tools  ## rewrite the sources in the house style
	$(VENV)/test/bin/ruff check --fix .
	$(VENV)/test/bin/ruff format .
	$(VENV)/test/bin/clang-format -i $$(find cpp -name '*.[ch]pp')

sanitize: $(VENV)/sanitize/installed  ## C++ tests and inference tests under ASAN + UBSAN, threads under TSAN
	$(CMAKE) -S . -B $(BUILD)/sanitize-cpp -G Ninja -DTRELLIS_TESTS=ON -DTRELLIS_SANITIZE=$(SANITIZE) -DCMAKE_MAKE_PROGRAM=$(abspath $(VENV)/test/bin/ninja)
	$(CMAKE) --build $(BUILD)/sanitize-cpp
	$(CTEST) --test-dir $(BUILD)/sanitize-cpp
	$(CMAKE) -S . -B $(BUILD)/sanitize-threads -G Ninja -DTRELLIS_TESTS=ON -DTRELLIS_SANITIZE=thread -DCMAKE_MAKE_PROGRAM=$(abspath $(VENV)/test/bin/ninja)
	$(CMAKE) --build $(BUILD)/sanitize-threads
	TSAN_OPTIONS=die_after_fork=0 $(CTEST) --test-dir $(BUILD)/sanitize-threads -R 'test_chain|test_thread_pool'
	ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  $(VENV)/sanitize/bin/python -m pytest -p no:cacheprovider tests/inference $(ARGS)

bench: $(VENV)/bench/installed  ## measure against the peers (minutes; a quiet machine)
	$(VENV)/bench/bin/python benchmarks/chain.py $(ARGS)

clean:  ## remove everything that was made
	rm -rf $(VENV) $(BUILD) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/demo/installed: $(SOURCES)
	@echo "Building trellis (about half a minute) ..."
	@$(PYTHON) -m venv $(VENV)/demo
	@$(VENV)/demo/$(PIP) .
	@touch $@

$(VENV)/test/tools: tests/requirements.txt
	$(PYTHON) -m venv $(VENV)/test
	$(VENV)/test/$(PIP) -r tests/requirements.txt
	touch $@

$(VENV)/test/installed: $(VENV)/test/tools $(SOURCES)
	PATH="$(abspath $(VENV)/test/bin):$$PATH" $(VENV)/test/$(PIP) $(EDITED) -C build-dir=$(BUILD)/test .
	touch $@

$(VENV)/sanitize/installed: $(VENV)/test/tools $(SOURCES)
	$(PYTHON) -m venv $(VENV)/sanitize
	$(VENV)/sanitize/$(PIP) -r tests/requirements.txt
	PATH="$(abspath $(VENV)/sanitize/bin):$$PATH" $(VENV)/sanitize/$(PIP) $(EDITED) -C build-dir=$(BUILD)/sanitize -C cmake.define.TRELLIS_SANITIZE=$(SANITIZE) .
	touch $@

$(VENV)/bench/installed: benchmarks/requirements.txt $(SOURCES)
	$(PYTHON) -m venv $(VENV)/bench
	$(VENV)/bench/$(PIP) -r benchmarks/requirements.txt
	$(VENV)/bench/$(PIP) .
	touch $@
