# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Boots that run random cases through a suite of kunit_tests/differential_kunit.c:
# what scripts/differential and scripts/fuzz share. Source it after lib.sh.

# random_cases NAME LANE...: runs the suite rdma_rw_NAME; fails if anything does.
# The array counts has the cases of every lane, unless COUNT is set. One half
# of them runs with ib_core.force_mr=0, the other half with =1; SEED says which
# cases they are, 1 unless it is set. What a lane prints, KTAP, is in
# OUT/NAME/LANE-FORCE.ktap; the summary says what it has reached, and the last
# line counts parts of the cases.
random_cases() {
	local name=$1 suite=rdma_rw_$1 seed=${SEED:-1} out='' lane half
	passed=0 failed=0
	shift
	[[ $seed =~ ^[0-9]+$ && ${COUNT:-1} =~ ^[1-9][0-9]*$ ]] || die "COUNT and SEED are numbers"
	for lane; do
		[[ ${counts[$lane]:-} ]] || die "there is no lane $lane: ${!counts[*]}"
	done
	own_out "$name"
	for lane; do
		half=$(((${COUNT:-${counts[$lane]}} + 1) / 2))
		step "$name, $lane: 2 x $half cases of seed $seed"
		case $lane in
		um) um_cases ;;
		um-kasan) UM_FLAVOUR=um-kasan um_cases ;;
		iommu) guest_cases iommu ;;
		kasan) FLAVOUR=kasan guest_cases small ;;
		esac
	done
	printf '\n%d passed, %d failed\n' "$passed" "$failed"
	((passed > 0 && failed == 0))
}

# um_cases: the cases of a lane in User Mode Linux.
um_cases() {
	local stage force status
	stage=$("$CLONE/scripts/build" "$UM_FLAVOUR")
	for force in 0 1; do
		beside "$out/$lane-$force" "random cases in User Mode Linux, force_mr=$force" \
			boot_um "$stage/linux-rust" 7200 "$suite" "$force" kasan.fault=panic \
			"rdma_rw_differential.count=$half" "rdma_rw_differential.seed=$seed"
	done
	wait
	for force in 0 1; do
		status=$(<"$out/$lane-$force.status")
		um_ktap "$out/$lane-$force.log" >"$out/$lane-$force.ktap"
		kernel_ended_well "$out/$lane-$force.log" || status=1
		report_cases "$force" "$status"
	done
}

# guest_cases MACHINE: the same in a guest.
guest_cases() {
	local stage force status append="kunit.autorun=1 kunit.filter_glob=$suite kasan.fault=panic"
	# What is mapped by a simulated IOMMU may share cache lines.
	[[ $1 == iommu ]] || append+=' dma_debug=off'
	stage=$("$CLONE/scripts/build" "$FLAVOUR")
	"$CLONE/scripts/guest-root" >/dev/null
	beside "$out/$lane" "random cases in a guest" \
		"$CLONE/scripts/guest-run" --kernel "$stage/bzImage" --modules "$stage/lib/modules" \
		--ib-core "$stage/ib_core-rust.ko" --script "$CLONE/scripts/guest/random-cases.sh" \
		--env "SUITE=$suite" --env "COUNT=$half" --env "SEED=$seed" \
		--append "$append" --machine "$1" \
		--timeout $((1800 + half / 50)) --name "$lane" --out "$out"
	wait
	status=$(<"$out/$lane.status")
	for force in 0 1; do
		cp "$out/$lane/cases-$force.ktap" "$out/$lane-$force.ktap" 2>/dev/null ||
			: >"$out/$lane-$force.ktap"
		report_cases "$force" "$status"
	done
}

# report_cases FORCE STATUS: what the results of a boot say.
report_cases() {
	local ktap=$out/$lane-$1.ktap pass=0 fail=0
	printf '\n%s, force_mr=%s\n' "$lane" "$1"
	sed -nE 's/^ *(# (part|reach)|rdma_rw_differential): /  /p' "$ktap" 2>/dev/null || :
	read -r pass fail < <(sed -n 's/^# Totals: pass:\([0-9]*\) fail:\([0-9]*\) .*/\1 \2/p' "$ktap" 2>/dev/null) || :
	# It has to have run with what was asked for.
	if (($2)) || ! grep -q ", force_mr=$1, in " "$ktap" || ! grep -q "^ok .*$suite\$" "$ktap"; then
		((fail > 0)) || fail=1
		printf '  it did not come to a good end: %s\n' "$ktap"
	fi
	passed=$((passed + pass)) failed=$((failed + fail))
}
