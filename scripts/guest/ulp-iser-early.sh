# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# iSER with immediate and unsolicited data of whole pages: see ulp-iser.sh.
UNSOLICITED=8192
# shellcheck source=scripts/guest/ulp-iser.sh
. /payload/guest/ulp-iser.sh
