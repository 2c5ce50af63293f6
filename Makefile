# `make help` lists what there is. Everything lands in .venv/ and build/; `make clean` removes build/.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Packages that a user installed outside of .venv stay out.
export PYTHONNOUSERSITE := 1
# Compiled bytecode is kept, whatever the environment says: hundreds of processes import the same packages.
unexport PYTHONDONTWRITEBYTECODE

BUILD := build/wheel
JOBS ?= $(shell nproc)
# ON: some files are compiled together, which halves a whole build; OFF suits one who edits a file again and again.
UNITY ?= ON
# Seconds that each fuzzer runs.
FUZZ_SECONDS ?= 30
# Seconds that writers are attacked.
ATTACK_SECONDS ?= 600

READY := .venv/.ready
BUILT := .venv/.built
SOURCES := $(shell find CMakeLists.txt cmake src bindings python tests/faults -not -name '*.pyc' -not -name __pycache__ 2>/dev/null)
CPP_FILES = $$(find src bindings benchmarks fuzz tests -name '*.h' -o -name '*.cc')

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

.PHONY: quickstart
quickstart: build ## the main job on real data in a few minutes; DATA=file.h5ad for your own
	.venv/bin/python examples/quickstart.py $(if $(DATA),--data "$(DATA)")

.PHONY: setup
setup: $(READY) ## install what is missing: Debian packages (as root), .venv, Python packages
$(READY): pyproject.toml tools/setup.sh tools/packages.txt tools/constraints.txt tools/build_requirements.txt \
          tools/list_dependencies.py
	@echo 'setting up .venv'
	@tools/setup.sh dev
	@rm -f $(BUILT)
	@touch $@

.PHONY: build
build: $(BUILT) ## compile and install the package and the program into .venv
$(BUILT): $(READY) $(SOURCES)
	@echo 'building the package in $(BUILD); the first time takes some minutes'
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) python -m pip install --quiet --disable-pip-version-check \
	  --no-build-isolation --no-deps --no-index --force-reinstall . -Cbuild-dir=$(BUILD) \
	  -Ccmake.define.CELLFEED_TESTS=ON -Ccmake.define.CELLFEED_BENCH=ON -Ccmake.define.CMAKE_UNITY_BUILD=$(UNITY)
	@touch $@

# The build directory of the wheel serves the C++ tests, fuzzers and benchmarks too: one compilation for all.
.PHONY: build-tests
build-tests: build ## compile the C++ tests as well
	cmake --build $(BUILD) -j $(JOBS) --target cpp_tests

.PHONY: build-all
build-all: build ## compile the C++ tests, fuzzers and benchmarks as well
	cmake --build $(BUILD) -j $(JOBS)

CLOSING = @printf '\n--- closing lines ---\n'; grep 'tests passed' build/ctest.log; tail -n 1 build/pytest.log

.PHONY: test
test: lint test-layers build-tests test-types test-cpp test-python ## install, build and run the tests of every change
	$(CLOSING)

# What passes here is the commit from which CI looks for changed layers.
.PHONY: test-all
test-all: committed lint test-layers build-all test-types test-cpp test-python-all bench-short sanitize wheel test-wheel ## everything, before a release or after a large change
	.venv/bin/python tests/python/attack.py --seconds $(ATTACK_SECONDS)
	git rev-parse HEAD > tests/last_full_run
	$(CLOSING)

.PHONY: committed
committed:
	@[ -z "$$(git status --porcelain)" ] || { echo 'make test-all tests a commit: commit or stash your changes first' >&2; exit 1; }

# More at once than processors: some tests wait.
.PHONY: test-cpp
test-cpp: build-tests ## the C++ tests
	@ctest --test-dir $(BUILD) --output-on-failure -j $$(($(JOBS) + 2)) --quiet --output-log build/ctest.log \
	  || { grep -v ' Passed ' build/ctest.log; exit 1; }
	@grep -E 'tests passed|Total Test time' build/ctest.log

