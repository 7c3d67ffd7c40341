# rtsim.  `make run` flies the main job, `make test` passes the tests; both set up what they need,
# in .venv beside this file, and say first what that is.  They need Python 3.11 to 3.14 and make.

PYTHON   ?=
VENV     ?= .venv
JOBS     ?= auto
CASE     ?= 13.1
SECONDS  ?= 20
RUNS     ?= runs
FLY      ?=
# Compiled models of these runs and tests; a user's own lie in the user's cache folder.
RTSIM_CACHE_DIR ?= $(abspath $(VENV))/cache
export PYTHON VENV RTSIM_CACHE_DIR
# Tests start hundreds of commands, each of which would read all of its source anew.
unexport PYTHONDONTWRITEBYTECODE

BIN    := $(VENV)/bin
RUN    := $(RUNS)/f16-$(CASE)-$(shell date +%Y%m%d-%H%M%S)
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help run fly test test-system test-oldest test-newest test-long test-long-system test-all system unit-system
.PHONY: realtime-system
.PHONY: lint style types contracts unit unit-beside-types unit-all realtime realtime-all bench clean
.PHONY: setup setup-fly setup-dev setup-bench setup-mutants setup-docs setup-dist
.PHONY: mutants docs dist coverage
.NOTPARALLEL:

help:
	@echo "make run       fly NASA's F-16 check case $(CASE) for $(SECONDS) s in real time, compare it with"
	@echo "               the published flight, write a report page"
	@echo "make fly       fly it yourself, with stick, gamepad, or keyboard and mouse (FLY=... for"
	@echo "               more options, such as FLY='--headless --frames pictures --until 5')"
	@echo "make test      style, types, import contracts and tests, with what pip and npm bring"
	@echo "make test-system"
	@echo "               the tests that want Debian packages; says which, and installs them if it may"
	@echo "make test-all  both, with full counts"
	@echo "make test-oldest"
	@echo "               a sample of the tests with each dependency at its lower bound (in"
	@echo "               $(VENV)-oldest; needs Python 3.11)"
	@echo "make test-newest"
	@echo "               a sample of the tests with the newest Python on PATH or in pyenv, if it is"
	@echo "               newer than that of $(VENV) (in $(VENV)-newest)"
	@echo "make test-long the tests that take seconds each"
	@echo "make test-long-system"
	@echo "               those of them that want Debian packages"
	@echo "make bench     measure this machine and rtsim on it: best on an idle machine"
	@echo "make mutants   small changes to what decides verdicts: would a test notice? (MUTANTS='bus"
	@echo "               --every 1': all of rtsim/components/bus.py; it goes on where it was stopped)"
	@echo "make docs      build the documentation site in build/site; a broken link is an error"
	@echo "make dist      build the wheel and the sdist in dist, install each into empty environments of"
	@echo "               the oldest and the newest Python here, or of PYTHON, and run one example of"
	@echo "               each kind there (BUILT=1: those that lie in dist)"
	@echo "make coverage  which lines of rtsim and hitl the tests run, with a page in build/coverage"
	@echo "make lint      style, types and import contracts"
	@echo "make clean     remove $(VENV)* and all caches; recordings in $(RUNS)/ stay"
	@echo "PYTHON=...     which Python to use; otherwise the newest suitable one"

setup-fly:
	@tools/setup.sh fly
setup:
	@tools/setup.sh run
setup-dev:
	@tools/setup.sh dev
setup-bench:
	@tools/setup.sh bench
setup-mutants:
	@tools/setup.sh mutants
setup-docs:
	@tools/setup.sh docs
setup-dist:
	@tools/setup.sh dist

run: setup
	@mkdir -p $(RUNS)
	@echo
	@echo "== F-16, NASA check case $(CASE): $(SECONDS) s closed-loop in real time, commands over the bus"
	$(BIN)/rtsim run f16 --set case=$(CASE) --pace 1.0 --until $(SECONDS) --force -o $(RUN).mcap
	@if [ -f tools/nasa.py ]; then \
	    echo; echo "== against NASA's published trajectory"; \
	    echo "$(BIN)/python -m tools.nasa $(RUN).mcap"; $(BIN)/python -m tools.nasa $(RUN).mcap; fi
	@echo
	@echo "== report"
	$(BIN)/rtsim report $(RUN).mcap -o $(RUN).html
	@echo
	@echo "The report page is $(abspath $(RUN).html): open it in a browser."
	@echo "The recording is $(RUN).mcap: $(BIN)/rtsim replay $(RUN).mcap flies it again, bit for bit."

fly: setup-fly
	@echo "The window shows the keys at first and whenever F1 is pressed; Esc ends the flight."
	$(BIN)/rtsim fly f16 $(FLY)

