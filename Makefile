# Verbs of the project. `make demo` and `make test` do all set-up on a fresh machine.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
export NO_PROXY := 127.0.0.1,localhost

help: ## list the verbs
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/\1\t\2/' | expand -t 10

setup: $(READY) ## make .venv with everything for development

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup ## play the story on an embedded cluster, under a minute once it is set up
	$(BIN)/slicewire demo

# The tests wait more than they work. Files stay whole, and those that take long come first.
test: setup ## unit, property, integration and end-to-end tests
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

check: lint types imports generated test ## what has to pass before anything lands

fmt: setup ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup ## formatting, lint, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell --skip '*.sum,go.mod' README.md CONTRIBUTING.md docs services shared tests deploy

types: setup ## mypy, strict
	$(BIN)/mypy

imports: setup ## directions of imports
	$(BIN)/lint-imports

generated: setup ## generated files stand as their sources say
	$(BIN)/python -m shared.kubelet.generate --check
	$(BIN)/python -m shared.contract.docs --check
	$(BIN)/python -m shared.contract.chart_file --check
	$(BIN)/python -m shared.telemetry.docs --check
	$(BIN)/python -m services.rehearsal.schema --check
	$(BIN)/python -m deploy.dashboards --check

proto: setup ## write the gRPC stubs from the .proto files
	$(BIN)/python -m shared.kubelet.generate

schema: setup ## write docs/contract, the schema of stories and the dashboards from their tables
	$(BIN)/python -m shared.contract.docs
	$(BIN)/python -m shared.telemetry.docs
	$(BIN)/python -m services.rehearsal.schema
	$(BIN)/python -m deploy.dashboards

props: setup ## the state machines, long
	SLICEWIRE_PROPS=long $(BIN)/pytest tests/properties --timeout 3000

e2e: setup ## the rehearsal files only
	$(BIN)/pytest tests/e2e

chart: setup ## tests of what helm renders; helm is built from source once
	$(BIN)/python -m tests.chart

kube: setup ## tests on a real Kubernetes, built from source: needs root and Debian
	$(BIN)/python -m tests.kube

observe: setup ## dashboards, alerts and traces before a real Prometheus and collector
	$(BIN)/python -m tests.observe

pictures: setup ## draw the dashboards and a trace for the docs: needs Debian, Node and Maven
	$(BIN)/python -m tests.observe.preview

bench: setup ## figures as one JSON object
	$(BIN)/python -m tests.bench

gpu: setup ## read-only suite on the real GPUs of this machine
	$(BIN)/python -m tests.gpu

lock: setup ## refresh constraints.txt
	$(BIN)/uv pip compile --quiet --no-header --no-annotate --upgrade --extra dev \
		--no-emit-package slicewire --python-version 3.11 --output-file constraints.txt pyproject.toml

clean: ## remove what the verbs made
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist

.PHONY: help setup demo test check fmt lint types imports generated proto schema props e2e chart kube observe pictures bench gpu lock clean
