/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * knobs.c: see knobs.h. The values are process-wide and constant after the
 * first call, which any thread may make.
 */
#include "base/knobs.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"

#define UPPER_log	     "FI_BEELINE_LOG"
#define UPPER_eager_max	     "FI_BEELINE_EAGER_MAX"
#define UPPER_inject	     "FI_BEELINE_INJECT"
#define UPPER_inject_queue   "FI_BEELINE_INJECT_QUEUE"
#define UPPER_delivery	     "FI_BEELINE_DELIVERY"
#define UPPER_eager_long_max "FI_BEELINE_EAGER_LONG_MAX"
#define UPPER_long_ring	     "FI_BEELINE_LONG_RING"
#define UPPER_prefetch	     "FI_BEELINE_PREFETCH"
#define UPPER_copybuf	     "FI_BEELINE_COPYBUF"
#define UPPER_split_min	     "FI_BEELINE_SPLIT_MIN"
#define UPPER_chunk_max	     "FI_BEELINE_CHUNK_MAX"
#define UPPER_copy	     "FI_BEELINE_COPY"
#define UPPER_huge	     "FI_BEELINE_HUGE"
#define UPPER_spin	     "FI_BEELINE_SPIN"
#define UPPER_numa	     "FI_BEELINE_NUMA"
#define UPPER_yield	     "FI_BEELINE_YIELD"
#define UPPER_idle	     "FI_BEELINE_IDLE"
#define UPPER_overlap	     "FI_BEELINE_OVERLAP"
#define UPPER_rma_delegate   "FI_BEELINE_RMA_DELEGATE"
#define UPPER_rma_batch	     "FI_BEELINE_RMA_BATCH"
#define UPPER_migrate	     "FI_BEELINE_MIGRATE"

const struct bl_knob_info bl_knob_table[] = {
#define X(field, kind_, init_, least_, most_, choices_, help_)                                     \
	{.name = #field,                                                                           \
	 .variable = UPPER_##field,                                                                \
	 .choices = choices_,                                                                      \
	 .help = help_,                                                                            \
	 .kind = kind_,                                                                            \
	 .init = init_,                                                                            \
	 .least = least_,                                                                          \
	 .most = most_,                                                                            \
	 .offset = offsetof(struct bl_knobs, field)},
	BL_KNOBS(X)
#undef X
};
const size_t bl_knob_count = bl_countof(bl_knob_table);

static struct bl_knobs values;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int parse_choice(const char *choices, const char *text, uint64_t *value)
{
	size_t length = strlen(text);

	for (uint64_t i = 0;; i++) {
		size_t n = strcspn(choices, "|");

		if (n == length && !strncasecmp(choices, text, n)) {
			*value = i;
			return 0;
		}
		if (!choices[n])
			return -EINVAL;
		choices += n + 1;
	}
}

static int parse_number(const struct bl_knob_info *info, const char *text, uint64_t *value)
{
	char *end;
	unsigned shift = 0;

	if (info->init == BL_KNOB_AUTO && !strcasecmp(text, "auto")) {
		*value = BL_KNOB_AUTO;
		return 0;
	}
	if (*text < '0' || *text > '9') /* strtoull would take signs and blanks */
		return -EINVAL;
	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	if (info->kind == BL_KNOB_SIZE && *end) {
		const char *units = "kmg", *unit = strchr(units, *end | 0x20);

		if (!unit || end[1])
			return -EINVAL;
		shift = 10 * (unsigned)(unit - units + 1);
	} else if (*end) {
		return -EINVAL;
	}
	if (number > info->most >> shift || number << shift < info->least)
		return -EINVAL;
	*value = number << shift;
	return 0;
}

int bl_knob_parse(const struct bl_knob_info *info, const char *text, uint64_t *value)
{
	if (info->kind == BL_KNOB_CHOICE)
		return parse_choice(info->choices, text, value);
	return parse_number(info, text, value);
}

static void complain(const struct bl_knob_info *info, const char *text)
{
	if (info->choices)
		fprintf(stderr, "beeline: %s=%s is ignored: it takes one of %s\n", info->variable,
			text, info->choices);
	else
		fprintf(stderr, "beeline: %s=%s is ignored: it takes a %s from %llu to %llu%s\n",
			info->variable, text,
			info->kind == BL_KNOB_SIZE ? "size in bytes (K, M, G allowed)" : "number",
			(unsigned long long)info->least, (unsigned long long)info->most,
			info->init == BL_KNOB_AUTO ? " or auto" : "");
}

static void read_environment(void)
{
	for (size_t i = 0; i < bl_knob_count; i++) {
		const struct bl_knob_info *info = &bl_knob_table[i];
		const char *text = getenv(info->variable);
		uint64_t value = info->init;

		if (text && *text && bl_knob_parse(info, text, &value))
			complain(info, text);
		memcpy((char *)&values + info->offset, &value, sizeof value);
	}
}

const struct bl_knobs *bl_knobs(void)
{
	pthread_once(&once, read_environment);
	return &values;
}
