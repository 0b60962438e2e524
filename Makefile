# What a newcomer types. Everything else is cargo.
CARGO ?= cargo
SECONDS_EACH ?= 600

.PHONY: all setup build lab demo test every quick ci release-check lint bench agreement repeats devices boots buckets recipes python cluster wheel validate statistics planted moves kills cuts restores plans fuzz sanitize deny release package-test publish-check install docs book

all: build

# Installs what building, the demonstration, the lab and the tests need; on a terminal it asks (YES=1 does not).
setup:
	@scripts/setup

# straddle alone. Needs a Rust toolchain and a linker, and says what the lab and the tests would need.
build:
	@scripts/setup build
	$(CARGO) build --release -p straddle
	@missing=$$(scripts/setup --missing); [ -z "$$missing" ] || echo "make: the lab and the tests also need (make setup): $$missing"

# straddle, and straddle-lab for lab, serve, reproduce and drive fit.
lab:
	@scripts/setup build
	$(CARGO) build --release -p straddle --features lab

# Two sample images, one laid out wrong and one right, this machine's own disks, ext4 on a modelled one, right and wrong,
# and an XP-era disk that is realigned.
demo: build
	@scripts/setup demo
	@scripts/demo

test: setup
	@scripts/test

# The same with every case of the tests that otherwise try a sample of them.
every: setup
	@scripts/test --every

# The tests that boot no guest (User-Mode Linux, QEMU), but for the longest, which it names: two minutes on two processors
# after a build.
quick: setup
	@scripts/test --quick

# What has to hold before a change goes in; .ci/run calls it.
ci: setup
	@scripts/ci

