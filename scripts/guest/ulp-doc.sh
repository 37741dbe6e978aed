# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the commands of docs/ulps.md as they stand, section by section.
# Environment: IMPL; DEV is rxe, as in that page.
# shellcheck source=scripts/guest/lib.sh
. /payload/guest/lib.sh

page=/payload/files/ulps.md

# commands SECTION: its fenced blocks.
commands() {
	awk -v section="## $1" '
		/^## / { here = $0 == section }
		/^```/ { inside = here && !inside && $0 == "```sh"; next }
		inside' "$page"
}

run() {
	step "$1"
	commands "$1" >/tmp/commands
	[[ -s /tmp/commands ]] || fail "docs/ulps.md has no commands for: $1"
	bash -eux /tmp/commands || fail "docs/ulps.md, $1"
}

[[ $DEV == rxe ]] || fail "docs/ulps.md is about rxe"
run "The device"
modprobe ib_core
require_implementation "$IMPL"
record device=rxe
paths_start
mapfile -t sections < <(sed -n 's/^## //p' "$page")
((${#sections[@]} == 6)) || fail "docs/ulps.md has ${#sections[@]} sections"
for section in "${sections[@]:1}"; do
	if [[ $section == "SMB Direct" ]] && ! modinfo -F depends ksmbd | grep -qE 'smbdirect|rdma_cm'; then
		step "SMB Direct: this kernel's ksmbd does not have it"
		continue
	fi
	run "$section"
done
paths_stop
require "form_sg > 0" "form_bvec > 0" "path_mr == 0"
