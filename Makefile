# gpuscale. `make help` lists the targets; CONTRIBUTING.md names the two you need.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The public checksum database lacks NVIDIA's go-dcgm; go.sum pins it.
export GONOSUMDB := github.com/NVIDIA/go-dcgm
# The version comes from the linker flags below, not from git. Without folder
# names in the objects, all checkouts share one build cache.
GOFLAGS ?= -buildvcs=false -trimpath
export GOFLAGS

CACHE    := $(CURDIR)/.cache
BIN      := $(CACHE)/bin
TOOLS    := $(CACHE)/tools
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT   := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS  := -X github.com/gpuscale/gpuscale/internal/buildinfo.version=$(VERSION) -X github.com/gpuscale/gpuscale/internal/buildinfo.commit=$(COMMIT)
PROGRAMS := exporter adapter autoscaler agent report
GENERATED := docs/metrics.md docs/reasons.md docs/doctor.md docs/signals.md deploy/chart/gpuscale/files/crds/gpuscale.io_gpunodepools.yaml deploy/chart/gpuscale/files/crds/gpuscale.io_gpuquotas.yaml autoscaler/api/v1alpha1/zz_generated.deepcopy.go $(wildcard deploy/chart/gpuscale/files/dashboards/*.json) deploy/chart/gpuscale/files/recording.yaml dashboards/alerts/gpuscale-alerts.yaml $(addprefix deploy/chart/gpuscale/,files/alerts.yaml README.md)
ARGS     ?=
FUZZTIME ?= 20s

# Tools are Go modules at these versions. The target tool-NAME builds one into
# .cache/tools, once for each version; go holds it against the checksum database.
TOOL_actionlint    := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
TOOL_golangci-lint := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
TOOL_goreleaser    := github.com/goreleaser/goreleaser/v2@v2.15.4
TOOL_govulncheck   := golang.org/x/vuln/cmd/govulncheck@v1.9.0
TOOL_helm          := helm.sh/helm/v4/cmd/helm@v4.3.1
TOOL_helm-docs     := github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2
TOOL_kube-score    := github.com/zegl/kube-score/cmd/kube-score@v1.20.0
TOOL_syft          := github.com/anchore/syft/cmd/syft@v1.52.0
PINT               := github.com/cloudflare/pint@v0.80.0

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

tool-%: tools
	@mkdir -p $(TOOLS); want='$(TOOL_$*)'; \
	go version -m $(TOOLS)/$* 2>/dev/null | grep -Eq "^[[:space:]]+mod.*[[:space:]]$${want##*@}([[:space:]]|$$)" || { \
	  echo "building $* $${want##*@} (once)"; GOBIN=$(TOOLS) go install $$want; }

.PHONY: build
build: tools ## Build the programs into .cache/bin; ONLY="report adapter" builds these.
	@mkdir -p $(BIN)
	@for p in $(or $(ONLY),$(PROGRAMS) dashboards); do \
	  case " $(PROGRAMS) dashboards " in *" $$p "*) ;; *) echo "ONLY: there is no program $$p; there are $(PROGRAMS) dashboards" >&2; exit 1;; esac; \
	  echo "building gpuscale-$$p"; \
	  go build -ldflags '$(LDFLAGS)' -o $(BIN)/gpuscale-$$p ./$$p; done
	@ln -sf gpuscale-report $(BIN)/kubectl-gpuscale

.PHONY: sandbox
sandbox: tools
	@mkdir -p $(BIN); test -x $(BIN)/gpuscale-sandbox || echo "compiling the sandbox, which takes minutes the first time"
	@go build -ldflags '-s -w $(LDFLAGS)' -o $(BIN)/gpuscale-sandbox ./sandbox || { \
	  echo "the first time this needs the network or a module mirror (GOPROXY, HTTPS_PROXY), 3 GiB of disk (GOCACHE, TMPDIR) and 3 GiB of memory (less with GOMAXPROCS=1)" >&2; exit 1; }

.PHONY: prepare
prepare: sandbox
	@$(BIN)/gpuscale-sandbox build

.PHONY: demo
demo: prepare ## Run the whole loop on this machine; ARGS="--keep --trace FILE --speed N".
	@$(BIN)/gpuscale-sandbox demo $(ARGS)

# The recording in README.md: a run of the demo, of which svg-term draws a part (milliseconds).
FROM ?= 45000
TO   ?= 105000
.PHONY: demo-recording
demo-recording: prepare ## Record the demo for README.md (needs asciinema, node and npm); FROM and TO are milliseconds of the run.
	@for t in asciinema npx; do command -v $$t >/dev/null 2>&1 || { echo "make demo-recording needs $$t; on Debian: apt-get install asciinema nodejs npm" >&2; exit 1; }; done
	asciinema rec --overwrite --cols 108 --rows 30 --command "$(MAKE) --no-print-directory demo" $(CACHE)/demo.cast
	npx --yes svg-term-cli@2.1.1 --in $(CACHE)/demo.cast --out docs/img/demo.svg --window --no-cursor --from $(FROM) --to $(TO)

# RACY are the packages that start goroutines or share memory between them, but for those
# that UNRACED matches: dashboards/states and what in sandbox plays the world around our
# programs. These run all of it, and the programs' own packages look for races. make
# test-all leaves none out.
UNRACED ?= /dashboards/states|/sandbox/
RACY  = $$(go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r pkg dir; do \
	  if find $$dir -maxdepth 1 -name '*.go' ! -name '*_test.go' -exec cat {} + | grep -cE '^[[:space:]]*go [a-zA-Z(]|"(sync/atomic|golang.org/x/sync/errgroup)"|sync\.(Mutex|RWMutex|WaitGroup|Map|Cond|Pool)' >/dev/null; then echo $$pkg; fi; done | grep -vE '$(UNRACED)|/sandbox/e2e' | sort)
# The stories of sandbox/e2e keep real time: they are first on the processors. What they
# test are processes, which no race detector of theirs sees into.
STORY = ./sandbox/e2e
TIMES = $(CACHE)/test
TESTFLAGS ?= -timeout 20m
# SLOWEST prints the ten slowest packages of TIMES, then ends the recipe with rc.
SLOWEST = echo "the slowest packages (seconds):"; cat $(TIMES)-*.log | awk '$$1 == "ok" || $$1 == "FAIL" {if (sub(/s$$/, "", $$3)) print $$3, $$2}' | sort -rn | sed -n 1,10p; exit $$rc

# Memory for processor time, of control planes and tests: a seventh less of it in sandbox/guardrails.
test test-all: export GOGC := 400
test test-all: export GOMEMLIMIT := 2GiB

.PHONY: test
test: verify prepare ## verify, then the tests: what CI runs. Fixed seeds; the race detector where there are goroutines.
	@rm -f $(TIMES)-*.log; rc=0; $(MAKE) --no-print-directory --keep-going --jobs=2 test-stories test-packages || rc=1; $(SLOWEST)

.PHONY: test-all
test-all: export GPUSCALE_TEST_ALL := 1
test-all: export UNRACED := ^$$
test-all: export TESTFLAGS := -count=1 -shuffle=on -timeout 60m
test-all: verify prepare chart-tools lint-rules ## All faults and stories: fresh seeds, shuffled, chart, docs, a minute of each fuzz test.
	@rm -f $(TIMES)-*.log; rc=0; \
	$(MAKE) --no-print-directory --keep-going --jobs=2 test-stories test-packages || rc=1; \
	$(MAKE) --no-print-directory --keep-going fuzz FUZZTIME=1m || rc=1; $(SLOWEST)

# verify has vetted, prepare has compiled the programs. Three packages at a time: many wait
# for their control plane.
.PHONY: test-stories test-packages
test-stories test-packages: export GPUSCALE_PREPARED := 1
test-stories:
	@go test -vet=off $(TESTFLAGS) $(STORY) | tee $(TIMES)-stories.log
test-packages:
	@racy=$(RACY); quiet=$$(comm -23 <(go list ./... | grep -v /sandbox/e2e | sort) <(printf '%s\n' "$$racy")); rc=0; \
	nice go test -vet=off $(TESTFLAGS) -p 3 $$quiet | tee $(TIMES)-quiet.log || rc=1; \
	nice go test -vet=off -race $(TESTFLAGS) -p 3 $$racy | tee $(TIMES)-racy.log || rc=1; exit $$rc

.PHONY: test-node
test-node: export GPUSCALE_TEST_NODE := 1
test-node: prepare tool-helm ## A real node (kubelet, containerd, runc, kube-proxy) and NVIDIA's own programs. Needs root; skips, with the reason, where something is missing.
	go test -count=1 -v -timeout 30m ./sandbox/node/... ./internal/fakenvml

.PHONY: test-neighbours
test-neighbours: export GPUSCALE_TEST_NEIGHBOURS := 1
test-neighbours: prepare tool-helm ## Our chart beside other projects' own programs, compiled the first time: VictoriaMetrics, Karpenter and others.
	go test -count=1 -v -timeout 90m -run 'TestNeighbour' ./sandbox/chart ./sandbox/guardrails

.PHONY: short
short: tools ## The tests that need no control plane.
	go test -short ./...

.PHONY: verify
verify: sandbox lint lint-workflows ## Formatting, vet, layers, go.mod, generated files, linters, workflows, known vulnerabilities.
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):" >&2; echo "$$unformatted" >&2; exit 1; fi
	go mod tidy -diff
	@# cgocall reads the file that the cached object names: with -trimpath that may be another checkout's, and gone.
	go vet -cgocall=false ./...
	go test -count=1 ./internal/layers
	@before=$$(sha256sum $(GENERATED) 2>&1); $(MAKE) --no-print-directory generate; after=$$(sha256sum $(GENERATED)); \
	if [ "$$before" != "$$after" ]; then \
	  echo "generated files were out of date and have been written again; commit them:" >&2; \
	  diff <(echo "$$before") <(echo "$$after") >&2 || true; exit 1; fi
	@$(MAKE) --no-print-directory vuln

.PHONY: generate
generate: tools ## Write the generated files again.
	@go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd paths=./autoscaler/api/... output:crd:dir=deploy/chart/gpuscale/files/crds
	@go run ./internal/gendocs
	@go run ./dashboards generate
	@$(MAKE) --no-print-directory chart-generate

.PHONY: lint
lint: tool-golangci-lint ## golangci-lint with the linters of .golangci.yml.
	$(TOOLS)/golangci-lint run --concurrency 2

.PHONY: lint-rules
lint-rules: tools ## pint over the recording rules and the alerts.
	@mkdir -p $(TOOLS) $(CACHE)/pint
	@test -x $(TOOLS)/pint || { echo "building pint (once)"; cd $(CACHE)/pint && go mod download $(PINT) && \
	  cd $$(go env GOMODCACHE)/$(PINT) && go build -o $(TOOLS)/pint ./cmd/pint; }
	$(TOOLS)/pint --offline --config dashboards/alerts/pint.hcl lint --min-severity info --fail-on info deploy/chart/gpuscale/files/recording.yaml dashboards/alerts/gpuscale-alerts.yaml

.PHONY: lint-workflows
lint-workflows: tool-actionlint ## actionlint over .github/workflows.
	$(TOOLS)/actionlint

.PHONY: lint-release
lint-release: tool-goreleaser ## goreleaser's check of .goreleaser.yaml.
	$(TOOLS)/goreleaser check

# govulncheck ends with 3 where it found something. Another failure, for instance
# a database that is not reached, means that nothing is known: VULN=require fails then.
.PHONY: vuln
VULN ?=
vuln: tool-govulncheck ## govulncheck over the programs; GOVULNDB=file:///DIR names a mirror, VULN=require fails where it could not look.
	@rc=0; said=$$($(TOOLS)/govulncheck $(if $(GOVULNDB),-db $(GOVULNDB)) $(addprefix ./,$(PROGRAMS)) 2>&1) || rc=$$?; \
	case $$rc in \
	  0) echo "vulnerabilities: none known";; \
	  3) echo "$$said"; echo "vulnerabilities: FOUND" >&2; exit 3;; \
	  *) echo "vulnerabilities: NOT CHECKED: $$(tail -n 1 <<<"$$said")"; test -z "$(VULN)";; esac

.PHONY: fuzz
# One worker each, as many tests at once as there are CPUs. Minimizing an input
# takes up to a minute by default, during which nothing is tried: parsers that
# iterate over maps would spend all their time on it. Before Go 1.27 a test whose time is
# over may fail with "context deadline exceeded" (golang/go#75804): that one runs again.
fuzz: tools ## Run every fuzz test for FUZZTIME each.
	@grep -r --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' . | sed -E 's,/[^/]*:func , ,' | sort | \
	  nice xargs -P $$(nproc 2>/dev/null || echo 2) -L 1 bash -c 'once() { out=$$(go test -run "^$$" -parallel 1 -fuzz "^$$2\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$1 2>&1); }; \
	    once $$0 $$1; rc=$$?; if ((rc)) && grep -q "^ *context deadline exceeded$$" <<<"$$out"; then once $$0 $$1; rc=$$?; fi; \
	    echo "$$0 $$1: $$(tail -n $$((rc ? 40 : 1)) <<<"$$out")"; exit $$rc'

.PHONY: crash-story
crash-story: export GPUSCALE_TEST_ALL := 1
crash-story: ## Play docs/internals/crash-story.md: the autoscaler killed at each of its writes.
	go test -count=1 -v -timeout 30m ./sandbox/crashstory

.PHONY: never-lie
never-lie: export GPUSCALE_TEST_ALL := 1
never-lie: prepare ## Print the table of docs/internals/never-lie.md: what HPAs do when Prometheus' data are wrong, through us and v0.12.0.
	go test -count=1 -v -timeout 30m -run 'TestNeverLie$$' ./sandbox/e2e

.PHONY: pictures
pictures: tools ## Draw the boards for docs/img again, over the recorded states.
	go test -run 'TestPictures$$' ./dashboards/states -update

.PHONY: chart-tools
chart-tools: tool-helm tool-kube-score

.PHONY: chart-generate
chart-generate: tool-helm-docs
	@$(TOOLS)/helm-docs --log-level warning --chart-search-root deploy/chart --sort-values-order file

.PHONY: chart-test
chart-test: export GPUSCALE_TEST_ALL := 1
chart-test: chart-tools prepare ## The Helm chart's tests: rendered, judged by the API server, installed.
	go test -timeout 20m ./deploy/chart/... ./sandbox/chart

.PHONY: bench
bench: tools ## Run the benchmarks.
	go test -run '^$$' -bench . -benchmem ./gpu/... ./plan/... ./adapter/... ./dashboards/rules ./sandbox/world/model

.PHONY: bench-exporter
bench-exporter: tools ## Measure the running exporter on the fake of DCGM, and on NVIDIA's own where it is installed.
	go test -run '^$$' -bench Scrape -benchtime 2000x ./exporter

.PHONY: bench-adapter
bench-adapter: prepare ## Measure the adapter under up to 5,000 HPAs beside prometheus-adapter, on the real control plane.
	GPUSCALE_TEST_ALL=1 go test -count=1 -v -timeout 30m -run "^TestLoad$$" ./sandbox/e2e

.PHONY: bench-autoscaler
bench-autoscaler: prepare ## Measure the autoscaler beside 1,000 full nodes on the real control plane; ARGS="-nodes 100 -pods 20 -idle 10s".
	go test -run '^$$' -bench Autoscaler -benchtime 1x -timeout 1h ./sandbox/bench -args $(ARGS)

.PHONY: bench-report
bench-report: tools ## Measure the program for a report of 30 days of 1,000 GPUs.
	go test -run '^$$' -bench 'Program/^1000_' ./report

.PHONY: bench-agent
bench-agent: tools ## Measure the MIG agent beside eight GPUs of seven instances, a minute.
	go test -run '^$$' -bench Program -benchtime 1x ./agent

.PHONY: report-browser
report-browser: tools ## Look at the capacity report's page in Chromium with axe-core (needs node, npm and chromium).
	@for t in node npm; do command -v $$t >/dev/null 2>&1 || { echo "make report-browser needs $$t; on Debian: apt-get install nodejs npm chromium" >&2; exit 1; }; done
	@cd report/browser && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	go test -count=1 -run 'TestBrowser$$' -v ./report

# Releases. goreleaser compiles, packs, writes SBOMs (syft) and publishes.

CROSS = $(if $(filter amd64,$(shell go env GOARCH)),aarch64-linux-gnu-gcc,x86_64-linux-gnu-gcc)
RELEASE_NOTES := $(CACHE)/release/NOTES.md

.PHONY: release-tools
release-tools: tool-goreleaser tool-syft tool-helm
	@command -v $(CROSS) >/dev/null 2>&1 || { \
	  echo "exporter and agent for the other platform need $(CROSS); on Debian: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross, on arm64 gcc-x86-64-linux-gnu libc6-dev-amd64-cross" >&2; exit 1; }

.PHONY: engine
engine:
	@docker buildx version >/dev/null 2>&1 && docker info >/dev/null 2>&1 || { \
	  echo "images need a running Docker engine with buildx" >&2; exit 1; }

# A tag may be another image tomorrow: what a release stands on is named by digest.
.PHONY: bases
bases:
	@for name in GO_BASE GLIBC_BASE; do case "$$(printenv $$name)" in *@sha256:*) ;; *) \
	  echo "$$name is not named by digest: docker buildx imagetools inspect $$(sed -n "s/^ARG $$name=//p" deploy/images/Dockerfile) shows it; then $$name=IMAGE@sha256:..." >&2; exit 1;; esac; done

# The chart's values that name a release's images by digest.
.PHONY: image-digests
DIST ?= dist
image-digests:
	@test -s $(DIST)/digests.txt || { echo "$(DIST)/digests.txt has no image: goreleaser writes it when images are pushed" >&2; exit 1; }
	@awk '{n = split($$2, path, "/"); sub(/^gpuscale-/, "", path[n]); sub(/:.*/, "", path[n]); printf "%s:\n  image: {digest: \"sha256:%s\"}\n", path[n], $$1}' \
	  $(DIST)/digests.txt >$(DIST)/gpuscale-images-$(VERSION).yaml