# The same, the fuzz targets, the book and the oldest Rust: what has to hold before a release.
release-check: setup
	@scripts/ci --release

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	shellcheck $$(grep -lE '^#!.*sh$$' scripts/*) tests/guest/run tests/guest/*.sh tests/emulated/kernel tests/emulated/run tests/emulated/init \
	    tests/emulated/*.sh tests/boots/image tests/boots/init experiments/scripts/*.sh \
	    crates/repair/hooks/* \
	    crates/lab/init/init crates/lab/init/lib.sh crates/trace/tests/trace/captured/capture.sh tests/lab/*.sh benches/lab/*.sh tests/sysroots/capture \
	    tests/sysroots/capture-in-guest.sh tests/sysroots/construct fuzz/run .ci/run \
	    tests/package/try contrib/mkosi/straddle.postoutput contrib/diskimage-builder/elements/straddle/cleanup.d/99-straddle \
	    contrib/libguestfs/audit

# Straddle beside its peers, in one run.
bench: lab
	$(CARGO) run --release -p straddle-benches -- check
	$(CARGO) run --release -p straddle-benches -- drives
	$(CARGO) run --release -p straddle-benches -- serve
	$(CARGO) run --release -p straddle-benches -- vhost
	$(CARGO) run --release -p straddle-benches -- real
	$(CARGO) run --release -p straddle-benches -- moves
	$(CARGO) run --release -p straddle-benches -- trace
	$(CARGO) run --release -p straddle-benches -- python
	$(CARGO) run --release -p straddle-benches -- spark

# The lab's virtual time beside this machine's: the same scripts in the same guest. Best on a machine that does nothing else.
agreement: setup
	$(CARGO) test --release -p straddle --test guest agreement:: -- --ignored --nocapture

# Two hundred equal runs of a guest under changing load, as root and not: one digest of all events. Takes half an hour.
repeats: lab
	scripts/repeats 200

# Emulated devices of each driver under Debian's kernels 6.1 and 6.12, without KVM (docs/devices.md). Takes minutes.
devices: setup
	$(CARGO) test -p straddle --test emulated machines:: -- --ignored --nocapture

# A small Debian on misaligned partitions, by BIOS and UEFI in QEMU, before and after they are moved; and moved at boot, with power
# cuts. Downloads packages the first time. Takes ten minutes.
boots: setup
	$(CARGO) test -p straddle --test emulated boots:: -- --ignored --nocapture

# Images in buckets of real servers of S3, Google Cloud Storage and Azure, which go and npm install in target/buckets. Takes minutes
# the first time.
buckets: setup
	scripts/buckets

# The recipes of contrib, each with its own tool, which pip, npm, go and apt-get bring to target/recipes. Takes a quarter of an hour
# the first time.
recipes: setup
	scripts/recipes

# The Python module: built, installed in target/python, and tested beside the command line. Downloads packages the first time.
python: setup
	scripts/python

# The module on Spark (two executors, one of which is killed) and Ray. Downloads 600 MB and Java the first time. Takes minutes.
cluster:
	@scripts/setup cluster
	scripts/python --cluster -s

# The distributions of the Python module, in target/wheels: a manylinux wheel and the source, each installed and tried.
wheel: setup
	scripts/wheel

# The drive model beside real drives: DISKSIM is the folder of DiskSim 4.0's parameters and validation traces.
validate: setup
	$(CARGO) run --release -p straddle-benches -- validate --disksim "$(DISKSIM)"

# The statistics of measurements, on made-up drives of known ratios: 2,000 runs of each case. Takes a quarter of an hour.
statistics: setup
	RUNS=2000 $(CARGO) test --release -p straddle-measure --lib rounds -- --nocapture

# Plants bugs in the model of the drives, one at a time, and sees whether its tests notice. Takes an hour.
planted: setup
	$(CARGO) test -p straddle-drive --lib planted:: -- --ignored --nocapture

# 200,000 states of each small move that crashes may lead to, each resumed and rolled back. Takes most of an hour, or more.
moves: setup
	$(CARGO) test -p straddle-repair --lib relocate:: -- --ignored --nocapture

# The program killed 500 times while it moves partitions, 100 power cuts under it in the lab, 10,000 moves with I/O errors. Takes an hour.
kills: setup
	KILLS=500 LAB_CUTS=100 $(CARGO) test -p straddle --test quick realign:: -- --nocapture
	FAULTS=10000 $(CARGO) test -p straddle-repair --lib faults:: -- --nocapture
	MOVES=1000 TEARS=20 $(CARGO) test -p straddle-repair --lib carry:: -- --nocapture

# A thousand power cuts under six file systems. Takes a quarter of an hour, or two.
cuts: setup
	CUTS=1000 $(CARGO) test --release -p straddle --test guest cuts:: -- --nocapture

# A measurement killed five hundred times, and its target put back.
restores: setup
	RESTORES=500 $(CARGO) test --release -p straddle --test guest restore:: -- --nocapture

# Power cuts under 5,000 series of changes to tables, and 2,000 random plans read back by other tools. Takes a quarter of an hour.
plans: setup
	CUTS=5000 $(CARGO) test -p straddle-repair --lib power:: -- --nocapture
	PLANS=2000 $(CARGO) test -p straddle-repair --lib differential:: -- --nocapture
	CONVERSIONS=2000 $(CARGO) test -p straddle-repair --lib convert:: -- --nocapture

# Each target for SECONDS_EACH seconds.
fuzz: setup
	fuzz/run $(SECONDS_EACH)

# The crates with `unsafe` code, all of it calls of the kernel (ioctls, io_uring, mappings that a peer shares, confinement), under
# AddressSanitizer. The C of the guest's clock is built with it and UBSan in `make test`. One test limits its address space to less
# than the sanitizer reserves.
sanitize: setup
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$${CARGO_TARGET_DIR:-target}/sanitized \
	    $(CARGO) test --target $$(rustc -vV | sed -n 's/^host: //p') --tests --no-fail-fast \
	    -p straddle-device -p straddle-measure -p straddle-lab -- --skip changed_images_do_no_harm --skip a_guest_

# Dependencies: known vulnerabilities, licences, sources. Needs cargo-deny; without a network, DENY='bans licenses sources'.
DENY ?= advisories bans licenses sources
deny:
	$(CARGO) deny check $(DENY)

# The files of a release in target/release-files: a tarball, Debian and RPM packages, checksums. `make wheel` makes those for pip.
release:
	@scripts/setup build
	@scripts/package

# The same, each installed, run and removed in fresh systems. Downloads packages.
package-test: setup
	$(CARGO) test -p straddle --test quick package:: -- --ignored --nocapture

# The crates for crates.io: their documentation, and that each builds from its package. Publishes nothing.
publish-check:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --no-deps -p straddle-units -p straddle-device -p straddle-drive -p straddle-layout -p straddle-audit
	$(CARGO) publish --dry-run --workspace

PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share
install:
	@scripts/setup build
	$(CARGO) build --release -p straddle --all-features
	for program in straddle straddle-lab; do \
	    install -D $${CARGO_TARGET_DIR:-target}/release/$$program $(DESTDIR)$(PREFIX)/bin/$$program || exit; \
	done
	$(DESTDIR)$(PREFIX)/bin/straddle man --dir $(SHARE)/man/man8
	mkdir -p $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(DESTDIR)$(PREFIX)/bin/straddle completions bash >$(SHARE)/bash-completion/completions/straddle
	$(DESTDIR)$(PREFIX)/bin/straddle completions zsh >$(SHARE)/zsh/site-functions/_straddle
	$(DESTDIR)$(PREFIX)/bin/straddle completions fish >$(SHARE)/fish/vendor_completions.d/straddle.fish

# What is generated from the code and kept in the repository.
docs: lab
	for command in check plan realign realign-to explain explain-rmw efficiency bench probe probe-share drive drive-fit lab reproduce report serve sim trace trace-record; do \
	    $${CARGO_TARGET_DIR:-target}/release/straddle schema $$command > docs/$$command.schema.json || exit; \
	done
	STRADDLE=$${CARGO_TARGET_DIR:-target}/release/straddle scripts/pages
	STRADDLE=$${CARGO_TARGET_DIR:-target}/release/straddle scripts/transcripts

# The book of docs/ in target/book, its links checked. Installs mdbook with cargo if it is missing; asks first on a terminal.
book:
	@scripts/book
