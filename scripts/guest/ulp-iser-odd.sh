# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# iSER with unsolicited data that ends in the middle of a page: see
# ulp-iser.sh.
UNSOLICITED=6144
# shellcheck source=scripts/guest/ulp-iser.sh
. /payload/guest/ulp-iser.sh
