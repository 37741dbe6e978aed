# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The matrix ULP x device x implementation. A cell is a guest of its own that
# runs scripts/guest/ulp-ULP.sh and leaves figures, NAME=VALUE, in the file
# `record` of its results. Source it after lib.sh.

# The cells that ran: ULP DEV IMPL VERDICT [REASON].
CELLS=()

# Faults of the software stack that no implementation can help: "ULP DEV", and
# the reason; and what the job says when it is that fault.
declare -A KNOWN=() KNOWN_SIGN=()

# cells_begin NAME: builds the kernel; results go to OUT/NAME.
cells_begin() {
	STAGE=$("$CLONE/scripts/build" test)
	"$CLONE/scripts/guest-root" >/dev/null
	out_dir
	CELLS_OUT=$OUT/$1
	remove "$CELLS_OUT"
	mkdir -p "$CELLS_OUT"
}

# figure CELL NAME: what the cell recorded, 0 if nothing.
figure() {
	local file=$CELLS_OUT/$1/record value=
	[[ ! -f $file ]] || value=$(sed -n "s/^$2=//p" "$file" | tail -n 1)
	printf '%s\n' "${value:-0}"
}

# cell ULP DEV IMPL [OPTION...]: runs one cell; the options are guest-run's.
# Its verdict is pass, fail, or known where it fails as KNOWN says that it does.
cell() {
	local ulp=$1 dev=$2 impl=$3 name=$1-$2-$3 verdict=fail reason='' status=0 start=$SECONDS
	shift 3
	step "$ulp over $dev, rdma_rw in ${impl^}"
	"$CLONE/scripts/guest-run" --kernel "$STAGE/bzImage" --modules "$STAGE/lib/modules" \
		--ib-core "$STAGE/ib_core-$impl.ko" --script "$CLONE/scripts/guest/ulp-$ulp.sh" \
		--env "DEV=$dev" --env "IMPL=$impl" --name "$name" --out "$CELLS_OUT" "$@" || status=$?
	if ((status == 0)) && [[ $(figure "$name" impl) != "$impl" || $(figure "$name" device) != "$dev" ]]; then
		reason="the guest ran something else"
	elif ((status == 0)); then
		verdict=pass
	elif ((status == 1)) && [[ -n ${KNOWN["$ulp $dev"]:-} ]] && fails_everywhere "$ulp" "$dev" &&
		grep -qE "${KNOWN_SIGN["$ulp $dev"]}" "$CELLS_OUT/$name/job.log"; then
		verdict=known
		reason=${KNOWN["$ulp $dev"]}
	else
		reason="status $status"
		# What the job said, if the guest lived to bring it home.
		if [[ -f $CELLS_OUT/$name/job.log ]] && grep -q '^==> FAILED: ' "$CELLS_OUT/$name/job.log"; then
			reason=$(sed -n '/^==> FAILED: /{ s///p; q }' "$CELLS_OUT/$name/job.log")
		fi
	fi
	note "$verdict after $(mmss $((SECONDS - start)))"
	CELLS+=("$ulp $dev $impl $verdict $reason")
}

# fails_everywhere ULP DEV: whether no implementation has passed the cell.
fails_everywhere() {
	local cell ulp dev verdict
	for cell in "${CELLS[@]}"; do
		read -r ulp dev _ verdict _ <<<"$cell"
		[[ "$ulp $dev $verdict" != "$1 $2 pass" ]] || return 1
	done
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
				cat "$CELLS_OUT/$ulp-$dev-$impl/record" 2>/dev/null || :
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

# cells_end: the table, the JSON and the verdict of the whole.
cells_end() {
	local cell passed=0 failed=0 known=0 verdict
	cells_table
	cells_json "$CELLS_OUT/results.json"
	for cell in "${CELLS[@]}"; do
		read -r _ _ _ verdict _ <<<"$cell"
		case $verdict in
		pass) passed=$((passed + 1)) ;;
		known) known=$((known + 1)) ;;
		*) failed=$((failed + 1)) ;;
		esac
	done
	note "results: $CELLS_OUT/results.json"
	echo "$passed passed, $failed failed$( ((known == 0)) || echo ", $known with a known fault of the software stack")"
	((failed == 0 && passed > 0))
}