test: style contracts unit-beside-types realtime
	@echo "make test: style, contracts and tests passed$(if $(RTSIM_STRICT),; types as well)"

test-system: unit-system realtime-system
	@echo "make test-system: the tests that want packages of the system passed"

test-all: lint system unit-all realtime-all
	@echo "make test-all: style, types, contracts and all tests passed"

lint: style types contracts

style: setup-dev
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m tools.language

types: setup-dev
	$(BIN)/python -m mypy

# mypy uses one processor; meanwhile the compiled engine is compiled, which all test processes need,
# and then the tests begin. The types are shown after them.
# A dependency's next release brings types of its own, which is no fault of this checkout.
unit-beside-types: setup-dev
	@types=$$(mktemp); trap 'rm -f "$$types"' EXIT; \
	$(BIN)/python -m mypy >"$$types" 2>&1 & mypy=$$!; \
	$(BIN)/rtsim run ball --engine compiled --until 1 --no-record >/dev/null 2>&1; \
	$(MAKE) --no-print-directory unit; unit=$$?; \
	wait $$mypy; typed=$$?; cat "$$types"; \
	$(if $(RTSIM_STRICT),,[ $$typed -eq 0 ] || \
	    echo "types: shown, not counted; make lint counts them"; typed=0;) \
	[ $$unit -eq 0 ] && [ $$typed -eq 0 ]

contracts: setup-dev
	$(BIN)/lint-imports --no-logo

# Tests that take seconds each have a job of their own (make test-long), and run in make test-all.
SHORT := and not long

# A file stays on one worker: the blocks of a page of docs/ build on each other.  Pages take long and
# come first (testpaths in pyproject.toml), so that the workers end at about the same time.
unit: setup-dev
	$(PYTEST) -q -n $(JOBS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder \
	    -m "not realtime and not full and not system $(SHORT)"

unit-all: setup-dev
	$(PYTEST) -q -n $(JOBS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder -m "not realtime" --hypothesis-profile full

test-long: setup-dev
	$(PYTEST) -q -n $(JOBS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder \
	    -m "long and not realtime and not full and not system"

# They need the machine to themselves: one after another, and nothing beside them.
realtime: setup-dev
	$(PYTEST) -q -p no:xdist -m "realtime and not full and not system $(SHORT)"

realtime-all: setup-dev
	$(PYTEST) -q -p no:xdist -m realtime

system: setup-dev
	@$(BIN)/python -m tools.system

unit-system: system
	$(PYTEST) -q -n $(JOBS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder -m "system and not realtime and not full $(SHORT)"

test-long-system: setup-dev
	@$(BIN)/python -m tools.system --long
	$(PYTEST) -q -n $(JOBS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder -m "system and long and not realtime and not full"

realtime-system: system
	$(PYTEST) -q -p no:xdist -m "system and realtime and not full"

# In an environment of its own, with a cache of its own.
OLDEST := $(VENV)-oldest
test-oldest: export RTSIM_CACHE_DIR := $(abspath $(OLDEST))/cache
test-oldest:
	@VENV=$(OLDEST) tools/setup.sh oldest
	$(OLDEST)/bin/python -m tools.oldest -q -n $(JOBS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder \
	    -m "not realtime and not full and not system"

# In an environment of its own, too. What differs between Pythons shows in a sample of two minutes.
test-newest: setup-dev
	$(BIN)/python -m tools.newest -q -n $(JOBS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder \
	    -m "not realtime and not full and not system $(SHORT)"

# One small change at a time to what decides verdicts: would a test notice?  Hours for all of it;
# MUTANTS names modules and options, and what was tried is not tried again.
MUTANTS ?= --every 10
mutants: setup-mutants
	$(BIN)/python -m tools.mutants $(MUTANTS)

# The site is made of the same Markdown files that GitHub shows; --strict makes a warning an error.
docs: export NO_MKDOCS_2_WARNING = 1
docs: setup-docs
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m mkdocs build --strict
	@echo "The site is $(abspath build/site). To read it: $(BIN)/python -m mkdocs serve"

dist: setup-dist
	$(BIN)/python -m tools.packages $(if $(BUILT),--built) $(if $(PYTHON),--python $(PYTHON))

# Functions count as Python; what numba or a C compiler has made of them does not.
coverage: setup-dev
	$(PYTEST) -q -n $(JOBS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder \
	    -m "not realtime and not full and not system $(SHORT)" --cov --cov-report term --cov-report html

bench: setup-bench
	$(BIN)/python -m tools.bench

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest .mutants .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf build dist rtsim.egg-info
	find rtsim hitl tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
