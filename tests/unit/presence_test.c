/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * presence_test.c: who is in the library, by what it has said of itself
 * (transport/local/ways/frag.h): of a neighbour that has left it a moment ago, or that copies
 * something until it says when, what is asked for soon is expected.
 */
#include "transport/local/ways/frag.h"

#include "base/clock.h"
#include "transport/local/ways/rndv.h"
#include "transport/local/lane/wire.h"
#include "unit/table.h"

#define US 20 /* between two sides of a limit: this process may lose its processor meanwhile */

struct here_row {
	struct row row;
	size_t len;
	int here, active; /* us from now: it was seen, or will be */
	bool leaves;	  /* it is used to, after large messages */
	bool gives, waits;
};

#define NEVER -1000000
static const struct here_row rows[] = {
	{{"now", "it polls"}, 65536, 0, NEVER, .gives = true, .waits = true},
	{{"now, used to leave", "it waits for nothing"}, 65536, 0, NEVER, true, true, false},
	{{"never", "it computes"}, 524288, NEVER, NEVER, .gives = false},
	{{"active", "either word counts"}, 65536, NEVER, 0, .gives = true, .waits = true},
	{{"has left", "for longer than it takes to use 64 KiB"},
	 65536,
	 -14 - US,
	 NEVER,
	 .gives = false},
	{{"has left, longer message", "it uses 512 KiB"},
	 524288,
	 -42 + US,
	 NEVER,
	 .gives = false,
	 .waits = true},
	{{"has left, longer message", "for longer than that"},
	 524288,
	 -42 - US,
	 NEVER,
	 .gives = false},
	{{"copies", "it will read soon"}, 65536, 100 - US, NEVER, .gives = true, .waits = true},
	{{"copies for longer", "what is shorter isn't worth the time"},
	 65536,
	 132 + US,
	 NEVER,
	 .gives = false},
	{{"copies as much", "what takes as long is"}, 524288, 362 - US, NEVER, .waits = true},
	{{"copies for longer", "than that"}, 524288, 362 + US, NEVER, .gives = false},
};

/* When it was asked, whatever happens to this process meanwhile. */
static void as_it_says(struct bl_seg_header *header, const struct here_row *row, bool *gives,
		       bool *waits)
{
	const struct bl_peer peer = {.mapped.header = header};
	int64_t us = (int64_t)bl_ticks_per_us();
	uint64_t now;

	do {
		now = bl_ticks();
		atomic_store(&header->here, now + (uint64_t)(row->here * us));
		atomic_store(&header->active, now + (uint64_t)(row->active * us));
		*gives = bl_gives_room(&peer);
		*waits = bl_waits_here(&peer, row->len);
	} while (bl_ticks() - now > (uint64_t)((US - 10) * us));
}

static void is_here(void **state)
{
	const struct here_row *row = TABLE_ROW(struct here_row, state);
	struct bl_seg_header *header = aligned_alloc(BL_LINE, sizeof *header);
	bool gives, waits;

	assert_non_null(header);
	memset(header, 0, sizeof *header);
	atomic_store(&header->stays, !row->leaves);
	as_it_says(header, row, &gives, &waits);
	assert_int_equal(gives, row->gives);
	assert_int_equal(waits, row->waits);
	free(header);
}

int main(void)
{
	TABLE_ROWS("here", is_here, rows);
	return table_run("presence");
}
