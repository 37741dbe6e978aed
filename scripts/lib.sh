# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: GPL-2.0
#
# Shell functions shared by the scripts. Source it after `set -euo pipefail`:
#
#	. "$(dirname "$0")/lib.sh"
#
# Everything said to the user goes to standard error, so that a script's
# standard output stays free for its result (a path, for instance).

# The clone, the cache and the folder for results, all absolute.
CLONE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
CACHE=${RDMA_RW_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/rdma_rw}
OUT=${OUT:-}

# The Debian suite of the build root and of the guest root.
SUITE=trixie

# The kernels that run, of scripts/configs: scripts/sanitize has others.
FLAVOUR=${FLAVOUR:-test}
UM_FLAVOUR=${UM_FLAVOUR:-um}

# slow FLAVOUR: how many times longer than usual a kernel may take.
slow() { sed -n 's/^#: slow=//p; $s/.*/1/p' "$CLONE/scripts/configs/$1.config" | head -n 1; }

# Number of jobs of a build.
JOBS=${JOBS:-$(nproc)}

# ---------------------------------------------------------------- messages

step() { printf '==> %s\n' "$*" >&2; }
note() { printf '    %s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }

# One line that says what is missing and how to get it.
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# Minutes and seconds of a number of seconds.
mmss() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# ------------------------------------------------------------- directories

absolute() {
	case $1 in
	/*) printf '%s\n' "$1" ;;
	*) printf '%s\n' "$PWD/$1" ;;
	esac
}

CACHE=$(absolute "$CACHE")
OUT=$(absolute "${OUT:-$CACHE/out}")
LOGS=$CACHE/log

mkdir -p "$CACHE" "$LOGS" "$CACHE/lock" "$CACHE/tmp" 2>/dev/null ||
	die "cannot write to the cache $CACHE: make it writable, or name another with RDMA_RW_CACHE=DIR"

# out_dir: creates the folder for results and tells where it is.
out_dir() {
	mkdir -p "$OUT" 2>/dev/null ||
		die "cannot write results to $OUT: name another folder with OUT=DIR"
	note "results: $OUT"
}

# own_out NAME: sets out to OUT/NAME, empty, which nobody else writes to until
# the script ends.
own_out() {
	out_dir
	out=$OUT/$1
	lock "out-$(key_of "$out")"
	remove "$out"
	mkdir -p "$out"
}

# need_disk GIB WHAT: dies unless the cache's file system has so much room.
need_disk() {
	local free
	free=$(df -Pk "$CACHE" | awk 'NR == 2 { print int($4 / 1048576) }')
	((free >= $1)) ||
		die "$2 needs $1 GiB, but $CACHE has $free GiB free: make room, or name another place with RDMA_RW_CACHE=DIR"
}

# have CMD...: whether every command exists.
have() { command -v "$@" >/dev/null 2>&1; }

# ----------------------------------------------------- locks and publishing
#
# A lock is a file of the cache, held by a descriptor of the script. Tools that
# the script runs inherit it, so it stays held until the last of them is gone,
# even when the script itself was killed. Whatever may outlive the script has
# to be started with `unlocked`.

declare -A LOCKS=()

# lock NAME: takes the lock, and says so when it has to wait. It is taken
# already if RDMA_RW_LOCKS, which a script sets for one that it calls, names it.
lock() {
	local fd file=$CACHE/lock/$1 owner
	[[ -z ${LOCKS[$1]:-} && " ${RDMA_RW_LOCKS:-} " != *" $1 "* ]] || return 0
	exec {fd}>>"$file"
	if ! flock -n "$fd"; then
		read -r owner <"$file" || owner=unknown
		note "waiting for another run to finish (process $owner holds $file)"
		flock "$fd"
	fi
	echo $$ >"$file"
	LOCKS[$1]=$fd
}

# unlock NAME: releases it before the script ends.
unlock() {
	local fd=${LOCKS[$1]:-}
	[[ -n $fd ]] || return 0
	exec {fd}>&-
	unset "LOCKS[$1]"
}

# unlocked CMD...: becomes CMD, without the descriptors of our locks: to be run
# in the background.
unlocked() {
	local fd
	for fd in "${LOCKS[@]}"; do
		exec {fd}>&-
	done
	exec "$@"
}

# A directory is made as DIR.part and renamed when it is whole: where DIR
# exists, it is complete. The caller holds a lock.
fresh() {
	remove "$1.part"
	mkdir -p "$1.part"
}
publish() {
	remove "$1"
	mv -T "$1.part" "$1"
}

# remove DIR...: deletes trees, also where directories came without write
# permission.
remove() {
	local dir
	for dir; do
		[[ -e $dir || -L $dir ]] || continue
		rm -rf --one-file-system "$dir" 2>/dev/null && continue
		find "$dir" -xdev -type d ! -perm -u=rwx -exec chmod u+rwx {} + || :
		rm -rf --one-file-system "$dir" || die "cannot delete $dir"
	done
}

# stamp FILE [TEXT]: writes FILE in one go, as the last act of a step.
stamp() {
	printf '%s\n' "${2:-done}" >"$1.part"
	mv -f "$1.part" "$1"
}

# ----------------------------------------------------------- User Mode Linux

# boot_um KERNEL SECONDS SUITES FORCE_MR [PARAMETER...]: becomes a kernel of User
# Mode Linux, which runs the KUnit suites that match SUITES and ends; SECONDS is
# the end of patience, for kernels that are not slow.
boot_um() {
	local kernel=$1 seconds=$2 suites=$3 force=$4
	shift 4
	unlocked timeout -k 5 "$((seconds * $(slow "$UM_FLAVOUR")))" "$kernel" mem=512M con=fd:0,fd:1 panic=-1 \
		kunit.enable=1 kunit.autorun=1 "kunit.filter_glob=$suites" kunit_shutdown=halt \
		"ib_core.force_mr=$force" "$@" </dev/null 2>&1
}

# um_ktap LOG: what such a kernel has printed, without the times.
um_ktap() { sed 's/^\[ *[0-9.]*\] //; s/\r$//' "$1"; }

# kernel_ended_well LOG: whether a kernel of User Mode Linux has come to its end
# without a complaint.
kernel_ended_well() {
	grep -q 'reboot: System halted' "$1" &&
		! grep -E 'WARNING: |\bBUG\b|Kernel panic|UBSAN|KASAN|list_(add|del) corruption' "$1" >&2
}

# --------------------------------------------------------------- side by side

# Guests that run at a time: one for each processor, as far as there is memory.
GUESTS=${GUESTS:-$(awk -v most="$(nproc)" '
	$1 == "MemAvailable:" { n = int($2 / (3.5 * 1048576)) }
	END { print (n < 1 ? 1 : (n > most ? most : n)) }' /proc/meminfo)}

# The jobs of this script, and the descriptor of a pipe that holds a byte for
# each free place. The scripts that it runs share the places: RDMA_RW_SLOTS
# tells them of the descriptor.
BESIDE=() SLOTS=${RDMA_RW_SLOTS:-}

# beside FILE TEXT CMD...: runs CMD in the background, once there is room for a
# guest more; what it prints goes to FILE.log, and its status to FILE.status.
# CMD is a program, or a function that ends in `exec`. `wait` waits for all of
# them; they end when the script does.
beside() {
	open_slots
	IFS= read -rN 1 -u "$SLOTS"
	run_beside ' ' "$@"
}

# beside_scripts FILE TEXT CMD...: the same for a script that runs its own jobs
# with `beside`, and needs no place for itself.
beside_scripts() {
	open_slots
	run_beside '' "$@"
}

open_slots() {
	local fifo
	((${#BESIDE[@]})) || trap end_beside EXIT
	[[ -z $SLOTS ]] || return 0
	fifo=$(mktemp -u "$CACHE/tmp/slots.XXXXXX")
	mkfifo "$fifo"
	exec {SLOTS}<>"$fifo"
	rm "$fifo"
	printf "%${GUESTS}s" '' >&"$SLOTS"
	export RDMA_RW_SLOTS=$SLOTS
}

# run_beside PLACE FILE TEXT CMD...: PLACE is what the pipe gets back.
run_beside() {
	local place=$1 file=$2 text=$3
	shift 3
	(
		start=$SECONDS status=0
		step "$text"
		"$@" >"$file.log" </dev/null &
		pid=$!
		trap 'kill "$pid"; wait "$pid"; printf %s "$place" >&"$SLOTS"; exit 143' TERM
		wait "$pid" || status=$?
		echo "$status" >"$file.status"
		note "$text: ended with $status after $(mmss $((SECONDS - start)))"
		printf %s "$place" >&"$SLOTS"
	) &
	BESIDE+=($!)
}
# shellcheck disable=SC2317 # called by the trap
end_beside() {
	local pid
	for pid in "${BESIDE[@]}"; do
		kill "$pid" 2>/dev/null || :
	done
}

# ------------------------------------------------------------------ summaries

# add_up FILE STATUS: adds to passed and failed what a script says that printed to
# FILE and ended with STATUS: its last line, N passed, N failed. Prints the lines
# before it. Where there is no such line, or it does not account for the status,
# that is one failure more.
add_up() {
	local before=$failed
	if [[ $(tail -n 1 "$1") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
		passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
		sed '$d' "$1"
	else
		cat "$1"
		failed=$((failed + 1))
	fi
	[[ $2 == 0 ]] || ((failed > before)) || failed=$((failed + 1))
}

# count_guest STATUS RESULTS: counts a guest as passed or failed, and prints the
# figures that it has recorded in the folder of its results if it has passed.
count_guest() {
	if [[ $1 != 0 ]]; then
		failed=$((failed + 1))
		note "${2##*/}: see $2"
	else
		passed=$((passed + 1))
		sed "s/^/    ${2##*/}: /" "$2/record"
	fi
}

