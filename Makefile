# make lab      opens the course in JupyterLab            make test       everything that CI runs
# make check    style and types                           make bench      speed, into benchmarks/results.json
# make test-fast  what can be told within three minutes: no browser, no notebook, nothing slow
# make notebooks  runs every notebook and stores its outputs
# make badges [REPO=owner/name] [REF=v1.2.3]  sets the repository and the release in badges, links and set-up cells
# make animation  the moving picture of README.md
# make site [RESULTS=results.json]  the course as pages in site/, with recorded Labs (minutes, once) and what was measured
# Each target creates the environment (.venv) first if it is missing. It takes the first of Python 3.11 to 3.14
# that is installed; make PYTHON=/path/to/python takes another.

SUITABLE = import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	"$$name" -c '$(SUITABLE)' 2> /dev/null && echo "$$name" && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
FOLDER ?= moe_lab_course
LAB_OPTIONS ?=
RESULTS ?=
PYTEST_OPTIONS ?=

# Exact versions for the package, its dependencies and the tools that build it, on each of these Pythons.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Compiled modules are kept whatever the shell says: without them every process compiles torch and pandas anew, 4 seconds.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help lab test test-fast check bench notebooks badges animation site clean

help:
	@sed -n '/^#/!q; s/^# //p' Makefile

$(BIN)/python:
	@"$(PYTHON)" -c '$(SUITABLE)' || { echo "moe_lab needs Python 3.11, 3.12, 3.13 or 3.14: make PYTHON=/path/to/python3.12"; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$@ -m pip install --quiet --upgrade pip  # an old one takes twice as long for the rest

# Stamps: an environment is made again when what it depends on changes. `dev` holds all that `lab` holds.
$(VENV)/lab.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[lab,hub]"
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[dev]"
	@touch $@ $(VENV)/lab.stamp

lab: $(VENV)/lab.stamp
	$(BIN)/moe-lab lab $(LAB_OPTIONS) "$(FOLDER)"

check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/check-jsonschema --check-metaschema papers/moe_lab_papers/claims.schema.json

# Style and types are checked beside the tests, and all run to their end, so that one call shows all there is to mend.
test: $(VENV)/dev.stamp
	@$(MAKE) --no-print-directory check > $(VENV)/check.txt 2>&1 & checking=$$!; \
	tested=0; $(BIN)/python -m tools.tests $(PYTEST_OPTIONS) || tested=$$?; \
	checked=0; wait $$checking || checked=$$?; cat $(VENV)/check.txt; \
	exit $$(( checked ? checked : tested ))

test-fast: $(VENV)/dev.stamp
	$(BIN)/python -m tools.tests --fast $(PYTEST_OPTIONS)

bench: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks

notebooks: $(VENV)/dev.stamp
	$(BIN)/python -m tools.notebooks

badges: $(VENV)/dev.stamp
	$(BIN)/python -m tools.badges $(if $(REPO),--repo "$(REPO)") $(if $(REF),--ref "$(REF)")

animation: $(VENV)/dev.stamp
	$(BIN)/python -m tools.animation

site: $(VENV)/dev.stamp
	$(BIN)/python -m tools.site $(if $(RESULTS),--results "$(RESULTS)")

clean:
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache
