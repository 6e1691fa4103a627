# gpuscale. `make help` lists the targets; README tells which two you need.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# NVIDIA's go-dcgm is not in the public checksum database; go.sum pins it.
export GONOSUMDB := github.com/NVIDIA/go-dcgm
# The version comes from the linker flags below, not from what go finds in git.
GOFLAGS ?= -buildvcs=false
export GOFLAGS

CACHE    := $(CURDIR)/.cache
BIN      := $(CACHE)/bin
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT   := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS  := -X github.com/gpuscale/gpuscale/internal/buildinfo.version=$(VERSION) -X github.com/gpuscale/gpuscale/internal/buildinfo.commit=$(COMMIT)
PROGRAMS := exporter adapter autoscaler report
GENERATED := docs/metrics.md docs/reasons.md docs/doctor.md docs/signals.md deploy/crds/gpuscale.io_gpunodepools.yaml deploy/crds/gpuscale.io_gpuquotas.yaml autoscaler/api/v1alpha1/zz_generated.deepcopy.go $(wildcard dashboards/json/*.json) dashboards/alerts/gpuscale-alerts.yaml $(shell find deploy/chart/gpuscale/files deploy/chart/gpuscale/README.md deploy/chart/gpuscale/values.schema.json -type f 2>/dev/null)
ARGS     ?=
FUZZTIME ?= 20s

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: tools
tools:
	@missing=; for t in go gcc git; do command -v $$t >/dev/null 2>&1 || missing="$$missing $$t"; done; \
	if [ -n "$$missing" ]; then \
	  echo "missing:$$missing. gpuscale builds with Go 1.26 or newer, gcc, make and git and nothing else;" >&2; \
	  echo "on Debian or Ubuntu gcc and git come with: apt-get install gcc libc6-dev git" >&2; \
	  echo "Go comes from your package manager or the Go project's own downloads." >&2; exit 1; fi
	@have=$$(go env GOVERSION 2>&1) || true; case "$$have" in \
	  go1.?|go1.?.*|go1.1?|go1.1?.*|go1.2[0-5]|go1.2[0-5].*|*'go: '*) \
	    echo "Go here is too old: gpuscale needs 1.26 or newer, this is: $$have" >&2; exit 1;; esac

.PHONY: build
build: tools ## Build the programs into .cache/bin.
	@mkdir -p $(BIN)
	@for p in $(PROGRAMS) sandbox dashboards; do \
	  echo "building gpuscale-$$p"; \
	  go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/gpuscale-$$p ./$$p; done

# The first step needs nothing but Go itself, and tells in plain words what is
# wrong with everything after it.
.PHONY: sandbox
sandbox: tools
	@mkdir -p $(BIN)
	@go build -o $(BIN)/bootstrap ./sandbox/build/bootstrap || { \
	  echo "go cannot compile even its own library: what it says above is the reason (its cache: $$(go env GOCACHE), temporary files: $${TMPDIR:-/tmp})" >&2; exit 1; }
	@$(BIN)/bootstrap -o $(BIN)/gpuscale-sandbox -ldflags '$(LDFLAGS)'

.PHONY: prepare
prepare: sandbox
	@$(BIN)/gpuscale-sandbox build

.PHONY: demo
demo: prepare ## Run the whole loop on this machine; ARGS="--keep --trace FILE --speed N".
	@$(BIN)/gpuscale-sandbox demo $(ARGS)

.PHONY: test
test: verify prepare chart-tools lint-rules ## Everything CI runs: verify, then all tests with the race detector.
	@echo "running the tests (race detector on, order shuffled)"
	go test -race -shuffle=on -timeout 30m $$(go list ./... | grep -v /sandbox/e2e)
	@echo "playing the stories on the real control plane (by themselves: they keep time)"
	go test -race -timeout 30m ./sandbox/e2e

.PHONY: never-lie
never-lie: prepare ## Write docs/never-lie.md again: what HPAs do when Prometheus lies, through us and v0.12.0.
	go test -timeout 30m -run 'TestNeverLie$$' ./sandbox/e2e -update

.PHONY: crash-story
crash-story: prepare ## Write docs/crash-story.md again: the autoscaler killed at each of its writes.
	go test -timeout 90m -run 'TestCrashStory$$' ./sandbox/crashstory -all -update

.PHONY: short
short: tools ## The tests that need no control plane.
	go test -short ./...

.PHONY: verify
verify: sandbox ## Formatting, vet, floors, generated files and known vulnerabilities.
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):" >&2; echo "$$unformatted" >&2; exit 1; fi
	go vet ./...
	go test ./internal/floors
	@before=$$(sha256sum $(GENERATED) 2>&1); $(MAKE) --no-print-directory generate; after=$$(sha256sum $(GENERATED)); \
	if [ "$$before" != "$$after" ]; then \
	  echo "generated files were out of date and have been written again; commit them:" >&2; \
	  diff <(echo "$$before") <(echo "$$after") >&2 || true; exit 1; fi
	@$(MAKE) --no-print-directory vuln

.PHONY: generate
generate: tools ## Write the generated files again.
	@go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd paths=./autoscaler/api/... output:crd:dir=deploy/crds
	@go run ./internal/gendocs
	@go run ./dashboards generate
	@go run ./dashboards alerts --out dashboards/alerts/gpuscale-alerts.yaml
	@$(MAKE) --no-print-directory chart-generate

.PHONY: pictures
pictures: tools ## Draw the boards for docs/img again, over the recorded states.
	go test -run 'TestPictures$$' ./dashboards/preview -update

.PHONY: lint
lint: tools ## golangci-lint with the house's rules (built on first use).
	@mkdir -p $(CACHE)/tools
	@test -x $(CACHE)/tools/golangci-lint || GOBIN=$(CACHE)/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
	$(CACHE)/tools/golangci-lint run ./...

.PHONY: lint-rules
lint-rules: tools ## pint over the recording rules and the alerts (built on first use).
	@mkdir -p $(CACHE)/tools $(CACHE)/pint
	@test -x $(CACHE)/tools/pint || { cd $(CACHE)/pint && go mod download github.com/cloudflare/pint@v0.80.0 && \
	  cd $$(go env GOMODCACHE)/github.com/cloudflare/pint@v0.80.0 && go build -o $(CACHE)/tools/pint ./cmd/pint; }
	$(CACHE)/tools/pint --offline --config dashboards/alerts/pint.hcl lint --min-severity info --fail-on info dashboards/rules/gpuscale-recording.yaml dashboards/alerts/gpuscale-alerts.yaml

.PHONY: fuzz
# Minimizing an input takes up to a minute unless told, during which nothing is
# tried: parsers that iterate over maps would spend all their time on it.
fuzz: tools ## Run every fuzz test for FUZZTIME each.
	@grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
	  grep -ho '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | sed 's/func //' | while read -r f; do \
	    echo "$$dir $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$dir; done; done

.PHONY: bench
bench: tools ## Run the benchmarks.
	go test -run '^$$' -bench . -benchmem ./gpu/... ./plan/... ./exporter/... ./adapter/... ./autoscaler/observe/...

.PHONY: image
image: tools ## OCI images into dist/images, without Docker; IMAGE_BASE=DIR (an OCI layout with glibc) for exporter and agent.
	@go run ./internal/release image $(SNAPSHOT) -version '$(RELEASE)' -arch '$(ARCHES)' -base '$(IMAGE_BASE)' -only '$(ONLY)'

.PHONY: image-docker
image-docker: ## The images with a Docker engine, for this machine's platform; the base is pulled.
	@docker info >/dev/null 2>&1 || { echo "make image-docker needs a running Docker engine; make image needs none" >&2; exit 1; }
	@for p in $(PROGRAMS) agent; do \
	  case $$p in exporter|agent) target=glibc;; *) target=static;; esac; \
	  docker build -f deploy/images/Dockerfile --target $$target --build-arg PROGRAM=$$p --build-arg VERSION='$(RELEASE)' --build-arg COMMIT=$(COMMIT) -t gpuscale-$$p:'$(RELEASE)' .; done

.PHONY: sbom
sbom: tools ## Archives and CycloneDX SBOMs of uncommitted work into dist/, for this machine's platform.
	@go run ./internal/release make -snapshot -version '$(RELEASE)' -arch $$(go env GOARCH) -only '$(ONLY)' -govulncheck $(CACHE)/tools/govulncheck

.PHONY: vuln
vuln: tools ## govulncheck over the programs; GOVULNDB=file:///DIR names a mirror, VULNFLAGS=-require fails where it could not look.
	@go run ./internal/release vuln -govulncheck $(CACHE)/tools/govulncheck $(VULNFLAGS) $(addprefix ./,$(PROGRAMS))

# A release is of a commit: RELEASE=0.1.0 must have its section in CHANGELOG.md,
# and nothing may be uncommitted. SNAPSHOT=-snapshot tries it with what is there.
RELEASE    ?= $(if $(SNAPSHOT),0.0.0-snapshot)
SNAPSHOT   ?=
ARCHES     ?= amd64,arm64
IMAGE_BASE ?=
ONLY       ?=

.PHONY: release
release: tools ## Everything people download, into dist/: RELEASE=0.1.0, or SNAPSHOT=-snapshot.
	@go run ./internal/release make $(SNAPSHOT) -version '$(RELEASE)' -arch '$(ARCHES)' -only '$(ONLY)' -govulncheck $(CACHE)/tools/govulncheck $(if $(VULNERABLE),-vulnerable '$(VULNERABLE)')

# The exporter twice from nothing, images through a registry and run, the SBOM
# against CycloneDX's own schema, the chart through helm, govulncheck over a made-up database.
.PHONY: release-check
release-check: tools ## The tests of the release that compile the real programs; minutes.
	@mkdir -p $(CACHE)/tools
	@test -x $(CACHE)/tools/govulncheck || GOBIN=$(CACHE)/tools go install golang.org/x/vuln/cmd/govulncheck@v1.8.0
	@test -x $(CACHE)/tools/crane || GOBIN=$(CACHE)/tools go install github.com/google/go-containerregistry/cmd/crane@v0.22.1
	@go mod download github.com/CycloneDX/cyclonedx-go@v0.12.0
	GPUSCALE_RELEASE_TOOLS=$(CACHE)/tools GPUSCALE_GOVULNCHECK=$(CACHE)/tools/govulncheck \
	GPUSCALE_CYCLONEDX_SCHEMA="$$(go env GOMODCACHE)/github.com/!cyclone!d!x/cyclonedx-go@v0.12.0/schema" \
	  go test -count=1 -timeout 40m -v -run 'Real|Schema' ./internal/release/...

.PHONY: clean
clean: ## Remove what was built, the control plane included.
	rm -rf $(CACHE) dist

.PHONY: bench-exporter
bench-exporter: tools ## Measure the running exporter, scraped 200 times; ARGS="-soak 60s" for what grows.
	go run ./exporter/bench $(ARGS)

.PHONY: bench-adapter
bench-adapter: tools ## Measure the adapter under up to 5,000 HPAs beside prometheus-adapter; ARGS="-h" for more.
	go run ./adapter/bench $(ARGS)

.PHONY: bench-autoscaler
bench-autoscaler: tools ## Measure the autoscaler beside 1,000 full nodes on the real control plane; ARGS="-h" for more.
	go run ./autoscaler/bench $(ARGS)

.PHONY: report-browser
report-browser: tools ## Look at the capacity report's page in Chromium with axe-core (needs node, npm and chromium).
	@for t in node npm; do command -v $$t >/dev/null 2>&1 || { echo "make report-browser needs $$t; on Debian: apt-get install nodejs npm chromium" >&2; exit 1; }; done
	@cd report/browser && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	go test -count=1 -run 'TestBrowser$$' -v ./report

.PHONY: bench-report
bench-report: tools ## Measure a report of 30 days of 1,000 cards: from the answers on, and the whole program.
	go test -run '^$$' -bench 'ThirtyDays|Program/^1000_' -benchmem ./report

.PHONY: bench-agent
bench-agent: tools ## Measure the MIG agent beside eight cards of seven instances, a minute.
	go test -run '^$$' -bench Program -benchtime 1x ./autoscaler/partition/agent

# The chart's tests need Helm, kube-score and kubeconform; they take minutes to compile once.
.PHONY: chart-tools
chart-tools: tools
	@mkdir -p $(CACHE)/tools
	@test -x $(CACHE)/tools/helm || { echo "building helm (once)"; GOBIN=$(CACHE)/tools go install helm.sh/helm/v4/cmd/helm@v4.3.1; }
	@test -x $(CACHE)/tools/kube-score || { echo "building kube-score (once)"; GOBIN=$(CACHE)/tools go install github.com/zegl/kube-score/cmd/kube-score@v1.20.0; }
	@test -x $(CACHE)/tools/kubeconform || { echo "building kubeconform (once)"; GOBIN=$(CACHE)/tools go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0; }

.PHONY: chart-generate
chart-generate: tools
	@go run ./deploy/chart/gen

.PHONY: chart-test
chart-test: chart-tools prepare ## The Helm chart's tests: rendered, judged by the API server, installed.
	go test -timeout 20m ./deploy/chart/... ./sandbox/chart
