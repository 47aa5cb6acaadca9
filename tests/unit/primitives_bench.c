/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * primitives_bench.c: what the primitives of a message cost on this machine, next
 * to the tests that show they are right: the ring, the matcher, the chunk
 * protocol. Nanoseconds per operation, the least of several rounds. Not a test:
 *	ninja -C build tests/unit/primitives_bench && build/tests/unit/primitives_bench
 * One thread, so what is measured is work, not the way of a line between cores
 * (bench/ has that).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint/api.h"

#define ROUNDS 15

static void report(const char *what, double ns)
{
	printf("%-44s %8.1f ns\n", what, ns);
}

/* The least time of `times` calls of run(arg), per call. */
static double least(void (*run)(void *arg, unsigned times), void *arg, unsigned times)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t t = bl_ticks();

		run(arg, times);
		t = bl_ticks() - t;
		if (t < best)
			best = t;
	}
	return (double)best * 1000.0 / (double)bl_ticks_per_us() / times;
}

/* --- ring ------------------------------------------------------------------ */

struct ring {
	struct bl_tx tx;
	struct bl_rx rx;
	uint32_t len;
	uint8_t from[16384], to[16384];
};

static void through_the_ring(void *arg, unsigned times)
{
	struct ring *r = arg;

	while (times--) {
		if (!bl_tx_room(&r->tx))
			bl_tx_refresh(&r->tx);

		struct bl_slot *slot = bl_tx_slot(&r->tx);

		if (r->len <= BL_SLOT_INLINE) {
			bl_slot_fill(slot, r->from, r->len);
		} else {
			uint8_t *to = bl_tx_payload(&r->tx, r->len);

			memcpy(to, r->from, r->len);
			slot->at = (uint32_t)(to - r->tx.lane->payload);
			bl_tx_payload_take(&r->tx, r->len);
		}
		slot->head = BL_HEAD(r->len, BL_OP_TAGGED, 0);
		bl_tx_publish(&r->tx, slot, r->len);
		slot = bl_rx_peek(&r->rx);
		bl_move(r->to, bl_rx_bytes(&r->rx, slot, r->len), r->len);
		bl_rx_consume(&r->rx, r->len);
	}
}

static void bench_ring(void)
{
	static const uint32_t lengths[] = {0, 8, 40, 41, 288, 289, 4096, 16384};
	static struct ring r;
	struct bl_lane *lane = aligned_alloc(BL_PAIR, sizeof *lane);

	if (!lane)
		abort();
	memset(lane, 0, sizeof *lane);
	r.tx = (struct bl_tx){.slot = lane->slot, .lane = lane, .limit = BL_SLOTS};
	r.rx = (struct bl_rx){.slot = lane->slot, .lane = lane};
	for (size_t i = 0; i < bl_countof(lengths); i++) {
		char what[64];

		r.len = lengths[i];
		snprintf(what, sizeof what, "ring: %u bytes in and out", r.len);
		report(what, least(through_the_ring, &r, 20000));
	}
	free(lane);
}

/* --- matcher --------------------------------------------------------------- */

struct matcher {
	struct bl_ep *ep;
	struct bl_cq *cq;
	bool early;
	char byte;
};

static void send_to_self(struct matcher *m, uint64_t tag)
{
	struct bl_comp comp;

	while (bl_inject(m->ep, &m->byte, 1, 0, tag, 0, BL_TAGGED) == -EAGAIN)
		bl_cq_read(m->cq, &comp, 1, sizeof comp, NULL);
}

static void post(struct matcher *m, uint64_t tag)
{
	if (bl_recv_buf(m->ep, &m->byte, 1, 0, tag, 0, NULL, BL_TAGGED | BL_COMPLETION))
		abort();
}

static void match_one(void *arg, unsigned times)
{
	struct matcher *m = arg;
	struct bl_comp comp;

	while (times--) {
		if (m->early) {
			send_to_self(m, 1);
			bl_ep_progress(m->ep);
			post(m, 1);
		} else {
			post(m, 1);
			send_to_self(m, 1);
		}
		while (bl_cq_read(m->cq, &comp, 1, sizeof comp, NULL) != 1)
			;
	}
}

static void bench_match(void)
{
	static const unsigned depths[] = {0, 1, 16, 256};
	struct bl_domain *domain;
	struct bl_av *av;
	struct bl_addr addr;
	struct matcher m = {.early = false};
	unsigned posted = 0;
	uint64_t index;

	if (bl_domain_open(&domain) || bl_av_open(domain, &av) || bl_cq_open(domain, 0, &m.cq) ||
	    bl_ep_open(domain, &m.ep) || bl_ep_bind_av(m.ep, av) ||
	    bl_ep_bind_cq(m.ep, m.cq, BL_SEND | BL_RECV) || bl_ep_enable(m.ep))
		abort();
	bl_ep_getname(m.ep, &addr);
	if (bl_av_insert(av, &addr, &index))
		abort();
	m.early = true;
	match_one(&m, 10); /* connects */
	report("match: message first, then its receive", least(match_one, &m, 5000));
	m.early = false;
	for (size_t i = 0; i < bl_countof(depths); i++) {
		char what[64];

		for (; posted < depths[i]; posted++)
			post(&m, 1000 + posted);
		snprintf(what, sizeof what, "match: behind %u other receives", depths[i]);
		report(what, least(match_one, &m, 5000));
	}
	bl_ep_close(m.ep);
	bl_cq_close(m.cq);
	bl_av_close(av);
	bl_domain_close(domain);
}

/* --- chunks ----------------------------------------------------------------- */

static void take_all(void *arg, unsigned times)
{
	struct bl_chunks *chunks = arg;

	bl_chunks_start(chunks, 1, times);
	while (times--)
		if (bl_chunks_take(chunks, 1, BL_CHUNKS_MOST, times & 1) == BL_CHUNKS_NONE)
			abort();
}

static void start_and_take_two(void *arg, unsigned times)
{
	struct bl_chunks *chunks = arg;

	while (times--) {
		bl_chunks_start(chunks, times, 2);
		bl_chunks_take(chunks, times, 2, false);
		bl_chunks_take(chunks, times, 2, true);
		bl_chunks_count(chunks);
		if (bl_chunks_counted(chunks) != 1)
			abort();
	}
}

int main(void)
{
	static alignas(BL_PAIR) struct bl_chunks chunks;

	bench_ring();
	bench_match();
	report("chunks: take one", least(take_all, &chunks, 60000));
	report("chunks: a message of two", least(start_and_take_two, &chunks, 60000));
	return 0;
}
