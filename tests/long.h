/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * long.h: whether this is the long run of the tests (docs/testing.md): in the short one they
 * repeat themselves less often.
 */
#ifndef BL_TESTS_LONG_H
#define BL_TESTS_LONG_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool test_long(void)
{
	const char *text = getenv("BEELINE_LONG");

	return text && !strcmp(text, "1");
}

#endif
