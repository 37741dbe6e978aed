# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# iSER with immediate and unsolicited data: see ulp-iser.sh.
UNSOLICITED=1
# shellcheck source=scripts/guest/ulp-iser.sh
. /payload/guest/ulp-iser.sh
