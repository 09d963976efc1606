# Everything starts from `make demo` and `make test`: both set up what is missing first.
.PHONY: demo test test-unit test-all nightly docs bench-verify bench-verify-sizes lint setup clean stop-engine

BIN := .venv/bin
NIGHTLY_MINUTES ?= 60

demo: setup
	$(BIN)/kafka-chaos run experiments/demo.yaml

test: setup
	@docker/set-up browser
	$(BIN)/python -m pytest -m "not slow"

test-unit: .venv/.installed
	$(BIN)/python -m pytest -m "not slow and not cluster and not spark"

test-all: setup
	@docker/set-up browser
	$(BIN)/python -m pytest

# Every acks setting × idempotence × min.insync.replicas × unclean election under every fault, again and again.
nightly: setup
	$(BIN)/kafka-chaos nightly --minutes $(NIGHTLY_MINUTES) $(if $(NIGHTLY_HISTORY),--history $(NIGHTLY_HISTORY))

# The site, in docs/_site; a warning, such as a link to nowhere, fails it.
docs: .venv/.installed
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_site

# Verification of 10 million records beside DuckDB on the same files; the last line is the ratio as JSON.
bench-verify: setup
	$(BIN)/python benchmarks/verify_bench.py

# Time and memory from 10⁴ to 10⁸ records, then 10⁷ that are dirty everywhere: half an hour and 20 GB, for nights.
bench-verify-sizes: setup
	mkdir -p runs
	$(BIN)/python benchmarks/verify_sizes.py --into runs/verify-sizes.json --plot runs/verify-sizes.svg
	$(BIN)/python benchmarks/verify_sizes.py --dirty --sizes 10000000 --contenders spark --into runs/verify-sizes-dirty.json

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup:
	@docker/set-up

.venv/.installed: pyproject.toml
	@docker/set-up python

# Leftovers of dead runs, run directories and build output go; the engine and the image stay (see stop-engine).
clean:
	[ ! -x $(BIN)/kafka-chaos ] || $(BIN)/kafka-chaos clean || true
	rm -rf runs dist build docs/_site docs/reference .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Ends the Docker engine if `make setup` started it.
stop-engine:
	@docker/set-up stop-engine
