# Everything starts from `make demo` and `make test`: both set up what is missing first.
.PHONY: demo test test-unit test-spark test-cluster test-examples test-night test-all mutation sensitivity tla walk scenarios random-schedules detection-power atlas-record \
	nightly nightly-turn atlas \
	newer-releases docs links bench bench-suite bench-verify bench-verify-sizes bench-verify-transactions bench-verify-engines bench-versions bench-bare-machine lint \
	lint-style lint-format lint-types lint-imports package setup clean stop-engine

BIN := .venv/bin
NIGHTLY_MINUTES ?= 60
NIGHTLY_TURN_MINUTES ?= 15
ATLAS_MINUTES ?= 30
RECORD = $(or $(NIGHTLY_HISTORY),runs/atlas)/record.jsonl
MATRIX := $(foreach fault,kill stop pause partition,experiments/nightly/$(fault).yaml)
DEMO ?= demo
MUTATION_LOWEST ?= 70
SCHEDULES ?= 40
PYTEST := $(BIN)/python -m pytest
# One worker has the tests on clusters, another those with Spark; both go on with the rest (tests/conftest.py).
WORKERS := 2
SIDE_BY_SIDE = -n $(WORKERS) --dist loadgroup --kafka-chaos-cluster-per-worker
SHARDS := model verification faults cluster runs shapes clients conformance matrix known users
# Tests start many processes: their modules are compiled once, not in each of them.
unexport PYTHONDONTWRITEBYTECODE

# DEMO=kraft shows the same on Kafka 4 in KRaft mode; its image is built first.
demo:
	@docker/set-up run
	$(BIN)/kafka-chaos run experiments/$(DEMO).yaml

# Every test of the day, in 6 to 12 minutes by the machine's speed; test-unit, test-spark and test-cluster are its three levels.
test: setup
	@docker/set-up tests
	$(PYTEST) $(SIDE_BY_SIDE) -m "not slow"

# Needs neither an engine nor a JVM nor a browser. Some tests wait for processes: three workers share two cores.
test-unit test-examples: WORKERS := 3
test-unit: .venv/.installed
	$(PYTEST) $(SIDE_BY_SIDE) -m "not slow and not cluster and not spark and not browser"

test-spark: setup
	$(PYTEST) -m "spark and not cluster and not slow"

test-cluster: setup
	@docker/set-up tests
	$(PYTEST) -m "cluster and not slow"

# The unit tests with examples that Hypothesis draws anew, instead of the same ones each time.
test-examples: .venv/.installed
	$(PYTEST) $(SIDE_BY_SIDE) -m "not slow and not cluster and not spark and not browser" --hypothesis-profile=night

# The tests of the night, shard by shard; test-night-NAME is one of them.
test-night: $(addprefix test-night-,$(SHARDS))

test-night-%: setup
	@docker/set-up tests
	$(PYTEST) $(SIDE_BY_SIDE) --shard=$* --hypothesis-profile=night

test-all: test test-examples test-night

# How many small changes of the verdict's and the model's rules the fast tests notice.
mutation: .venv/.installed
	$(BIN)/python -m pip install --quiet --group mutation
	$(BIN)/python benchmarks/mutation.py --lowest $(MUTATION_LOWEST)

# Whether one more record or attempt changes a prediction for a lane of experiments/; some minutes, and continued where
# it ended. test-all searches the same scopes.
sensitivity: .venv/.installed
	$(BIN)/python benchmarks/sensitivity.py

# The core of the model in TLA+ (reference_model/tla/), searched by TLC, beside the core in Python; two minutes.
tla: .venv/.installed
	@docker/set-up java
	$(BIN)/python -m pytest tests/reference_model/explore/test_tla.py

# What the guides tell a new user to do: the tutorial, the plugin in a project of its own, attach, bad inputs.
WALK := tests/test_docs.py tests/plugin tests/harness/run/test_attach.py tests/harness/cli/test_bad_inputs.py tests/harness/standing

walk: setup
	$(BIN)/python -m pytest $(WALK)