# ----------------------------------------------------------------- progress

# Reads standard input, a pipe of which the script holds the other end, until
# that end is closed; meanwhile tells now and then how far the log has come.
# HEARTBEAT_TOTAL, if set, is the number of steps that are expected.
heartbeat() {
	local text=$1 log=$2 start=$SECONDS every=20 fd steps last rc
	for fd in "${LOCKS[@]}"; do
		exec {fd}>&-
	done
	[[ ! -t 2 ]] || every=2
	while :; do
		rc=0
		read -rt "$every" || rc=$?
		((rc > 128)) || break
		steps=$(grep -c '^  [A-Z]' "$log") || :
		last=$(tail -n 1 "$log" | tr -s '[:space:]' ' ' | cut -c 1-60)
		if ((steps > 0)); then
			last="step $steps${HEARTBEAT_TOTAL:+ of about $HEARTBEAT_TOTAL}:$last"
		fi
		if [[ -t 2 ]]; then
			printf '\r\033[K    [%s] %s: %s' "$(mmss $((SECONDS - start)))" "$text" "$last" >&2
		else
			note "[$(mmss $((SECONDS - start)))] $text: $last"
		fi
	done
	[[ ! -t 2 ]] || printf '\r\033[K' >&2
}

# attempt NAME TEXT CMD...: runs CMD with its output in $LOGS/NAME.log, with
# progress, and returns its status. CMD may be a function if it is one command
# or a chain of &&: errexit is off in it.
attempt() {
	local name=$1 text=$2 start=$SECONDS rc=0 pipe pid
	shift 2
	step "$text"
	: >"$LOGS/$name.log"
	exec {pipe}> >(heartbeat "$text" "$LOGS/$name.log" >&2)
	pid=$!
	"$@" >>"$LOGS/$name.log" 2>&1 </dev/null || rc=$?
	exec {pipe}>&-
	wait "$pid" || :
	((rc)) || note "$text: done in $(mmss $((SECONDS - start)))"
	return "$rc"
}

