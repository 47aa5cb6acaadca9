#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh DIR SECONDS [TARGET...]: build the fuzz targets with clang in DIR and run
# them for so long, all at the same time, beginning with the committed corpus. What they
# find is left in DIR/TARGET-crash-*, to be run again as: DIR/tests/fuzz/TARGET_fuzz FILE
set -eu
dir=$1
seconds=$2
shift 2
here=$(dirname "$0")
[ $# -gt 0 ] || set -- hello knob lane

if ! command -v clang >/dev/null; then
	echo "skip fuzz: clang is missing (Debian: clang, libclang-rt-14-dev)"
	exit 0
fi
if [ ! -f "$dir/build.ninja" ]; then
	mkdir -p "$dir"
	CC=clang meson setup "$dir" "$here/../.." -Db_sanitize=address,undefined -Db_lundef=false \
		-Dbuildtype=debugoptimized -Dc_args='-fsanitize=fuzzer-no-link -DBL_RMA_PART=4096' >"$dir/setup.log" 2>&1 || {
		cat "$dir/setup.log"
		exit 1
	}
fi
targets=
for target in "$@"; do
	targets="$targets tests/fuzz/${target}_fuzz"
done
# shellcheck disable=SC2086 # a list of words
ninja -C "$dir" --quiet $targets
for target in "$@"; do
	mkdir -p "$dir/corpus-$target"
	rm -f "$dir/$target.done"
	(
		UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 FI_BEELINE_LOG=warn \
			"$dir/tests/fuzz/${target}_fuzz" -max_total_time="$seconds" -rss_limit_mb=2048 \
			-timeout=20 -max_len=4096 -artifact_prefix="$dir/$target-" -print_final_stats=1 \
			"$dir/corpus-$target" "$here/corpus/$target" >"$dir/$target.log" 2>&1 &&
			: >"$dir/$target.done"
	) &
done
wait
failed=0
for target in "$@"; do
	if [ -f "$dir/$target.done" ]; then
		echo "ok $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/$target.log") inputs"
	else
		failed=1
		grep -v '^beeline' "$dir/$target.log" | tail -40
		echo "not ok $target"
	fi
done
exit $failed