.PHONY: release
release: bases release-tools engine ## Publish the tag at HEAD: archives, SBOMs, chart, images. Needs a Docker engine, REGISTRY and GITHUB_TOKEN.
	@test -n "$${REGISTRY:-}" || { echo "REGISTRY=registry.example/gpuscale is missing: images are pushed there" >&2; exit 1; }
	@test -n "$${GITHUB_TOKEN:-}" || { echo "GITHUB_TOKEN is missing: the release is drafted with it" >&2; exit 1; }
	@tag=$$(git describe --exact-match --match 'v*' 2>/dev/null) || { echo "HEAD has no tag v1.2.3" >&2; exit 1; }; \
	$(MAKE) --no-print-directory vuln VULN=require; \
	$(MAKE) --no-print-directory release-notes VERSION=$${tag#v}; \
	PATH=$(TOOLS):$$PATH $(TOOLS)/goreleaser release --clean --release-notes $(RELEASE_NOTES); \
	$(MAKE) --no-print-directory image-digests VERSION=$${tag#v}

.PHONY: snapshot
snapshot: release-tools ## Everything of a release but images, from what is here, into dist/.
	@$(MAKE) --no-print-directory release-notes VERSION=Unreleased
	PATH=$(TOOLS):$$PATH $(TOOLS)/goreleaser release --snapshot --clean --skip=docker --release-notes $(RELEASE_NOTES)

.PHONY: image
PROGRAM ?= adapter
image: engine ## The image of PROGRAM (exporter, adapter, autoscaler, agent, report) for this machine, or PLATFORM=linux/amd64. Needs a Docker engine.
	@case " $(PROGRAMS) " in *" $(or $(PROGRAM),none) "*) ;; *) echo "PROGRAM: set one of $(PROGRAMS), as in make image PROGRAM=exporter VERSION=devel" >&2; exit 1;; esac
	docker buildx build -f deploy/images/Dockerfile --load $(if $(PLATFORM),--platform $(PLATFORM)) --target $(if $(filter exporter agent,$(PROGRAM)),glibc,static) \
	  --build-arg PROGRAM=$(PROGRAM) --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) \
	  --label org.opencontainers.image.version=$(VERSION) --label org.opencontainers.image.revision=$(COMMIT) \
	  -t gpuscale-$(PROGRAM):$(VERSION) .

