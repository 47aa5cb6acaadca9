/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* flow.c: more messages than there is room for: nothing blocks, nothing is lost. */
#include "common.h"

/* Make the connection, so that what follows is about room. */
static void warm_up(int with)
{
	char c = 'w';

	L_OK(beeline_send(ep, &c, 1, with, 1, 99));
	L_OK(beeline_recv(ep, &c, 1, beeline_from(with, 1, 99), NULL));
}

static void run_slow_receiver(void)
{
	enum { COUNT = 20000, LEN = 1024 };
	struct beeline_request **req = calloc(COUNT, sizeof(*req));
	unsigned char *buf = bytes_new(COUNT + LEN), in[LEN];

	enter_world(0);
	bytes_fill(buf, COUNT + LEN, 1);
	if (t_rank == 0) {
		/* Rank 1 is outside the library: no isend may wait for it. */
		for (uint32_t i = 0; i < COUNT; i++) {
			t_at("isend %u", i);
			L_OK(beeline_isend(ep, buf + i, LEN, 1, i, 0, &req[i]));
		}
		barrier_outside();
		t_at("waiting for all");
		L_OK(beeline_waitall(COUNT, req, NULL));
	} else {
		barrier_outside();
		for (uint32_t i = 0; i < COUNT; i++) {
			struct beeline_status s;

			L_OK(beeline_recv(ep, in, LEN, beeline_from_any_tag(0, 0), &s));
			T_EQ(s.tag, i);
			T_CHECK(!memcmp(in, buf + i, LEN), "message %u has wrong bytes", i);
		}
	}
	leave_world();
	free(req);
	free(buf);
}

/* Rank 1 is away; what waits for it must not hold up the talk with rank 2. */
static void run_one_slow(void)
{
	enum { COUNT = 2000, TALK = 500 };
	static struct beeline_request *req[COUNT];
	static unsigned char buf[COUNT], c;

	enter_world(0);
	if (t_rank == 0) {
		for (uint32_t i = 0; i < COUNT; i++) {
			buf[i] = (unsigned char)i;
			L_OK(beeline_isend(ep, &buf[i], 1, 1, i, 0, &req[i]));
		}
		t_at("talking to rank 2");
		for (int i = 0; i < TALK; i++)
			warm_up(2);
		barrier_outside();
		L_OK(beeline_waitall(COUNT, req, NULL));
	} else if (t_rank == 2) {
		for (int i = 0; i < TALK; i++)
			warm_up(0);
		barrier_outside();
	} else {
		barrier_outside();
		for (uint32_t i = 0; i < COUNT; i++) {
			L_OK(beeline_recv(ep, &c, 1, beeline_from(0, i, 0), NULL));
			T_EQ(c, i & 0xff);
		}
	}
	leave_world();
}

static size_t length_of(uint32_t i)
{
	return i % 50 == 49 ? 150000 : i % 10 == 9 ? 9000 : i % 300;
}

/* All send to all before anybody receives: no order of calls may deadlock. */
static void run_flood(void)
{
	enum { EACH = 1000, MOST = 150000 };
	int n = t_nproc;
	struct beeline_request **req = calloc((size_t)n * EACH, sizeof(*req));
	unsigned char *out = bytes_new(MOST + EACH), *in = bytes_new(MOST);

	enter_world(0);
	bytes_fill(out, MOST + EACH, 9);
	for (int to = 0; to < n; to++)
		for (uint32_t i = 0; i < EACH; i++)
			L_OK(beeline_isend(ep, out + i, length_of(i), to, i, (uint32_t)t_rank,
					   &req[(uint32_t)to * EACH + i]));
	for (int from = 0; from < n; from++)
		for (uint32_t i = 0; i < EACH; i++) {
			struct beeline_status s;

			t_at("message %u from %d", i, from);
			L_OK(beeline_recv(ep, in, MOST,
					  beeline_from_any_tag(BEELINE_ANY_SOURCE, (uint32_t)from),
					  &s));
			status_check("flood", &s, from, i, (uint32_t)from, length_of(i));
			T_CHECK(!memcmp(in, out + i, s.length), "message %u from %d: wrong bytes",
				i, from);
		}
	t_at("waiting for all sends");
	L_OK(beeline_waitall((size_t)n * EACH, req, NULL));
	leave_world();
	free(req);
	free(out);
	free(in);
}

/* Blocking sends of both at once: complete while the other isn't receiving yet,
 * as long as both are inside the library (eager lengths). */
