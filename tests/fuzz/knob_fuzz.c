/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * knob_fuzz.c: a libFuzzer target: any text as the value of every knob. What is
 * accepted lies in the knob's range. One thread, no state.
 */
#include <stdlib.h>
#include <string.h>

#include "base/knobs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1); /* of exactly this size: reading on is seen */

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	for (size_t i = 0; i < bl_knob_count; i++) {
		const struct bl_knob_info *k = &bl_knob_table[i];
		uint64_t value = 0;

		if (bl_knob_parse(k, text, &value))
			continue;
		if ((value < k->least || value > k->most) &&
		    !(value == BL_KNOB_AUTO && k->init == BL_KNOB_AUTO))
			abort();
	}
	free(text);
	return 0;
}
