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
dir=$(cd "$dir" && pwd)
here=$(cd "$here" && pwd)
rm -f "$dir"/*.failed
started=0

# In a folder of its own: check NAME yes|no DEFINES...: does the model hold?
check_one() {
	name=$1 holds=$2
	shift 2
	mkdir -p "$dir/$name"
	cd "$dir/$name"
	spin "$@" -a "$here/claim.pml" >spin.out
	case $name in
	break_*) optimize=-O0 ;; # it ends soon: compiling takes longer
	*) optimize=-O1 ;;
	esac
	cc $optimize -DSAFETY -DCOLLAPSE -o pan pan.c
	timeout 300 ./pan -m400000 -w24 >pan.out 2>&1 || true
	rm -f claim.pml.trail
	if grep -q 'errors: 0$' pan.out && ! grep -q 'max search depth too small' pan.out; then
		found=yes
	else
		found=no
	fi
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out)
	if [ "$found" = "$holds" ]; then
		echo "ok $name ($states states)"
	else
		echo "not ok $name: expected $holds; see $dir/$name/pan.out"
		touch "$dir/$name.failed"
	fi
}

# Two at a time: most of it is compiling.
check() {
	(check_one "$@") &
	started=$((started + 1))
	[ $((started % 2)) != 0 ] || wait
}

check one_sender yes -DSENDERS=1
check one_sender_places yes -DSENDERS=1 -DPOSTS=3 -DSLOTS=2 -DSHORT=0
check two_senders yes -DMESSAGES=1
check two_senders_stay yes -DMESSAGES=1 -DSTAYS=1
check one_dies yes -DMESSAGES=1 -DDEATH=1 -DSHORT=0
check one_lies yes -DMESSAGES=1 -DLIES=3 -DSHORT=0
[ "${BEELINE_FULL:-0}" = 0 ] || {
	check one_sender_three yes -DSENDERS=1 -DMESSAGES=3 -DPOSTS=3
	check two_senders_two yes -DMESSAGES=2 -DSHORT=0
	check one_dies_short yes -DMESSAGES=1 -DDEATH=1
	check one_lies_short yes -DMESSAGES=1 -DLIES=2
}
check break_second_look no -DSENDERS=1 -DPOSTS=3 -DSLOTS=2 -DSHORT=0 -DBREAK=1
check break_messages_before no -DSENDERS=1 -DBREAK=2
check break_message_word no -DMESSAGES=1 -DSHORT=0 -DBREAK=3
check break_look_again no -DMESSAGES=1 -DSHORT=0 -DBREAK=4
check break_private_receive no -DSENDERS=1 -DBREAK=5
check break_one_board no -DSHORT=0 -DSILENT=1 -DBREAK=6
check break_look_at_rings no -DSENDERS=1 -DSHORT=0 -DBREAK=7
check break_believe_liar no -DMESSAGES=1 -DLIES=1 -DSHORT=0 -DBREAK=8
check break_forget_passed no -DMESSAGES=1 -DLIES=3 -DSHORT=0 -DBREAK=9
check break_believe_disowned no -DMESSAGES=1 -DLIES=3 -DSHORT=0 -DBREAK=10
wait
for file in "$dir"/*.failed; do
	[ ! -e "$file" ] || exit 1
done