static void run_exchange(void)
{
	unsigned char out[64], in[64];

	enter_world(0);
	for (unsigned i = 0; i < 2000; i++) {
		struct beeline_request *req;

		bytes_fill(out, sizeof out, i);
		L_OK(beeline_irecv(ep, in, sizeof in, beeline_from(1 - t_rank, i, 0), &req));
		L_OK(beeline_send(ep, out, sizeof out, 1 - t_rank, i, 0));
		L_OK(beeline_wait(&req, NULL));
		bytes_check("exchange", in, sizeof in, i);
	}
	leave_world();
}

static void run_cancel_send(void)
{
	enum { COUNT = 1000 };
	static struct beeline_request *req[COUNT + 1];
	static uint32_t v[COUNT + 1];
	static bool gone[COUNT + 1];
	struct beeline_status s;

	enter_world(0);
	warm_up(1 - t_rank);
	if (t_rank == 0) {
		for (uint32_t i = 0; i < COUNT; i++) {
			v[i] = i;
			L_OK(beeline_isend(ep, &v[i], sizeof v[i], 1, i, 0, &req[i]));
		}
		L_IS(beeline_cancel(req[0]), -EALREADY);
		/* The end, the middle, all but the first of what waits. */
		for (uint32_t i = COUNT; i-- > 500;)
			if (i % 3 == 0 || i > 900) {
				L_OK(beeline_cancel(req[i]));
				L_IS(beeline_cancel(req[i]), -EALREADY);
				gone[i] = true;
			}
		v[COUNT] = COUNT;
		L_OK(beeline_isend(ep, &v[COUNT], sizeof v[0], 1, COUNT, 0, &req[COUNT]));
		barrier_outside();
		t_at("waiting");
		for (uint32_t i = 0; i <= COUNT; i++) {
			L_IS(beeline_wait(&req[i], &s), gone[i] ? -ECANCELED : 0);
			T_EQ(s.length, gone[i] ? 0 : sizeof v[0]);
		}
	} else {
		barrier_outside();
		for (uint32_t i = 0; i <= COUNT; i++) {
			uint32_t got;

			if (i < COUNT && i >= 500 && (i % 3 == 0 || i > 900))
				continue;
			t_at("message %u", i);
			L_OK(beeline_recv(ep, &got, sizeof got, beeline_from_any_tag(0, 0), &s));
			T_EQ(got, i);
			T_EQ(s.tag, i);
		}
	}
	leave_world();
}

static void run_cancel_all(void)
{
	enum { COUNT = 300 };
	struct beeline_request *req[COUNT];
	char c = 'x';

	/* Emptying a queue by cancelling, then using the peer again. */
	enter_world(0);
	if (t_rank == 0) {
		int taken_back = 0;

		for (uint32_t i = 0; i < COUNT; i++)
			L_OK(beeline_isend(ep, &c, 1, 1, 5, 0, &req[i]));
		for (uint32_t i = 0; i < COUNT; i++)
			taken_back += !beeline_cancel(req[i]);
		T_CHECK(taken_back > 0, "nothing could be cancelled");
		beeline_waitall(COUNT, req, NULL);
		L_OK(beeline_send(ep, &taken_back, sizeof taken_back, 1, 6, 0));
	} else {
		int taken_back;

		L_OK(beeline_recv(ep, &taken_back, sizeof taken_back, beeline_from(0, 6, 0), NULL));
		for (int i = 0; i < COUNT - taken_back; i++)
			L_OK(beeline_recv(ep, &c, 1, beeline_from(0, 5, 0), NULL));
		L_IS(beeline_iprobe(ep, beeline_from_any_tag(BEELINE_ANY_SOURCE, 0), NULL), 0);
	}
	leave_world();
}

static const struct t_case cases[] = {
	{"slow_receiver", 2, run_slow_receiver, "20000 sends to one who is away", 60},
	{"one_slow_of_two", 3, run_one_slow, "a slow peer holds up nobody else", 60},
	{"flood", 2, run_flood, "both send all before either receives", 60},
	{"flood_of_six", 6, run_flood, "six send all to all before any receives", 120},
	{"exchange", 2, run_exchange, "both send, then both wait", 60},
	{"cancel_sends", 2, run_cancel_send, "queued sends are taken back, the rest stays", 0},
	{"cancel_all_sends", 2, run_cancel_all, "an emptied queue works again", 0},
};
const struct t_group group_flow = T_GROUP("flow", cases);
