/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ended_test.c: what is said of an operation that ended with an error (core/op_error.c): whom it
 * was with, the way and what to try; once, and nothing of what another line tells of.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "core/op_error.h"
#include "transport/local/local.h"
#include "unit/table.h"

static char said[512];
static unsigned lines[BL_LOG_DEBUG + 1];

static void hear(enum bl_log_level level, const char *text)
{
	lines[level]++;
	snprintf(said, sizeof said, "%s", text);
}

struct error_row {
	struct row row;
	int err;
	const char *tries;
};

static const struct error_row rows[] = {
	{{"no such memory", "a buffer that is gone"}, EFAULT, "still mapped"},
	{{"no such key", "a region that is gone"}, EKEYREJECTED, "still there"},
	{{"not permitted", "by the kernel"}, EPERM, "FI_BEELINE_COPY=ring"},
	{{"no memory", "its remedy is every call's"}, ENOMEM, "raise the limit"},
	{{"any other", "says at least how to hear more"}, EIO, "FI_BEELINE_LOG=debug"},
};

static struct bl_peer *neighbour(uint32_t pid)
{
	static struct bl_peer peer;

	memset(&peer, 0, sizeof peer);
	peer.addr.pid = pid;
	strcpy(peer.addr.hostname, "here");
	return &peer;
}

static void says_who_how_and_what_to_try(void **state)
{
	const struct error_row *row = TABLE_ROW(struct error_row, state);
	struct bl_peer *peer = neighbour(77);

	memset(lines, 0, sizeof lines);
	bl_tell_error(peer, "a read of", 4096, "one-sided: directly", row->err);
	assert_int_equal(lines[BL_LOG_WARN], 1);
	assert_non_null(strstr(said, "a read of 4096 bytes, process 77 on here, failed"));
	assert_non_null(strstr(said, "one-sided: directly"));
	assert_non_null(strstr(said, strerror(row->err)));
	assert_non_null(strstr(said, row->tries));
	/* The next thousand of the kind are no news, those with another are. */
	for (int i = 0; i < 1000; i++)
		bl_tell_error(peer, "a read of", 4096, "one-sided: directly", row->err);
	assert_int_equal(lines[BL_LOG_WARN], 1);
	assert_int_equal(lines[BL_LOG_INFO], 1000);
	bl_tell_error(neighbour(78), "a read of", 4096, "one-sided: directly", row->err);
	assert_int_equal(lines[BL_LOG_WARN], 2);
}

static void says_nothing_of_what_is_cancelled_or_gone(void **state)
{
	struct bl_peer *peer = neighbour(79);

	(void)state;
	memset(lines, 0, sizeof lines);
	bl_tell_error(peer, "a receive of", 8, "rendezvous", ECANCELED);
	peer->dead = ECONNRESET;
	bl_tell_error(peer, "a receive of", 8, "rendezvous", ECONNRESET);
	assert_int_equal(lines[BL_LOG_WARN] + lines[BL_LOG_INFO], 0);
}

int main(void)
{
	bl_log_redirect(hear);
	TABLE_ROWS("error", says_who_how_and_what_to_try, rows);
	TABLE_TEST(says_nothing_of_what_is_cancelled_or_gone);
	return table_run("ended");
}
