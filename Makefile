# informd's commands. `make demo` and `make test` need Go, gcc, make and git. They set up everything else themselves.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/bin
TOOLS := $(BIN)/tools
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The tools and their versions. Make builds each from its Go module, into bin/tools.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
BUF := github.com/bufbuild/buf/cmd/buf@v1.50.0
PROTOC_GEN_GO := google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
PROTOC_GEN_GO_GRPC := google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/informd
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o $(BIN)/informd ./cmd/informd

# What users install: for Linux, static, without symbols for a debugger. The same commit gives the
# same bytes, whatever the folder. TIME is the commit's.
ARCHS ?= amd64 arm64
COMMIT = $(shell git rev-parse HEAD 2>/dev/null)
TIME = $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
STATIC = CGO_ENABLED=0 GOOS=linux GOARCH=$* go build -trimpath -buildvcs=false

.PHONY: FORCE
$(BIN)/linux-%/informd: FORCE
	$(STATIC) -ldflags "-s -w -X main.version=$(VERSION)" -o $@ ./cmd/informd

.PHONY: release
RELEASE := $(BIN)/release
HOST = $(BIN)/linux-$(shell go env GOHOSTARCH)/informd
TAR = tar --sort=name --format=gnu --mtime=@$(TIME) --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX
# KEPT is what the archive has beside the program, without what tools install into examples/.
KEPT := README.md LICENSE CHANGELOG.md docs examples deploy/informd.service $(wildcard deploy/*.yaml) deploy/replicas
INSTALLED := --exclude=node_modules --exclude=__pycache__
release: $(HOST) $(ARCHS:%=$(BIN)/linux-%/informd) ## Make bin/release: an archive per architecture, and checksums
	rm -rf $(RELEASE)
	for arch in $(ARCHS); do \
		name=informd_$(VERSION)_linux_$$arch; to=$(RELEASE)/$$name; \
		mkdir -p $$to/completions; \
		cp $(BIN)/linux-$$arch/informd $$to; \
		tar -c $(INSTALLED) $(KEPT) | tar -x -C $$to; \
		($(IMAGE) go run . -notices $(BIN)/linux-$$arch/informd) >$$to/THIRD_PARTY_NOTICES; \
		for shell in bash zsh fish; do $(HOST) completion $$shell >$$to/completions/informd.$$shell; done; \
		$(TAR) -C $(RELEASE) -c $$name | gzip -n >$$to.tar.gz; \
		rm -r $$to; \
	done
	cd $(RELEASE) && sha256sum *.tar.gz | tee SHA256SUMS

.PHONY: image
image: image-informd image-informd-exec ## Make bin/image: OCI layouts of informd, and of informd-exec with sh, jq and kubectl

# deploy/image is a module of its own. It has the tool that writes layouts, jq and kubectl.
IMAGE := cd deploy/image && GOWORK=off
# The module's v0.37.2 is Kubernetes' v1.37.2.
KUBECTL = $(shell $(IMAGE) go list -m -f '{{.Version}}' k8s.io/kubectl | sed s/v0/v1/)
LAYOUT = rm -rf $(BIN)/image/$(1) && $(TOOLS)/image -o $(BIN)/image/$(1) -version $(VERSION) \
	-revision "$(COMMIT)" -time $(TIME) $(foreach arch,$(ARCHS),$(arch)=$(BIN)/$(2)-$(arch))

.PHONY: image-informd image-informd-exec
image-informd: $(TOOLS)/image $(ARCHS:%=$(BIN)/linux-%/informd)
	$(call LAYOUT,informd,linux)
image-informd-exec: $(TOOLS)/image $(foreach program,informd busybox jq kubectl,$(ARCHS:%=$(BIN)/exec-%/$(program)))
	$(call LAYOUT,informd-exec,exec)

$(TOOLS)/image: FORCE
	$(IMAGE) go build -o $@ .
$(BIN)/exec-%/informd: $(BIN)/linux-%/informd
	mkdir -p $(@D) && cp $< $@
$(BIN)/exec-%/jq: deploy/image/go.mod
	$(IMAGE) $(STATIC) -ldflags "-s -w" -o $@ github.com/itchyny/gojq/cmd/gojq
$(BIN)/exec-%/kubectl: deploy/image/go.mod $(wildcard deploy/image/kubectl/*.go)
	$(IMAGE) $(STATIC) -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(KUBECTL)" -o $@ ./kubectl
$(BIN)/exec-%/busybox:
	deploy/image/busybox $* $@

.PHONY: controlplane
controlplane: $(BIN)/controlplane ## Build bin/controlplane: kube-apiserver and etcd in one binary, for the demo and the tests

$(BIN)/controlplane: $(wildcard integration/controlplane/*.go) integration/controlplane/go.mod integration/controlplane/go.sum
	@echo "building the control plane, step 1 of 2: downloading what it needs"
	@cd integration/controlplane && GOWORK=off CGO_ENABLED=0 go list -deps . >/dev/null
	@echo "building the control plane, step 2 of 2: compiling, some minutes the first time"
	cd integration/controlplane && GOWORK=off CGO_ENABLED=0 go build -trimpath -ldflags=-s -o $@ .

.PHONY: demo
demo: build controlplane ## Start a control plane and informd on the examples, change things, show what comes of it
	go run ./integration/demo

.PHONY: run
run: build ## Run informd on examples/rules against the cluster of the current kubeconfig
	$(BIN)/informd run -f examples/rules

# `make test` runs one command at a time, with two packages each: more would starve each other, and
# many tests are about limits of seconds. Packages that start goroutines run with the race detector.
# The others have nothing for it to find, and it would take most of the time. The tests that drive
# informd do without, too: the informd that they start has it (integration/harness). engine/state runs
# both ways, as its largest tests take forty times as long with it. `make check` vets, so no test
# command does. By default, a program with the race detector sleeps a second when it exits. The race
# detector does not look into what only computes and shares nothing: go-plugin makes a certificate for
# each process. The time limit is for what hangs; a slow machine needs a third of it.
TEST := GORACE=atexit_sleep_ms=0 go test -vet=off -timeout 45m
RACED := $(addprefix ./engine/,. acting action dispatch measure queue replica source state state/disk state/log trail) \
	$(addprefix ./plugins/,host host/cache host/outbox host/output host/process host/remote host/session \
	host/shim serve builtin/exec builtin/log builtin/webhook) ./cmd/informd/control ./cmd/informd/daemon
RACE := -race $(foreach package,crypto/internal/fips140/... compress/flate regexp/...,-gcflags=$(package)=-race=false)
PLAIN = $$(go list work | grep -vxF "$$(go list $(RACED))")

.PHONY: test test-plain test-raced test-modules
test: ## Run every test, against a real control plane: twenty minutes on two cores
	+@$(MAKE) --no-print-directory -j 1 -k test-plain test-raced test-modules

test-plain: controlplane
	CGO_ENABLED=0 $(TEST) -trimpath -p 2 -parallel 5 ./integration/e2e ./integration/bench $(PLAIN) ./engine/state
test-raced:
	$(TEST) $(RACE) -short -p 2 -parallel 5 ./plugins/host $(RACED)
test-modules: controlplane
	cd integration/controlplane && GOWORK=off CGO_ENABLED=0 $(TEST) -trimpath ./...
	$(IMAGE) CGO_ENABLED=0 $(TEST) -trimpath .

.PHONY: quick
quick: ## Run what needs no control plane and is done in a minute, for the time between two edits
	$(TEST) -short -p 4 $$(go list work | grep -vE '/integration/|/informd(/cmd/informd|/engine|/engine/source|/plugins/host)$$')

.PHONY: schemas
schemas: ## Download Kubernetes' OpenAPI documents and write the built-in schemas
	go generate ./cmd/informd/schemas

.PHONY: corpus
corpus: ## Check that real CustomResourceDefinitions and their samples give no false alarm; downloads 500 MB
	INFORMD_CORPUS=1 go test ./cmd/informd/schemas -run TestCorpus -v

# SOAK are the tests that `make test` runs in a short form, or not at all.
SOAK := TestSoak|TestBacklog|TestDamage|TestStartOnSickDisk|TestCrashingNeighbours|TestLoad|UnderLoad
SOAK := $(SOAK)|TestRun$$|TestTimeOverKills|TestDifferential|TestHostileInput|TestCrashLeavesACut|TestSimulator|AgainstSimulator
SOAK := $(SOAK)|TestCrashesOfTargets|TestManyTargets|TestKilledWhileATargetIsHandedOver|OwnersAfterALostState|OwnersOverRestarts|HandTargetsOver
SOAK := $(SOAK)|TestReplicasUnderFaults

.PHONY: soak
soak: controlplane ## Crash, fill and damage for an hour; SEED=N repeats one that failed
	INFORMD_SOAK=1 INFORMD_SEED=$(SEED) go test -p 1 -timeout 3h -v -run '$(SOAK)' \
		./integration/e2e ./integration/bench ./plugins/host ./engine/source ./engine/state ./config

.PHONY: bench
bench: build controlplane ## Measure informd beside a stock informer, in half an hour; writes docs/benchmarks.md
	go run ./integration/bench

.PHONY: bench-full
bench-full: build controlplane ## The same with curves over objects, rules, handlers and rates, in more than an hour
	go run ./integration/bench -full

.PHONY: check
check: $(TOOLS)/staticcheck ## Check formatting, vet, staticcheck and that generated code is up to date
	@unformatted=$$(git ls-files '*.go' | xargs gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted; run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet work
	cd integration/controlplane && GOWORK=off CGO_ENABLED=0 go vet ./...
	$(IMAGE) go vet .
	$(TOOLS)/staticcheck work
	.ci/tidy -diff
	@if ! { $(SUMS); } | diff - $(CURDIR)/$(GENERATED)/sums; then \
	echo "generated code is out of date; run make generate and commit it"; exit 1; fi

# SUMS prints the sums of what buf read and wrote, and the tools' versions. `make generate` keeps that as the file sums,
# so a check builds and runs no tools.
GENERATED := plugins/handlerpb
SUMS := cd $(GENERATED) && sha256sum *.proto buf*.yaml *.pb.go && \
	printf '%s\n' $(BUF) $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC)

.PHONY: tidy
tidy: ## Run go mod tidy on the modules of go.work
	.ci/tidy

.PHONY: generate
generate: $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## Generate Go code from the .proto files
	cd $(GENERATED) && PATH=$(TOOLS):$$PATH buf lint && PATH=$(TOOLS):$$PATH buf generate
	{ $(SUMS); } >$(CURDIR)/$(GENERATED)/sums

$(TOOLS)/staticcheck:
	GOBIN=$(TOOLS) go install $(STATICCHECK)
$(TOOLS)/buf:
	GOBIN=$(TOOLS) go install $(BUF)
$(TOOLS)/protoc-gen-go:
	GOBIN=$(TOOLS) go install $(PROTOC_GEN_GO)
$(TOOLS)/protoc-gen-go-grpc:
	GOBIN=$(TOOLS) go install $(PROTOC_GEN_GO_GRPC)

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN)
