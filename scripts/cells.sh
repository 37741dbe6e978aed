# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The matrix ULP x device x implementation. A cell is a guest of its own that
# runs scripts/guest/ulp-ULP.sh and leaves figures, NAME=VALUE, in the file
# `record` of its results. Source it after lib.sh.

# The cells: ULP DEV IMPL, and once they are judged VERDICT [REASON].
CELLS=()

# Where their results are: own_out says it.
out=''

# What has passed and failed besides.
PASSED=0 FAILED=0

# Faults of the software stack that no implementation can help: "ULP DEV", and
# the reason; and what the job says when it is that fault.
declare -A KNOWN=() KNOWN_SIGN=()

# cells_begin NAME: builds the kernel; results go to OUT/NAME.
cells_begin() {
	STAGE=$("$CLONE/scripts/build" "$FLAVOUR")
	"$CLONE/scripts/guest-root" >/dev/null
	own_out "$1"
}

# figure CELL NAME: what the cell recorded, 0 if nothing.
figure() {
	local file=$out/$1/record value=
	[[ ! -f $file ]] || value=$(sed -n "s/^$2=//p" "$file" | tail -n 1)
	printf '%s\n' "${value:-0}"
}

# cell ULP DEV IMPL [OPTION...]: runs one cell, beside others; the options are
# guest-run's.
cell() {
	local ulp=$1 dev=$2 impl=$3 name=$1-$2-$3
	shift 3
	CELLS+=("$ulp $dev $impl")
	beside "$out/$name" "$ulp over $dev, rdma_rw in ${impl^}" \
		"$CLONE/scripts/guest-run" --kernel "$STAGE/bzImage" --modules "$STAGE/lib/modules" \
		--ib-core "$STAGE/ib_core-$impl.ko" --script "$CLONE/scripts/guest/ulp-$ulp.sh" \
		--env "DEV=$dev" --env "IMPL=$impl" --name "$name" --out "$out" "$@"
}

# status ULP DEV IMPL: what its guest ended with.
status() { cat "$out/$1-$2-$3.status" 2>/dev/null || echo none; }

# judge ULP DEV IMPL: prints the verdict, and the reason if it is not pass: fail,
# or known where it fails as KNOWN says that it does.
judge() {
	local ulp=$1 dev=$2 name=$1-$2-$3 status log
	status=$(status "$@")
	log=$out/$name/job.log
	if [[ $status == 0 ]]; then
		if [[ $(figure "$name" impl) == "$3" && $(figure "$name" device) == "$dev" ]]; then
			echo pass
		else
			echo "fail the guest ran something else"
		fi
	elif [[ $status == 1 && -n ${KNOWN["$ulp $dev"]:-} ]] && fails_everywhere "$ulp" "$dev" &&
		grep -qE "${KNOWN_SIGN["$ulp $dev"]}" "$log"; then
		echo "known ${KNOWN["$ulp $dev"]}"
	elif [[ -f $log ]] && grep -q '^==> FAILED: ' "$log"; then
		# What the job said, if the guest lived to bring it home.
		echo "fail $(sed -n '/^==> FAILED: /{ s///p; q }' "$log")"
	else
		echo "fail status $status"
	fi
}

# fails_everywhere ULP DEV: whether no implementation passes the cell.
fails_everywhere() {
	local ulp dev impl
	while read -r ulp dev impl _; do
		[[ "$ulp $dev" != "$1 $2" || $(status "$ulp" "$dev" "$impl") != 0 ]] || return 1
	done < <(printf '%s\n' "${CELLS[@]}")
}

# in_mib BYTES
in_mib() { echo "$((${1:-0} / 1048576))"; }

# cells_table: prints what the cells did.
cells_table() {
	local cell ulp dev impl verdict reason name
	local row='%-10s %-7s %-5s %8s %8s %-7s %8s %8s %8s %7s  %s\n'
	echo
	# shellcheck disable=SC2059
	printf "$row" ULP device code 'MiB out' 'MiB in' verify single multi MR WRs ''
	for cell in "${CELLS[@]}"; do
		read -r ulp dev impl verdict reason <<<"$cell"
		name=$ulp-$dev-$impl
		# shellcheck disable=SC2059
		printf "$row" "$ulp" "$dev" "${impl^}" \
			"$(in_mib "$(figure "$name" written)")" "$(in_mib "$(figure "$name" read)")" "$verdict" \
			"$(figure "$name" path_single)" "$(figure "$name" path_multi)" "$(figure "$name" path_mr)" \
			"$(figure "$name" wrs)" "$reason"
	done
	cat <<-END

	MiB out, MiB in: written to and read back from the target, every block
	verified. single, multi, MR: contexts that took each path, from the tag of
	the context at the return of the init function; WRs: work requests in them.
	END
}

# cells_json FILE: the same, with everything the cells recorded.
cells_json() {
	local cell ulp dev impl verdict reason separator='['
	{
		for cell in "${CELLS[@]}"; do
			read -r ulp dev impl verdict reason <<<"$cell"
			echo "$separator"
			separator=,
			{
				printf '%s\n' "ulp=$ulp" "device=$dev" "impl=$impl" "verdict=$verdict"
				[[ -z $reason ]] || echo "reason=$reason"
				cat "$out/$ulp-$dev-$impl/record" 2>/dev/null || :
			} | awk -F= '
				{
					name = $1
					value = substr($0, length(name) + 2)
					if (!(name in seen))
						order[++n] = name
					seen[name] = value
				}
				END {
					printf "{"
					for (i = 1; i <= n; i++) {
						value = seen[order[i]]
						if (value !~ /^-?[0-9]+$/) {
							gsub(/[\\"]/, "\\\\&", value)
							value = "\"" value "\""
						}
						printf "%s\"%s\": %s", (i > 1 ? ", " : ""), order[i], value
					}
					print "}"
				}'
		done
		echo ']'
	} >"$1"
}

# cells_end: waits for the cells; the table, the JSON and the verdict of the
# whole.
cells_end() {
	local cell n=0 passed=$PASSED failed=$FAILED known=0 verdict
	wait
	for cell in "${CELLS[@]}"; do
		# shellcheck disable=SC2086 # its three words
		CELLS[n]="$cell $(judge $cell)"
		n=$((n + 1))
	done
	cells_table
	cells_json "$out/results.json"
	for cell in "${CELLS[@]}"; do
		read -r _ _ _ verdict _ <<<"$cell"
		case $verdict in
		pass) passed=$((passed + 1)) ;;
		known) known=$((known + 1)) ;;
		*) failed=$((failed + 1)) ;;
		esac
	done
	note "results: $out/results.json"
	echo "$passed passed, $failed failed$( ((known == 0)) || echo ", $known with a known fault of the software stack")"
	((failed == 0 && passed > 0))
}
