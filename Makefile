# tailbox. "make help" lists what can be made.

GO        ?= go
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT    ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# A build without a cache takes a quarter less of the processors where each compiler collects no garbage before it has so much memory, and
# writes no symbols for debuggers, which the linker leaves out anyway.
BUILDMEM  ?= 1500MiB
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# What runs concurrently, or is shared by what does: tested with the race detector.
ENGINE    := ./relay/... ./checkpoint/... ./router/... ./sink/... ./source/postgres/... ./source/mongo/... ./source/batches/... ./source/poll/... ./test/sim/...
# Of MySQL's source, all of which takes long with the race detector: what several goroutines take part in.
RACY_MYSQL := (TestSourceKit|TestStoreKit)/mysql/(ConcurrentWriters|Stop|EndedContext|EmitError|Confirm|Barrier|Progress|SafeMode|Cut|TakeOver|SecondRelay|LargeTransaction|Lock|Fence|FrozenHolder|PendingBesideWriters)
# Modules of their own, which are built against this checkout (each has a go.work for that). That of tools holds no package.
MODULES   := outbox/outboxgorm test/libraries deploy/release deploy/helm test/rivals
# Tests make and remove hundreds of databases; on a disk, the files of these cost more than the tests. A benchmark would measure the disk. So servers keep
# their data in memory where 8 GiB of it are free (at most 2 are used), else where temporary files are.
SERVERSDIR ?= $(shell free="$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $$4}')"; \
	[ "$${free:-0}" -ge 8388608 ] && [ -w /dev/shm ] && echo /dev/shm)
FUZZTIME  ?= 30s
ROWS      ?= 1000000
ROUNDS    ?= 3
SCHEDULES ?= 20000
# Tests that had no server; go test hides what a package that passes prints.
SKIPS     := $(CURDIR)/bin/skipped-tests
export TAILBOX_TEST_SKIPS = $(SKIPS)

.DEFAULT_GOAL := help
.PHONY: help build release release-test demo test race lint house e2e mutants bench rivals profile fuzz screenshots servers clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/tailbox, one static binary
	GOGC=off GOMEMLIMIT=$(BUILDMEM) CGO_ENABLED=0 $(GO) build -trimpath -gcflags=all=-dwarf=false -ldflags '$(LDFLAGS)' -o bin/tailbox ./cmd/tailbox

release: ## build archives, packages, the image and checksums into dist: make release VERSION=0.1.0
	cd deploy/release && $(GO) run . -version $(VERSION) -out $(CURDIR)/dist

release-test: servers ## build a release twice, install each of its forms, and have it deliver
	cd deploy/helm && $(GO) test -count=1 -timeout 30m -v -tags=release ./...
	cd deploy/release && $(GO) test -count=1 -timeout 60m -v -tags=release ./...

demo: build ## show it at work, in less than a minute, with no server and no config
	bin/tailbox demo

test race bench rivals: export TAILBOX_TEST_SERVERS_DIR = $(SERVERSDIR)

test: lint servers ## run all tests against real servers, the engine's with the race detector
	@rm -f $(SKIPS)
	$(GO) test -count=1 ./test
	$(GO) test -count=1 -timeout 30m $$($(GO) list ./... | grep -vxF "$$($(GO) list $(ENGINE))")
	@set -e; for module in $(MODULES); do echo "in $$module"; (cd $$module && $(GO) vet ./... && $(GO) test -count=1 -timeout 30m ./...); done
	$(GO) test -count=1 -timeout 30m -race $(ENGINE)
	$(GO) test -count=1 -timeout 30m -race -run '$(RACY_MYSQL)' ./source/mysql
	@if [ -s $(SKIPS) ]; then cat $(SKIPS); echo "SKIPPED $$(wc -l <$(SKIPS)) tests for want of a server"; fi

race: servers ## run all tests with the race detector
	$(GO) test -count=1 -timeout 60m -race ./...
	@set -e; for module in $(MODULES); do (cd $$module && $(GO) test -count=1 -timeout 60m -race ./...); done

# go tool builds it once and keeps it in the build cache; of what it found in a package, it keeps its own.
lint: ## go vet and the other checks of .golangci.yml
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

house: ## measure the source tree against the bounds that keep it readable
	$(GO) run ./test/house

e2e: servers build ## kill, cut, stall, restart and lie to every part; compare what came with what was committed
	TAILBOX_SIM_SCHEDULES=$(SCHEDULES) $(GO) test -count=1 -timeout 60m ./test/sim
	$(GO) test -count=1 -timeout 120m -v -tags=e2e -run . ./test/e2e
	TAILBOX_E2E_POSTGRES=18 $(GO) test -count=1 -timeout 60m -v -tags=e2e -run '^Test(Failover|RestoredServer|StandbyAway)' ./test/e2e
	$(GO) test -count=1 -timeout 100m -v -tags=e2e ./test/hostile
	$(GO) test -count=1 -timeout 10m -v -tags=e2e -run TestConsoleOfStandby ./cmd/tailbox

mutants: ## break the engine in many small ways; a test must see each
	$(GO) run ./test/mutants

rivals: servers build ## compare with Debezium Server and a poller, on the same Postgres and Kafka: ROWS (1000000), ROUNDS (3)
	$(GO) run ./test/servers/install rivals
	cd test/rivals && $(GO) build -o $(CURDIR)/bin/rivals .
	$(GO) run ./test/bench -only rivals -rows $(ROWS) -rounds $(ROUNDS)

bench: servers build ## measure throughput, latency and memory against bare readers of the same logs
	$(GO) run ./test/bench

# The compiler reads the profile of a main package (default.pgo), and puts the code together that runs most. One that has aged is merely less use.
profile: servers ## record cmd/tailbox/default.pgo anew: where benchmarks of a message's road spend their time
	rm -rf bin/profile && mkdir -p bin/profile
	@set -e; for road in relay:Engine source/postgres/stream:Read/.*/.*/source source/mongo/stream:Read sink/kafka:Deliver sink/http:Single; do \
		name="$$(echo "$${road%%:*}" | tr / -)"; echo "$$road"; \
		$(GO) test -run '^$$' -bench "^Benchmark$${road#*:}" -benchtime 5s -cpuprofile "bin/profile/$$name.prof" -o "bin/profile/$$name.test" "./$${road%%:*}"; \
	done
	$(GO) tool pprof -proto -output cmd/tailbox/default.pgo bin/profile/*.prof

fuzz: ## fuzz every fuzz target for FUZZTIME (30s) each
	@set -e; for file in $$(git ls-files '*_test.go' | xargs grep -l '^func Fuzz'); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
			echo "$$(dirname $$file) $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x ./$$(dirname $$file); \
		done; \
	done

screenshots: servers ## draw the console's pages, at two sizes, light and dark, into bin/screenshots
	@mkdir -p bin/screenshots
	TAILBOX_SCREENSHOTS=$(CURDIR)/bin/screenshots $(GO) test -count=1 -run '^TestConsoleInChromium$$' ./cmd/tailbox

servers: ## install the servers that tests need, where they are missing
	@mkdir -p $(dir $(SKIPS))
	$(GO) run ./test/servers/install

clean: ## remove what was built; installed servers stay
	rm -rf bin
	$(GO) clean -testcache
