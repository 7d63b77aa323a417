# Every verb of the project; `make help` lists them. All of them work on a clean checkout: the first
# one that needs it makes `.venv` from the files whose hashes are in `requirements.lock`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RECORDS ?= 1000000
TESTS ?= tests
WORKERS ?= 3
BENCH ?= queries dashboard viewers tpch statements arrow tail tiering catalog formats upsert processes
SEED ?= 1
TPC ?=
MINUTES ?= 10
COUNT ?= 20000
HISTORIES ?= 100000
COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
  --generate-hashes --no-annotate --custom-compile-command 'make lock' --no-emit-package seamline
FAST := not integration and not spark and not prove and not soak

export PYTHONPATH :=
# hundreds of processes import the project's modules: they are compiled once, not by each of them
unexport PYTHONDONTWRITEBYTECODE

.PHONY: docs helm

.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed, $(PYTHON) is older; run: make PYTHON=python3.11 …" >&2; exit 1; }
	@echo "Setting up $(VENV) (about a minute the first time)"
	@$(PYTHON) -m venv $(VENV)
	@awk '/^[^ ]/ { is_uv = /^uv==/ } is_uv' requirements.lock | \
	  $(PIP) --require-hashes --requirement /dev/stdin
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes \
	  --requirement requirements.lock || { \
	  echo "uv could not install the packages; pip does, which takes longer" >&2; \
	  $(PIP) --require-hashes --requirement requirements.lock; }
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY) ## Run the main job end to end (RECORDS=1000000, KEEP=1 leaves it running)
	@$(BIN)/seamline demo --records $(RECORDS) $(if $(KEEP),--keep)

demo-adopt: $(READY) ## Adopt tables that a sink of Kafka Connect fills (RECORDS=200000)
	@$(BIN)/seamline demo --adopt --records $(or $(filter-out 1000000,$(RECORDS)),200000) $(if $(KEEP),--keep)

check: $(READY) docs ## Lint, format, types, the documentation's links: everything that runs nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/packaging/link_farm.py build/farm
	MYPYPATH=build/farm:tests $(BIN)/python -m mypy --package seamline
	MYPYPATH=build/farm:tests $(BIN)/python -m mypy --explicit-package-bases tests
	MYPYPATH=build/farm $(BIN)/python -m mypy helm/check
	MYPYPATH=build/farm $(BIN)/python -m mypy docs/site/hooks.py
	MYPYPATH=build/farm:examples $(BIN)/python -m mypy --explicit-package-bases examples
	MYPYPATH=build/farm:benchmarks:tests $(BIN)/python -m mypy --explicit-package-bases benchmarks

docs: $(READY) ## Build the documentation as a site, in build/site; a link to nothing fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "built: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

jars: $(READY) ## Fetch the jars of the broker and of Spark, and archive their classes, once per user
	@$(BIN)/python -c 'from seamline.connectors.jvm import jars; jars.kafka_jars(print)'
	@$(BIN)/seamline prepare

test: jars ## The tests: unit, property, a short simulation, one pass over real parts
	$(BIN)/python -m pytest $(TESTS) -m "not prove and not soak" -n $(WORKERS) \
	  --dist loadgroup --no-loadscope-reorder

prove: jars ## The long proofs: 100,000 histories, larger explored scopes, faults of real parts
	EVERY_EXAMPLE=1 $(BIN)/python -m pytest $(TESTS) -n $(WORKERS) --histories $(HISTORIES) \
	  -m "prove and not soak" --dist loadfile --no-loadscope-reorder --durations=25

soak: jars ## More of the same: every variant of the proofs, new examples, larger counts, the newest packages
	EVERY_EXAMPLE=1 $(BIN)/python -m pytest $(TESTS) -m "soak or hypothesis" --hypothesis-profile new -n $(WORKERS) --dist loadfile --durations=25

test-fast: $(READY) ## The tests that start neither broker nor Spark
	$(BIN)/python -m pytest $(TESTS) -m "$(FAST)" -n $(WORKERS) --dist loadgroup

golden: $(READY) ## Rewrite the expected halves of text tests; read the diff
	$(BIN)/python -m pytest tests/slt tests/golden tests/unit/test_docs.py --rewrite

bench: $(READY) ## Benchmarks, both sides in one run (BENCH=queries for one)
	@for one in $(BENCH); do echo "== $$one"; $(BIN)/python benchmarks/$$one.py || exit 1; done

scale: $(READY) ## What things cost at a small and at a large size (LAW=values for one)
	$(BIN)/python benchmarks/scale.py $(LAW)

helm: $(READY) ## Lint the chart and render its examples (Helm from PATH, or built with Go)
	$(BIN)/python helm/check

lock: $(READY) ## Rebuild the locks: Python packages and jars, each with its hash
	$(COMPILE) --extra dev --extra tpc --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra gateway --extra aws --extra azure --extra delta --extra google \
	  --extra spark --constraint requirements.lock \
	  --output-file helm/image/requirements.lock pyproject.toml helm/image/drivers.in
	$(BIN)/python -c 'from seamline.connectors.jvm import jars; jars.pin(print)'

console: ## Build the web console from gateway/console into the package (needs Node.js)
	cd gateway/console && npm ci --silent && npm run build

pictures: $(READY) ## Take the documentation's pictures of the console (needs Chromium)
	@cd tests && ../$(BIN)/python -m support.pictures

sbom: ## List what the image installs, as CycloneDX in build/seamline.cdx.json
	rm -rf build/sbom && $(PYTHON) -m venv build/sbom && $(PYTHON) -m venv build/sbom/tools
	build/sbom/bin/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --requirement helm/image/requirements.lock
	build/sbom/tools/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom
	build/sbom/tools/bin/cyclonedx-py environment --output-file build/seamline.cdx.json \
	  build/sbom/bin/python

audit: ## Check the locked packages for known vulnerabilities (asks PyPI)
	rm -rf build/audit && $(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	build/audit/bin/pip-audit --strict --disable-pip --require-hashes \
	  --requirement requirements.lock --requirement helm/image/requirements.lock

chaos: $(READY) ## Attack exactness on real parts (SEED=1, MINUTES=10); ends with `violations: 0`
	@cd tests && ../$(BIN)/python -m chaos --seed $(SEED) --minutes $(MINUTES)

clients: $(READY) ## Ask one gateway the same through every client; prints what each can do
	@cd tests && ../$(BIN)/python -m clients

siege: jars ## Honest clients beside every attack at once (SEED=1, MINUTES=10); says whether it held
	@cd tests && ../$(BIN)/python -m siege --seed $(SEED) --minutes $(MINUTES)

tpc: jars ## TPC-H and TPC-DS on both engines, with all, half, few and none of the rows hot (TPC="--suite tpch …")
	@cd tests && ../$(BIN)/python -m tpc $(TPC)

fuzz: jars ## Random queries on both engines and plain DuckDB (SEED=1, COUNT=20000); ends with counts
	@cd tests && ../$(BIN)/python -m fuzz --seed $(SEED) --count $(COUNT)

clean: ## Remove what the other targets made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
