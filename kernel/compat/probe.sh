#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Compiles compat/probes/*.c against the kernel build tree $1 and writes compat/config.h.
# make(1) is called once for all of them; which ones compile is what we want to know.
set -eu
kdir=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$here/.probe
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT
cp "$here"/probes/*.c "$work"
objects=$(cd "$work" && for f in *.c; do echo "${f%.c}.o"; done)
: >"$work/Kbuild"
# shellcheck disable=SC2086  # a list of file names of our own
${MAKE:-make} -k -s -C "$kdir" M="$work" $objects >"$work/log" 2>&1 || :
if [ ! -f "$work/control.o" ]; then
	cat "$work/log" >&2
	echo "beeline: no module can be compiled against $kdir (are its headers complete?)" >&2
	exit 1
fi
{
	echo "/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */"
	echo "/* Written by probe.sh for $kdir. */"
	for o in $objects; do
		name=$(echo "${o%.o}" | tr '[:lower:]' '[:upper:]')
		if [ "$name" != CONTROL ] && [ -f "$work/$o" ]; then
			echo "#define BL_HAVE_$name"
		fi
	done
} >"$here/config.h"
