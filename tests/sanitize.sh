#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# sanitize.sh DIR KIND [SUITE...]: build in DIR with the sanitizers of KIND and run
# the suites (default: unit process threads fault), one line per test:
#	ok NAME        not ok NAME: why        skip NAME: why
# and one of the latter for each part of a test that was skipped.
# KIND is `memory` (AddressSanitizer, leaks, undefined behaviour) or `threads`
# (ThreadSanitizer). Reports of a failed test are printed behind its line. Exit
# status 1 if any failed.
set -eu
dir=$1
kind=$2
shift 2
top=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- unit process threads fault
case $kind in
memory) flags=address,undefined ;;
threads) flags=thread ;;
*)
	echo "usage: $0 DIR memory|threads [SUITE...]" >&2
	exit 2
	;;
esac

# gcc: its sanitizers are there with the compiler, and the provider, which is
# loaded into programs that know nothing of them, links against its libraries.
# -O1 -g1: a third of the time to compile, and reports name the lines all the same. Warnings
# are tests/lint's matter.
if [ ! -f "$dir/build.ninja" ]; then
	mkdir -p "$dir"
	meson setup "$dir" "$top" -Db_sanitize=$flags -Db_lundef=false -Dbuildtype=debugoptimized \
		-Doptimization=1 "-Dc_args=['-fno-omit-frame-pointer', '-g1', '-w']" >"$dir/setup.log" 2>&1 || {
		cat "$dir/setup.log"
		exit 1
	}
fi

# In the short run, which takes few suites, what they need alone: their programs, and the provider,
# which the process tests load.
needed()
{
	meson introspect "$dir" --tests | python3 -c '
import json, os, sys
top = os.path.realpath(sys.argv[1])
for test in json.load(sys.stdin):
    suites = {suite.rpartition(":")[2] for suite in test["suite"]}
    if suites & set(sys.argv[2:]):
        path = os.path.relpath(os.path.realpath(test["cmd"][0]), top)
        if not path.startswith(".."):
            print(path)' "$dir" "$@" | sort -u
	echo src/fabric/libbeeline-fi.so
}
if [ "${BEELINE_LONG:-0}" = 1 ]; then
	long=
	ninja -C "$dir" --quiet
else
	long='--no-suite long'
	# shellcheck disable=SC2046 # a list of words
	ninja -C "$dir" --quiet $(needed "$@")
fi

# What the tests link is instrumented itself; where the provider is loaded into an
# uninstrumented libfabric the run time comes with the test program.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:handle_segv=1
export LSAN_OPTIONS=suppressions=$top/tests/sanitize/leaks.supp:print_suppressions=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$top/tests/sanitize/threads.supp

# Lines of tests, with the first reason that the log LOG has for each that failed: its
# case, or what the sanitizer found.
why()
{
	awk -v log_file="$1" '
	BEGIN {
		while ((getline line < log_file) > 0)
			if (sub(/^test: */, "", line))
				name = line
			else if (!(name in reason) &&
				 line ~ /^result: .*(killed|time)|^not ok [^0-9]|^\[  FAILED  \] [^0-9]|runtime error: |(ERROR|WARNING): [A-Za-z]*Sanitizer/)
				reason[name] = line
	}
	/^not ok / && substr($0, 8) in reason { $0 = $0 ": " reason[substr($0, 8)] }
	{ print }'
}

# The last lines of the log LOG that tests wrote which failed by LINES; indented, for those are
# no results.
sections()
{
	sed -n 's/^not ok \(.* \/ [^:]*\).*/\1/p' "$1" | while read -r name; do
		awk -v name="$name" '
		/^test: / { sub(/^test: */, ""); on = $0 == name }
		on && !/^\[ RUN|^\[       OK|^ok / { print "    " $0 }' "$2" | tail -100
	done
}

failed=0
for suite in "$@"; do
	# shellcheck disable=SC2086 # words, or none
	meson test -C "$dir" --no-rebuild --suite "$suite" $long --timeout-multiplier 4 \
		--logbase "$suite" >"$dir/$suite.out" 2>&1 || true
	sed -n -e 's/^ *[0-9]*\/[0-9]* *\(.*[^ ]\)  *OK  .*/ok \1/p' \
		-e 's/^ *[0-9]*\/[0-9]* *\(.*[^ ]\)  *SKIP  .*/skip \1: see the log/p' \
		-e 's/^ *[0-9]*\/[0-9]* *\(.*[^ ]\)  *\(FAIL\|TIMEOUT\|ERROR\)  .*/not ok \1/p' \
		"$dir/$suite.out" | why "$dir/meson-logs/$suite.txt" >"$dir/$suite.lines"
	cat "$dir/$suite.lines"
	grep '^skip ' "$dir/meson-logs/$suite.txt" || true # parts of a test, with the reason
	if [ ! -s "$dir/$suite.lines" ]; then
		echo "not ok $suite: no test ran"
		cat "$dir/$suite.out"
		failed=1
	elif grep -q '^not ok' "$dir/$suite.lines"; then
		failed=1
		sections "$dir/$suite.lines" "$dir/meson-logs/$suite.txt"
	fi
done
exit $failed