# release-notes takes the section of VERSION from CHANGELOG.md: "## 0.1.0 / 2026-11-22".
.PHONY: release-notes
release-notes:
	@mkdir -p $(dir $(RELEASE_NOTES))
	@awk -v want='$(VERSION)' '/^## / {on = $$2 == want; next} on' CHANGELOG.md >$(RELEASE_NOTES)
	@grep -q '^- \[' $(RELEASE_NOTES) || { echo "CHANGELOG.md has no entry below \"## $(VERSION)\"" >&2; exit 1; }

# release-files writes what goreleaser packs and does not make: the chart, the
# CRDs in one file, the licences of what the programs are made of.
.PHONY: release-files
release-files: tool-helm third-party
	@rm -f $(CACHE)/release/gpuscale-*
	@rm -rf $(CACHE)/release/chart && cp -r deploy/chart/gpuscale $(CACHE)/release/chart && sed -i 's|^  registry: ""|  registry: "'"$${REGISTRY:-}"'"|' $(CACHE)/release/chart/values.yaml
	@$(TOOLS)/helm package $(CACHE)/release/chart --version $(VERSION) --app-version $(VERSION) --destination $(CACHE)/release
	@awk 'FNR == 1 && !/^---/ {print "---"} {print}' deploy/chart/gpuscale/files/crds/*.yaml >$(CACHE)/release/gpuscale-crds-$(VERSION).yaml

.PHONY: third-party
third-party:
	@mkdir -p $(CACHE)/release
	@go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' $(addprefix ./,$(PROGRAMS)) | sort -u | \
	while read -r path version dir; do \
	  files=$$(find $$dir -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | sort); \
	  test -n "$$files" || { echo "$$path $$version has no licence" >&2; exit 1; }; \
	  echo "==== $$path $$version"; cat $$files; echo; done >$(CACHE)/release/THIRD-PARTY-LICENSES.txt

# The images' and users' Debian 12 has glibc 2.36.
.PHONY: glibc
glibc:
	@newest=$$(readelf -V $(FILE) | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n 1); \
	[ "$$(printf '%s\nGLIBC_2.36\n' $$newest | sort -V | tail -n 1)" = GLIBC_2.36 ] || { \
	  echo "$(FILE) needs $$newest and may need GLIBC_2.36 at most: link it on Debian 12" >&2; exit 1; }

.PHONY: clean
clean: ## Remove what was built, the control plane included.
	rm -rf $(CACHE) dist