# logged NAME TEXT CMD...: the same, and dies when CMD fails.
logged() {
	attempt "$@" || fail_log "$1" "$2"
}

# fail_log NAME TEXT: dies with the reason that the log gives, or with its end.
fail_log() {
	local log=$LOGS/$1.log
	if grep -qE 'No space left on device' "$log"; then
		die "$2: the disk is full: make room at $CACHE, or name another place with RDMA_RW_CACHE=DIR (log: $log)"
	elif grep -qE 'Could not resolve|Temporary failure resolving|Could not connect|Unable to connect|Network is unreachable|Connection (refused|timed out|failed)' "$log"; then
		die "$2: the package archive cannot be reached: check the network, or set http_proxy (log: $log)"
	elif grep -qE 'NO_PUBKEY|not signed|EXPKEYSIG' "$log"; then
		die "$2: apt lacks the archive's key: bring the package debian-archive-keyring up to date (log: $log)"
	fi
	# Of a build, the first errors; of anything else, the end.
	{ grep -E '(^| |: )(fatal )?error(\[E[0-9]+\])?: ' -A 4 "$log" || tail -n 15 "$log"; } |
		head -n 30 | sed 's/^/    | /' >&2
	die "$2 failed (log: $log)"
}

# --------------------------------------------------------------- build root

# packages FILE: the package names of a list, separated by commas; # begins a
# comment.
packages() {
	sed 's/#.*//' "$1" | tr -s '[:space:]' '\n' | sed '/^$/d' | paste -sd,
}

# key_of WORD...: a short name for what the words say.
key_of() {
	printf '%s\n' "$@" | sha256sum | cut -c 1-12
}

# The build root is named by what it is made of.
BUILDROOT=$CACHE/buildroot-$(key_of "$SUITE" "$(packages "$CLONE/scripts/configs/buildroot.list")")

