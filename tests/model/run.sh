#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh DIR [NAME yes|no DEFINES...]: check claim.pml, and delegated.pml (whose names begin so), with
# spin, and that the check can fail: each BREAK takes away one rule of the protocol. One line per
# run: ok NAME or not ok NAME. With a name only that run: some at a time, for most of it is
# compiling.
set -eu
mkdir -p "$1"
dir=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
command -v spin >/dev/null || {
	echo "skip model: spin is missing (Debian: spin)"
	exit 77
}

# In a folder of its own: does the model hold?
check_one() {
	name=$1 holds=$2
	shift 2
	mkdir -p "$dir/$name"
	cd "$dir/$name"
	case $name in
	serve*) model=delegated.pml ;;
	*) model=claim.pml ;;
	esac
	spin "$@" -a "$here/$model" >spin.out
	case $name in
	*break_*) optimize=-O0 ;; # it ends soon: compiling takes longer
	*) optimize=-O1 ;;
	esac
	cc $optimize -DSAFETY -DCOLLAPSE -o pan pan.c
	timeout 300 ./pan -m400000 -w24 >pan.out 2>&1 || true
	rm -f "$model.trail"
	if grep -q 'errors: [1-9]' pan.out; then
		found=no
	elif grep -q 'errors: 0$' pan.out && ! grep -q 'max search depth too small' pan.out; then
		found=yes
	else
		found=nothing # it was stopped, or there was no memory
	fi
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.out)
	if [ "$found" = "$holds" ]; then
		echo "ok $name ($states states)"
	else
		echo "not ok $name: expected $holds; see $dir/$name/pan.out"
		return 1
	fi
}

if [ $# -gt 1 ]; then
	shift
	check_one "$@"
	exit
fi

# What takes longest comes first, so that nothing waits for it in the end.
runs()
{
	[ "${BEELINE_LONG:-0}" != 1 ] || {
		echo "one_lies yes -DMESSAGES=1 -DLIES=3 -DSHORT=0"
		echo "one_sender_three yes -DSENDERS=1 -DMESSAGES=3 -DPOSTS=3"
		echo "two_senders_two yes -DMESSAGES=2 -DSHORT=0"
		echo "one_dies_short yes -DMESSAGES=1 -DDEATH=1"
		echo "one_lies_short yes -DMESSAGES=1 -DLIES=2"
		echo "withdraws_two yes -DMESSAGES=1 -DWITHDRAWS=1 -DSHORT=0"
		echo "withdraws_dies yes -DMESSAGES=1 -DWITHDRAWS=1 -DDEATH=1 -DSHORT=0"
	}
	[ "${BEELINE_LONG:-0}" = 1 ] || echo "one_lies_once yes -DMESSAGES=1 -DLIES=1 -DSHORT=0"
	echo "two_senders yes -DMESSAGES=1"
	echo "two_senders_stay yes -DMESSAGES=1 -DSTAYS=1"
	echo "one_dies yes -DMESSAGES=1 -DDEATH=1 -DSHORT=0"
	[ "${BEELINE_LONG:-0}" != 1 ] || {
		echo "break_believe_disowned no -DMESSAGES=1 -DLIES=3 -DSHORT=0 -DBREAK=10"
		echo "break_forget_passed no -DMESSAGES=1 -DLIES=3 -DSHORT=0 -DBREAK=9"
	}
	echo "withdraws yes -DSENDERS=1 -DWITHDRAWS=1"
	echo "one_sender yes -DSENDERS=1"
	echo "one_sender_places yes -DSENDERS=1 -DPOSTS=3 -DSLOTS=2 -DSHORT=0"
	echo "break_second_look no -DSENDERS=1 -DPOSTS=3 -DSLOTS=2 -DSHORT=0 -DBREAK=1"
	echo "break_messages_before no -DSENDERS=1 -DBREAK=2"
	echo "break_message_word no -DMESSAGES=1 -DSHORT=0 -DBREAK=3"
	echo "break_look_again no -DMESSAGES=1 -DSHORT=0 -DBREAK=4"
	echo "break_private_receive no -DSENDERS=1 -DBREAK=5"
	echo "break_one_board no -DSHORT=0 -DSILENT=1 -DBREAK=6"
	echo "break_look_at_rings no -DSENDERS=1 -DSHORT=0 -DBREAK=7"
	echo "break_withdraw_untold no -DSENDERS=1 -DWITHDRAWS=1 -DSHORT=0 -DBREAK=11"
	echo "break_withdraw_word no -DSENDERS=1 -DWITHDRAWS=1 -DSHORT=0 -DBREAK=12"
	echo "serve yes"
	echo "serve_break_look_at_ours no -DBREAK=1"
	echo "serve_break_look_at_serving no -DBREAK=2"
	echo "serve_break_say_first no -DBREAK=3"
	echo "serve_break_take_first no -DBREAK=4"
	echo "serve_break_say_not no -DBREAK=5"
	echo "break_believe_liar no -DMESSAGES=1 -DLIES=1 -DSHORT=0 -DBREAK=8"
}
jobs=$(nproc)
[ "$jobs" -le 4 ] || jobs=4 # each takes up to 2 GB
runs | xargs -P "$jobs" -L 1 sh "$0" "$dir" # fails if one does