# Programs run side by side: threads of torch that wait for one another would only take time from the rest.
PYTEST = OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} python -m pytest --numprocesses $$(($(JOBS) + 1)) --maxprocesses 4 --dist worksteal

.PHONY: test-python
test-python: build ## the Python tests but the slow ones
	@$(PYTEST) -m 'not slow' | tee build/pytest.log

.PHONY: test-python-all
test-python-all: build ## all Python tests
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-all} $(PYTEST) | tee build/pytest.log

.PHONY: test-layers
test-layers: $(READY) ## no include and no import against the layers; what is named is there
	python tools/check_layers.py
	python tools/check_map.py
	python tools/check_imports.py

.PHONY: test-types
test-types: build ## mypy --strict over the package; mypy and pyright over examples and documents; the stubs
	python tools/make_stubs.py --check
	python tools/check_types.py

.PHONY: stubs
stubs: build ## write the stubs of the compiled module anew, after a change of bindings/
	python tools/make_stubs.py

.PHONY: wheel
wheel: $(READY) ## build the sdist and the wheels for CPython 3.11 and for 3.12 and later, in dist/
	@JOBS=$(JOBS) tools/wheel/build.sh

.PHONY: test-wheel
test-wheel: $(READY) ## install the wheels of dist/ where users would, and use them; as root also in Debian 11, 12 and 13
	@.venv/bin/python tests/wheel/run.py $(PARTS)

.PHONY: examples
examples: build ## every script of examples/, in its short form
	@tools/run_each.sh examples

.PHONY: fuzz
fuzz: build-all ## every fuzzer for FUZZ_SECONDS
	@tools/run_each.sh fuzz $(BUILD) $(FUZZ_SECONDS)

.PHONY: attack
attack: build ## fail or kill the writers at their system calls for ATTACK_SECONDS; writes docs/reliability.md
	.venv/bin/python tests/python/attack.py --seconds $(ATTACK_SECONDS) --table docs/reliability.md

.PHONY: bench-short
bench-short: build-all ## every benchmark, only long enough to see that it runs
	@tools/run_each.sh bench $(BUILD) short

.PHONY: bench
bench: build-all ## measure: micro benchmarks, then the loader beside its rivals (MODES=short: a few minutes)
	@tools/setup.sh dev rivals
	@MODES='$(MODES)' tools/run_each.sh bench $(BUILD) full

.PHONY: sanitize
sanitize: $(READY) ## the C++ tests under ASan + UBSan and under TSan; CHANGED=SECONDS for layers that changed lately
	@JOBS=$(JOBS) tools/sanitize.sh $(CHANGED)

.PHONY: test-neon
test-neon: ## the kernels on 64-bit Arm, under qemu; needs g++-aarch64-linux-gnu and qemu-user
	@JOBS=$(JOBS) tools/test_neon.sh

.PHONY: lint
lint: $(READY) ## ruff and clang-format, changing nothing
	ruff check .
	ruff format --check .
	@clang-format --dry-run -Werror $(CPP_FILES) && echo 'clang-format: all files formatted'
	@! grep -rn 'gil_scoped_' bindings || { echo 'bindings: take and leave the GIL as gil.h does' >&2; exit 1; }

.PHONY: lint-cpp
lint-cpp: build-all ## clang-tidy with the allow-list of .clang-tidy; slow
	@command -v clang-tidy >/dev/null || { echo 'install clang-tidy: apt-get install clang-tidy' >&2; exit 1; }
	find src bindings -name '*.cc' | xargs -P $(JOBS) -n 1 clang-tidy --quiet -p $(BUILD)

.PHONY: format
format: $(READY) ## format all C++ and Python files
	ruff format .
	ruff check --fix .
	clang-format -i $(CPP_FILES)

.PHONY: clean
clean: ## remove all that was built
	rm -rf build dist $(BUILT)
