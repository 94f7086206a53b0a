# SPDX-License-Identifier: Apache-2.0
# The front door. CMake and Ninja do the work (CMakePresets.json); each target first installs what
# it needs and is missing (tools/setup).
.DEFAULT_GOAL := help
.PHONY: help setup build demo check bench lint format install clean

PREFIX ?= /usr/local

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

setup: ## install all that any target needs
	@tools/setup build demo check format bench

build: ## build the release command line at build/rung
	@tools/setup build
	@test build/build.ninja -nt CMakePresets.json || cmake --preset release
	@ninja -C build product

demo: build ## train on Fashion-MNIST, one optimization at a time
	@tools/setup demo
	build/rung ladder examples/fashion-mnist.yaml --quick

check: ## build with gcc, clang and sanitizers, run all tests and lints
	@tools/setup build demo check format
	@tools/check

bench: build ## measure against PyTorch: all, or NAME=x
	@tools/setup bench
	@ninja -C build bench_programs
	@bench/run $(NAME)

lint: ## run the lints
	@tools/setup check format
	@tools/lint -v

format: ## lay out the C and CUDA sources
	@tools/setup format
	@tools/format

install: build ## install under PREFIX (/usr/local), below DESTDIR
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

clean: ## remove the builds
	rm -rf build build-clang build-debug build-asan build-tsan