# Every scenario once, on the model and on brokers, those of share groups on the newest Kafka, too; then their pages, also
# of those that failed.
SHARES := $(addprefix share-,leader-moves member-dies accept-in-flight coordinator-moves delivery-limit unclean-election)
scenarios: setup
	mkdir -p runs
	$(BIN)/kafka-chaos scenario run --all --out runs/scenarios.json; status=$$?; \
	$(BIN)/kafka-chaos scenario run $(SHARES) --kraft 4.4.0 --out runs/shares.json || status=$$?; \
	$(BIN)/python docs/scenario_pages.py runs/scenarios.json runs/shares.json --out runs/scenarios/index.md && exit $$status

# Random schedules of faults of every kind on eight lanes: nothing that is forbidden. A run may stay without a verdict.
random-schedules: setup
	$(BIN)/kafka-chaos hunt experiments/hunts/schedules.yaml --shrink-minutes 0 --minutes 1440 --runs $(SCHEDULES) --engine duckdb \
		--out runs/random-schedules || [ $$? = 2 ]

# Whether random campaigns find the known defects blind, ten minutes each; those first that were looked for longest ago.
detection-power: setup
	@docker/set-up tests
	$(BIN)/python benchmarks/detection_power.py --seed $(shell date +%j)

# Every acks setting × idempotence × min.insync.replicas × unclean election under every fault, again and again.
nightly: setup
	$(if $(NIGHTLY_HISTORY),mkdir -p $(NIGHTLY_HISTORY))
	$(BIN)/kafka-chaos nightly --minutes $(NIGHTLY_MINUTES) $(if $(NIGHTLY_HISTORY),--record $(RECORD))

# The same matrix on a version and in a metadata mode that turn every day.
nightly-turn: setup
	$(BIN)/kafka-chaos nightly $(MATRIX) --on turn --minutes $(NIGHTLY_TURN_MINUTES) --out runs/nightly-turn

# What was tried least of clients, settings and faults; the record of former nights says what that is. Old clients break
# promises: their cells say so, and the job goes on.
atlas: setup
	$(if $(NIGHTLY_HISTORY),mkdir -p $(NIGHTLY_HISTORY))
	$(BIN)/kafka-chaos atlas --minutes $(ATLAS_MINUTES) --record $(RECORD) || [ $$? -le 2 ]
	$(BIN)/python benchmarks/observed_traces.py runs/atlas/*/runs/2*
	$(BIN)/python benchmarks/verdicts_kept.py runs/atlas/*/runs/2*

# Small runs of every family, of other covering arrays every day, and what they do not show; `make runs-kept` judges them
# again on each change. Together they show the actions of the model that leave a trace.
recorded-runs: setup
	@docker/set-up tests
	rm -rf runs/recorded
	$(BIN)/python benchmarks/record_runs.py runs/recorded --seed $(shell date +%j)
	$(BIN)/kafka-chaos run experiments/seldom.yaml --engine duckdb --out runs/recorded
	$(BIN)/python benchmarks/shown.py runs/recorded/2* --least 0.95

# Whether recorded runs keep their verdicts; benchmarks/verdict-changes.toml says why one does not.
runs-kept: .venv/.installed
	$(BIN)/python benchmarks/verdicts_kept.py runs/recorded/2*

# Makes the record of the nights before the one that the guide's table is from.
atlas-record: .venv/.installed
	$(BIN)/python benchmarks/atlas_record.py $(RECORD)

# Which releases of Kafka and of clients are out that were not run here; a line for each in the summary of the job.
newer-releases: .venv/.installed
	$(BIN)/python benchmarks/newer_releases.py

# The site, in docs/_site; a warning, such as a link to nowhere, fails it.
docs: .venv/.installed
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_site

# The site's links to other sites.
links: .venv/.installed
	$(BIN)/python -m sphinx -b linkcheck --quiet docs docs/_site/linkcheck

# The figures of docs/performance.md; each benchmark prints its own.
bench: demo
	$(BIN)/python benchmarks/report.py runs/latest
	$(BIN)/python benchmarks/evidence_sweep.py runs/latest --into runs/evidence-sweep.json
	$(BIN)/python benchmarks/fault_times.py runs/latest
	$(BIN)/python benchmarks/cluster_start.py
	$(BIN)/python benchmarks/killed_runs.py
	$(BIN)/python benchmarks/planted_truncations.py
	$(BIN)/python benchmarks/planted_stalls.py
	$(BIN)/python benchmarks/shrunk_runs.py
	$(BIN)/python benchmarks/links.py
	$(BIN)/python benchmarks/load.py
	$(BIN)/python benchmarks/clients.py
	$(BIN)/python benchmarks/yielding.py
	$(BIN)/python benchmarks/transactions.py
	$(BIN)/python benchmarks/run_to_verdict.py
	$(BIN)/python benchmarks/run_to_verdict.py --engine duckdb
	$(BIN)/python benchmarks/verify_small.py
	$(BIN)/python benchmarks/model_explore.py

