#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh DIR: check claim.pml with spin, and that the check can fail: each BREAK
# takes away one rule of the protocol. One line per run: ok NAME or not ok NAME.
set -eu
dir=$1
here=$(cd "$(dirname "$0")" && pwd)
command -v spin >/dev/null || {
	echo "skip model: spin is missing (Debian: spin)"
	exit 77
}
mkdir -p "$dir"
cd "$dir"
failed=0

# check NAME yes|no DEFINES...: does the model hold?
check() {
	name=$1 holds=$2
	shift 2
	spin "$@" -a "$here/claim.pml" >spin.out
	cc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c
	timeout 300 ./pan -m200000 -w24 >"$name.out" 2>&1 || true
	rm -f claim.pml.trail
	if grep -q 'errors: 0$' "$name.out" && ! grep -q 'max search depth too small' "$name.out"; then
		found=yes
	else
		found=no
	fi
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$name.out")
	if [ "$found" = "$holds" ]; then
		echo "ok $name ($states states)"
	else
		echo "not ok $name: expected $holds; see $dir/$name.out"
		failed=1
	fi
}

check one_sender yes -DSENDERS=1 -DMESSAGES=2 -DPOSTS=2
check two_senders yes -DMESSAGES=1 -DPOSTS=2
[ "${BEELINE_FULL:-0}" = 0 ] || {
	check one_sender_three yes -DSENDERS=1 -DMESSAGES=3 -DPOSTS=3
	check two_senders_two yes -DMESSAGES=2 -DPOSTS=2 -DSHORT=0
}
check break_second_look no -DSENDERS=1 -DMESSAGES=2 -DPOSTS=3 -DSHORT=0 -DBREAK=1
check break_messages_before no -DSENDERS=1 -DBREAK=2
check break_message_word no -DMESSAGES=1 -DSHORT=0 -DBREAK=3
check break_look_again no -DMESSAGES=1 -DPOSTS=2 -DSHORT=0 -DBREAK=4
check break_private_receive no -DSENDERS=1 -DBREAK=5
check break_look_at_rings no -DSENDERS=1 -DSHORT=0 -DBREAK=6
exit $failed
