/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* common.c: see common.h. */
#include "common.h"

struct beeline_endpoint *ep;

bool move(void)
{
	beeline_progress(ep);
	return false;
}

void enter_world(unsigned flags)
{
	struct beeline_address mine, all[T_PROC_MAX];

	L_OK(beeline_open(&ep, flags));
	beeline_get_address(ep, &mine);
	t_allgather(&mine, sizeof mine, all, NULL);
	for (int i = 0; i < t_nproc; i++) {
		int peer;

		L_OK(beeline_add_peer(ep, &all[i], &peer));
		T_EQ(peer, i);
	}
}

void leave_world(void)
{
	t_at("leaving");
	barrier();
	beeline_close(ep);
	ep = NULL;
}

void barrier(void)
{
	t_barrier_with(move);
}

void barrier_outside(void)
{
	t_barrier_with(NULL);
}

unsigned char *bytes_new(size_t len)
{
	unsigned char *buf = calloc(1, len + 1);

	T_CHECK(buf, "no memory for %zu bytes", len);
	return buf;
}

static unsigned char byte_at(size_t i, unsigned seed)
{
	return (unsigned char)(i * 131 + (i >> 8) * 7 + (i >> 16) + seed * 29 + 1);
}

void bytes_fill(unsigned char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = byte_at(i, seed);
}

void bytes_check(const char *what, const unsigned char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		T_CHECK(buf[i] == byte_at(i, seed), "%s: byte %zu of %zu is %#x, not %#x", what, i,
			len, buf[i], byte_at(i, seed));
}

void status_check(const char *what, const struct beeline_status *s, int source, uint32_t tag,
		  uint32_t context, size_t length)
{
	T_CHECK(s->source == source && s->tag == tag && s->context == context &&
			s->length == length && s->sent == length && !s->error,
		"%s: source %d tag %#x context %#x length %zu sent %zu error %d; expected "
		"source %d tag %#x context %#x length %zu",
		what, s->source, s->tag, s->context, s->length, s->sent, s->error, source, tag,
		context, length);
}
