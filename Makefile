# SPDX-License-Identifier: GPL-2.0
#
# What a user asks for; the work is done by scripts/. Kbuild, which compiles
# the module, reads the file Kbuild and not this one.
#
# A target's line ends in ## and its line of `make help`.

.DEFAULT_GOAL := all
.PHONY: $(shell sed -n 's/^\([a-z_-]*\):.*\#\#.*/\1/p' $(firstword $(MAKEFILE_LIST)))

all: ## the module for Debian's stock kernel (KVER=...), or for your tree (KDIR=DIR)
	@scripts/module

install: ## put it under /lib/modules/.../updates: modprobe rdma_rw
	@scripts/module install

modules_install: install ## the same

demo: ## NVMe-oF over RDMA in a guest, on the Rust and on the C kernel
	@scripts/demo

test: ## the KUnit suites in a guest, on both kernels
	@scripts/test

check: ## the suites and 200,000 differential cases in User Mode Linux: a minute
	@scripts/check

test-long: ## 50 million differential cases in User Mode Linux: COUNT=N SEED=N
	@COUNT=$${COUNT:-50000000} SEED=$${SEED:-$$(date +%s)} scripts/differential um

fuzz: ## 50 million hostile cases, and a million under KASAN: LANE=um COUNT=N SEED=N
	@SEED=$${SEED:-$$(date +%s)} scripts/fuzz $(LANE)

sanitize: ## the tests on kernels that watch themselves: LANE=kasan
	@scripts/sanitize $(LANE)

ulp: ## every ULP over every soft device, on both kernels: ULP=nfs DEV=siw IMPL=rust
	@scripts/ulp

soak: ## three ULPs at once while all kinds of things fail: MINUTES=10
	@scripts/soak

switch: ## take over and give back under verified I/O: ROUNDS=100
	@scripts/switch

refusals: ## what the module must not be built for, and not be loaded on
	@scripts/refusals

bench: ## instructions, allocations, locks and wall time, C against Rust
	@scripts/bench

lint: ## format, clippy, checkpatch, shellcheck and the panic check
	@scripts/lint

setup: ## fetch and build all that demo and test need, and no more
	@scripts/setup
	@scripts/build test

graft: ## put the project into your kernel tree: KSRC=DIR
	@scripts/graft "$(KSRC)"

ungraft: ## take it out of there again: KSRC=DIR
	@scripts/graft --undo "$(KSRC)"

clean: ## delete what was built, keep what was fetched
	@scripts/clean

distclean: ## delete the whole cache
	@scripts/clean --all

help: ## this list
	@sed -n 's/^\([a-z_-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | \
		awk -F '\t' '{ printf "make %-15s %s\n", $$1, $$2 }'
	@echo
	@echo 'Results go to OUT=DIR, the cache is RDMA_RW_CACHE=DIR, KVERSION=VERSION'
	@echo 'picks the kernel, JOBS=N the parallel jobs, KVM=1 lets guests use KVM.'