# debian_root DIR PACKAGES [OPTION...]: makes DIR.part a Debian tree owned by
# the caller, with mmdebstrap; the options are mmdebstrap's. It takes the
# archive from RDMA_RW_MIRROR if that is set, else mmdebstrap's own default.
debian_root() {
	local dir=$1.part list=$2 tmp
	local -a alone
	tmp=$CACHE/tmp/$(basename "$1")
	shift 2
	# What a killed run has left behind.
	rm -rf --one-file-system "$tmp"
	mkdir -p "$tmp"
	if ((EUID == 0)); then
		# What root mounts for it, and all its processes, go with it.
		alone=(setpriv --pdeathsig KILL
			unshare --mount --pid --fork --kill-child --mount-proc)
	else
		# It works as a subordinate user, who must be able to write there.
		if reachable "$CACHE"; then chmod 1777 "$tmp"; else tmp=/var/tmp; fi
		alone=(setpriv --pdeathsig TERM)
	fi
	TMPDIR=$tmp "${alone[@]}" mmdebstrap --variant=minbase --format=tar --include="$list" "$@" \
		"$SUITE" - ${RDMA_RW_MIRROR:+"$RDMA_RW_MIRROR"} |
		tar -x -C "$dir" --no-same-owner --delay-directory-restore --exclude='./dev/*'
}

# reachable DIR: whether every other user may enter DIR.
reachable() {
	local dir=$1
	while [[ $dir != / ]]; do
		[[ $(stat -Lc %A "$dir") == *[xt] ]] || return 1
		dir=$(dirname "$dir")
	done
}

BWRAP=()

# in_root CMD...: runs CMD in the build root. There the root is the build
# root, /cache is the cache and /rdma_rw is the clone, read-only, or the tree
# that ROOT_TREE names. Works as root and as an ordinary user.
in_root() {
	((${#BWRAP[@]})) || enter_root
	bwrap "${BWRAP[@]}" --ro-bind "${ROOT_TREE:-$CLONE}" /rdma_rw "$@"
}

# Finds how the build root can be entered here.
enter_root() {
	local var proc
	local -a base=(--die-with-parent --unshare-pid --bind "$BUILDROOT" / --dev /dev)
	local -a rest=(
		--perms 1777 --tmpfs /tmp
		--ro-bind-try /etc/resolv.conf /etc/resolv.conf
		--bind "$CACHE" /cache --chdir /
		--clearenv
		--setenv PATH /usr/sbin:/usr/bin:/sbin:/bin
		--setenv HOME /tmp --setenv LC_ALL C.UTF-8
		--setenv KBUILD_BUILD_USER rdma_rw --setenv KBUILD_BUILD_HOST buildroot
		--setenv KBUILD_BUILD_TIMESTAMP '1970-01-01 00:00:00 UTC'
	)
	for var in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
		[[ -z ${!var:-} ]] || rest+=(--setenv "$var" "${!var}")
	done
	((EUID == 0)) || base+=(--unshare-user --uid 0 --gid 0)
	have bwrap || die "bubblewrap is missing: run make setup"
	[[ -d $BUILDROOT ]] || die "there is no build root: run make setup"
	# A container may forbid a proc of our own.
	for proc in "--proc /proc" "--ro-bind /proc /proc"; do
		# shellcheck disable=SC2206
		BWRAP=("${base[@]}" $proc "${rest[@]}")
		if bwrap "${BWRAP[@]}" true 2>"$LOGS/bwrap.log"; then
			return
		fi
	done
	die "bubblewrap cannot enter the build root, $(head -n 1 "$LOGS/bwrap.log"): allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces), or run as root"
}

# ------------------------------------------------------------------- kernel

# The kernel is of this series; KVERSION (Debian's version or the point
# release) picks one, else it is the newest that was offered when the cache
# was set up, or when KVERSION=latest last asked.
KSERIES=7.3

# kernel_dir: sets KERNEL to the folder of the chosen kernel in the cache, and
# KERNEL_IN to its name in the build root. Fails if it is not there.
kernel_dir() {
	local version=${KVERSION:-} dir
	if [[ -z $version || $version == latest ]]; then
		[[ -f $CACHE/kernel-version ]] || return 1
		read -r version <"$CACHE/kernel-version"
	fi
	for dir in "$CACHE/linux-$version" "$CACHE/linux-$version-"*; do
		if [[ -f $dir/complete ]]; then
			KERNEL=$dir
			KERNEL_IN=/cache/${dir##*/}
			return 0
		fi
	done
	return 1
}

# stock_kernel: sets STOCK to the folder of Debian's own build of that kernel,
# image and modules. Fails if the cache has none.
stock_kernel() {
	local -a folders=("$KERNEL"/stock/usr/lib/modules/*)
	STOCK=${folders[0]}
	[[ -d $STOCK ]]
}