# Verification of 10 million records beside DuckDB on the same files; the last line is the ratio as JSON.
bench-verify: setup
	$(BIN)/python benchmarks/verify_bench.py
	$(BIN)/python benchmarks/duckdb_cold.py

# Time and memory from 10⁴ to 10⁸ records, then 10⁷ that are dirty everywhere: half an hour and 20 GB, for nights.
bench-verify-sizes: setup
	mkdir -p runs
	$(BIN)/python benchmarks/verify_sizes.py --into runs/verify-sizes.json --plot runs/verify-sizes.svg
	$(BIN)/python benchmarks/verify_sizes.py --dirty --sizes 10000000 --contenders spark --into runs/verify-sizes-dirty.json

# Verification of transactions, up to a million, and what a group adds to that of its lane.
bench-verify-transactions: setup
	$(BIN)/python benchmarks/verify_transactions.py
	$(BIN)/python benchmarks/verify_transactions.py --planted --transactions 100000
	$(BIN)/python benchmarks/verify_transactions.py --reads --transactions 1000000
	$(BIN)/python benchmarks/verify_groups.py

# Spark and DuckDB on the demo, on transactions, groups and loops, and on spoilt copies of both runs; and on random
# histories of every family, 2,000 of each, beside the oracle of the tests.
bench-verify-engines: setup
	-$(BIN)/kafka-chaos run experiments/demo.yaml --out runs/engines
	-$(BIN)/kafka-chaos run experiments/nightly/exactly-once.yaml --out runs/engines
	$(BIN)/python benchmarks/verify_engines.py runs/engines/*-demo-* runs/engines/*-exactly-once-*
	$(BIN)/python benchmarks/random_agreement.py --spark
	$(BIN)/python benchmarks/jepsen_agreement.py

# Every supported version of Kafka in each of its modes, and what differs between them: builds the images, then a minute
# for each run; for docs/versions.md. Needs root, for losses of power.
bench-versions: setup
	$(BIN)/python benchmarks/versions.py
	$(BIN)/python benchmarks/acks_matrix.py
	$(BIN)/python benchmarks/secured_matrix.py
	$(BIN)/python benchmarks/version_differences.py
	$(BIN)/python benchmarks/implicit_acknowledgement.py

# From a machine without an engine, images and caches to the demo's verdict, three times; for a machine of one's own: the
# engine is taken from everybody.
bench-bare-machine: .venv/.installed
	$(BIN)/python benchmarks/bare_machine.py --remove-the-engine

# Where the minutes of `make test` go, and how often it is green: RUNS in a row, BUSY=--busy beside other work.
bench-suite: setup
	@docker/set-up tests
	$(BIN)/python benchmarks/test_times.py
	$(BIN)/python benchmarks/suite_stability.py $(or $(RUNS),1) $(BUSY)

# What CI checks; the hooks in .pre-commit-config.yaml are the same four.
lint: lint-style lint-format lint-types lint-imports

lint-style: .venv/.installed
	$(BIN)/ruff check .

lint-format: .venv/.installed
	$(BIN)/ruff format --check .

lint-types: .venv/.installed
	$(BIN)/mypy

lint-imports: .venv/.installed
	$(BIN)/lint-imports --no-logo

# Source archive and wheel of the last commit, in dist/, installed and checked as a user gets them.
package: .venv/.installed
	.ci/package

setup:
	@docker/set-up

.venv/.installed: pyproject.toml
	@docker/set-up python

# Leftovers of dead runs, run directories and build output go; the engine and the image stay (see stop-engine).
clean:
	[ ! -x $(BIN)/kafka-chaos ] || $(BIN)/kafka-chaos clean || true
	rm -rf runs dist build docs/_site docs/reference .venv spark-warehouse
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Ends the Docker engine if `make setup` started it.
stop-engine:
	@docker/set-up stop-engine
