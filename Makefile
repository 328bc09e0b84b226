# `make demo` and `make test` are all that a newcomer needs; `make help` lists the other targets. Targets
# create virtual environments under .venv (demo, test, lint, docs, bench) when they first need them, and
# reuse them.
PYTHON ?= python3
VENV := .venv
BUILD := build
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE $(shell find src cpp -type f -not -path '*/__pycache__/*')
SANITIZE := address,undefined
NINJA = -G Ninja -DTRELLIS_TESTS=ON -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja)
# One worker per core; each worker uses one thread of PyTorch, or they would compete for the cores.
PYTEST = OMP_NUM_THREADS=1 $(VENV)/test/bin/python -m pytest -n auto --dist worksteal
PIP := bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
EDITED := --no-build-isolation --no-deps --force-reinstall

.PHONY: demo test test-all cpptest pytest lint format sanitize sanitize-memory sanitize-threads faults fuzz docs bench compat mutate clean help

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
	$(PYTEST) $(QUICK) $(ARGS)

lint: $(VENV)/lint/tools  ## ruff, mypy, clang-format
	$(VENV)/lint/bin/ruff check .
	$(VENV)/lint/bin/ruff format --check .
	$(VENV)/lint/bin/mypy
	$(VENV)/lint/bin/clang-format --dry-run --Werror $$(find cpp -name '*.[ch]pp')

format: $(VENV)/lint/tools  ## format the sources and fix what the linters can fix
	$(VENV)/lint/bin/ruff check --fix .
	$(VENV)/lint/bin/ruff format .
	$(VENV)/lint/bin/clang-format -i $$(find cpp -name '*.[ch]pp')

# Builds the C++ tests and the module in the folder $(1) with the CMake options $(2), and a package for PYTHONPATH.
define MODULE
	$(BIN)/cmake -S . -B $(1) $(NINJA) -DSKBUILD=ON -DPython_EXECUTABLE=$(abspath $(BIN)/python) -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir) $(2)
	$(BIN)/cmake --build $(1)
	rm -rf $(1)/package && mkdir $(1)/package && cp -r src/trellis $(1)/package && cp $(1)/_core*.so $(1)/package/trellis
endef
# Runs pytest with the package of the folder $(1) and the preloaded sanitizer libraries $(2).
PRELOADED = PYTHONPATH=$(abspath $(1))/package OMP_NUM_THREADS=1 LD_PRELOAD="$(foreach name,$(2),$$($(CXX) -print-file-name=lib$(name).so))" \
	  $(BIN)/python -m pytest -p no:cacheprovider
QUICK := -m 'not slow and not interpreter'
SANITIZED := $(QUICK) tests/inference tests/features tests/formats tests/optim tests/models tests/embeddings tests/compat/test_pycrfsuite_tagger.py tests/test_hashing.py

sanitize: sanitize-memory sanitize-threads  ## C++ tests and tests of native code under ASAN + UBSAN and under TSAN

sanitize-memory sanitize-threads faults: BIN = $(VENV)/test/bin
sanitize-memory: $(VENV)/test/tools
	$(call MODULE,$(BUILD)/sanitize,-DTRELLIS_SANITIZE=$(SANITIZE))
	$(BIN)/ctest --output-on-failure --test-dir $(BUILD)/sanitize
	ASAN_OPTIONS=detect_leaks=0 $(call PRELOADED,$(BUILD)/sanitize,asan ubsan) $(SANITIZED) $(ARGS)

# setarch: ThreadSanitizer cannot map its memory where addresses are chosen at random from a large range.
sanitize-threads: $(VENV)/test/tools
	$(call MODULE,$(BUILD)/sanitize-threads,-DTRELLIS_SANITIZE=thread)
	TSAN_OPTIONS=die_after_fork=0 setarch -R $(BIN)/ctest --output-on-failure --test-dir $(BUILD)/sanitize-threads
	TSAN_OPTIONS=die_after_fork=0:halt_on_error=1 setarch -R env $(call PRELOADED,$(BUILD)/sanitize-threads,tsan) $(QUICK) tests/inference tests/models $(ARGS)

# LeakSanitizer reports leaks of the interpreter too. Only stacks with frames of the module are ours.
faults: $(VENV)/test/tools  ## make every allocation of the native core fail once, and look for leaks
	$(call MODULE,$(BUILD)/faults,-DTRELLIS_FAULTS=ON)
	rm -f $(BUILD)/faults/leaks.*
	LSAN_OPTIONS=exitcode=0:log_path=$(abspath $(BUILD)/faults/leaks) $(call PRELOADED,$(BUILD)/faults,lsan) tests/faults $(ARGS)
	! grep -B4 -A12 'trellis/_core' $(BUILD)/faults/leaks.*

MINUTES := 2
fuzz: BIN = $(VENV)/test/bin
fuzz: $(VENV)/test/installed  ## damaged files, forged files and wrong calls for MINUTES=2 (tests/fuzz)
	$(BIN)/cmake -S . -B $(BUILD)/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DTRELLIS_FUZZ=ON
	$(BIN)/cmake --build $(BUILD)/fuzz --target fuzz_drivers
	$(BIN)/python tests/fuzz/run.py --minutes $(MINUTES) --drivers $(BUILD)/fuzz/cpp/tests/fuzz $(ARGS)

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

mutate: $(VENV)/test/installed  ## change the sources at random, report changes that no test notices
	$(VENV)/test/bin/python tests/mutation/run.py $(ARGS)

clean:  ## remove everything that was built
	rm -rf $(VENV) $(BUILD) dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# compileall writes byte code on all cores, pip on one. Without it, every command compiles its imports again where Python
# may not write byte code, as in many containers.
$(VENV)/demo/installed: $(SOURCES)
	@echo "Building trellis and installing its dependencies (about a minute) ..."
	@$(PYTHON) -m venv $(VENV)/demo
	@$(VENV)/demo/$(PIP) --no-compile '.[plot,web]'
	@-$(VENV)/demo/bin/python -m compileall -q -j 0 -x '/tests?/' $(VENV)/demo/lib
	@touch $@

$(VENV)/docs/installed: docs/requirements.txt $(SOURCES)
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/$(PIP) . -r docs/requirements.txt
	touch $@

$(VENV)/lint/tools: lint-requirements.txt
	$(PYTHON) -m venv $(VENV)/lint
	$(VENV)/lint/$(PIP) -r lint-requirements.txt
	touch $@

$(VENV)/test/tools: tests/requirements.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/$(PIP) -r tests/requirements.txt
	touch $@

$(VENV)/test/installed: $(VENV)/test/tools $(SOURCES)
	PATH="$(abspath $(VENV)/test/bin):$$PATH" $(VENV)/test/$(PIP) $(EDITED) --config-settings=build-dir=$(BUILD)/test --config-settings=cmake.define.TRELLIS_TESTS=ON .
	touch $@

$(VENV)/bench/installed: benchmarks/requirements.txt benchmarks/requirements-no-deps.txt $(SOURCES)
	$(PYTHON) -m venv $(VENV)/bench
	$(VENV)/bench/$(PIP) -r benchmarks/requirements.txt
	$(VENV)/bench/$(PIP) --no-deps -r benchmarks/requirements-no-deps.txt
	$(VENV)/bench/$(PIP) .
	touch $@
