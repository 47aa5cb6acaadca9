/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* match.c: which message goes to which receive, in what order, cut to what. */
#include "common.h"

static void run_any_source(void)
{
	enum { EACH = 200 };
	uint32_t seen[4] = {0}, v;
	struct beeline_status s;

	enter_world(0);
	if (t_rank) {
		for (uint32_t i = 0; i < EACH; i++) {
			v = i;
			L_OK(beeline_send(ep, &v, sizeof v, 0, 100 + i, 8));
		}
	} else {
		for (int i = 0; i < 3 * EACH; i++) {
			L_OK(beeline_recv(ep, &v, sizeof v,
					  beeline_from_any_tag(BEELINE_ANY_SOURCE, 8), &s));
			T_CHECK(s.source >= 1 && s.source <= 3, "source %d", s.source);
			T_EQ(v, seen[s.source]);
			status_check("any source", &s, s.source, 100 + v, 8, sizeof v);
			seen[s.source]++;
		}
	}
	leave_world();
}

static void run_source_selects(void)
{
	enter_world(0);
	if (t_rank) {
		int v = t_rank;

		L_OK(beeline_send(ep, &v, sizeof v, 0, 1, 0));
		barrier();
	} else {
		struct beeline_status s;
		int v = 0;

		barrier(); /* both have come early */
		for (int from = 2; from >= 1; from--) {
			L_OK(beeline_recv(ep, &v, sizeof v, beeline_from(from, 1, 0), &s));
			T_EQ(v, from);
			T_EQ(s.source, from);
		}
	}
	leave_world();
}

/* early: the messages come before the receives. */
static void masks(bool early)
{
	static const uint32_t tags[] = {0x80000010, 0x21, 0x32, 0xffffffff};
	static const struct {
		struct beeline_match match;
		uint32_t gets;
	} wants[] = {
		{{BEELINE_ANY_SOURCE, 0x02, 0x0f, 6}, 0x32},
		{{1, 0xffffffff, BEELINE_EXACT_TAG, 6}, 0xffffffff},
		{{1, 0x80000000, 0x80000000, 6}, 0x80000010},
		{{1, 12345, BEELINE_ANY_TAG, 6}, 0x21},
	};
	struct beeline_request *req[4];
	struct beeline_status s[4];
	uint32_t v[4];

	if (t_rank == 1) {
		if (!early)
			barrier();
		for (int i = 0; i < 4; i++)
			L_OK(beeline_send(ep, &tags[i], sizeof tags[i], 0, tags[i], 6));
		if (early)
			barrier();
		return;
	}
	if (early)
		barrier();
	for (int i = 0; i < 4; i++)
		L_OK(beeline_irecv(ep, &v[i], sizeof v[i], wants[i].match, &req[i]));
	if (!early)
		barrier();
	L_OK(beeline_waitall(4, req, s));
	for (int i = 0; i < 4; i++) {
		T_EQ(v[i], wants[i].gets);
		status_check("mask", &s[i], 1, wants[i].gets, 6, sizeof v[i]);
	}
}

static void run_masks(void)
{
	enter_world(0);
	masks(true);
	masks(false);
	leave_world();
}

static void run_contexts(void)
{
	enter_world(0);
	if (t_rank) {
		for (uint32_t c = 0; c < 50; c++)
			L_OK(beeline_send(ep, &c, sizeof c, 0, 1, c * 0x05000001));
	} else {
		for (uint32_t c = 50; c-- > 0;) {
			struct beeline_status s;
			uint32_t v;

			L_OK(beeline_recv(ep, &v, sizeof v,
					  beeline_from_any_tag(BEELINE_ANY_SOURCE, c * 0x05000001),
					  &s));
			T_EQ(v, c);
			T_EQ(s.context, c * 0x05000001);
		}
	}
	leave_world();
}

static void run_unknown_source(void)
{
	struct beeline_address mine, all[2];
	int peer;

	L_OK(beeline_open(&ep, 0));
	beeline_get_address(ep, &mine);
	t_allgather(&mine, sizeof mine, all, NULL);
	if (t_rank) {
		L_OK(beeline_add_peer(ep, &all[0], &peer));
		L_OK(beeline_send(ep, "hi", 2, peer, 4, 4));
		L_OK(beeline_send(ep, "ho", 2, peer, 4, 4));
	} else {
		struct beeline_status s;
		char buf[2];

		L_OK(beeline_recv(ep, buf, 2, beeline_from(BEELINE_ANY_SOURCE, 4, 4), &s));
		status_check("stranger", &s, BEELINE_UNKNOWN_SOURCE, 4, 4, 2);
		L_OK(beeline_add_peer(ep, &all[1], &peer));
		L_OK(beeline_recv(ep, buf, 2, beeline_from(peer, 4, 4), &s));
		status_check("no stranger any more", &s, peer, 4, 4, 2);
	}
	leave_world();
}

static size_t some_length(struct t_rng *rng)
{
	switch (t_rand_below(rng, 8)) {
	case 0:
		return 8 + t_rand_below(rng, 100000);
	case 1:
		return 8 + t_rand_below(rng, 20000);
	case 2:
	case 3:
		return 8 + t_rand_below(rng, 2000);
	default:
		return 8 + t_rand_below(rng, 60);
	}
}

/* Ranks 1 and 2 send numbered messages of any length; rank 0 has a window of
 * receives for anything, and each source's numbers must come in order. */
static void run_order(void)
{
	enum { COUNT = 3000, WINDOW = 24, MOST = 100008 };
	struct beeline_request *req[WINDOW];
	unsigned char *buf[WINDOW];
	struct t_rng rng;

	enter_world(0);
	t_rng_init(&rng, (uint64_t)t_rank);
	for (int i = 0; i < WINDOW; i++)
		buf[i] = bytes_new(MOST);
	memset(req, 0, sizeof req);
	if (t_rank) {
		for (uint64_t i = 0; i < COUNT; i++) {
			size_t slot = i % WINDOW, len = some_length(&rng);

			t_at("message %d", (int)i);
			L_OK(beeline_wait(&req[slot], NULL));
			memcpy(buf[slot], &i, sizeof i);
			bytes_fill(buf[slot] + 8, len - 8, (unsigned)i);
			L_OK(beeline_isend(ep, buf[slot], len, 0, (uint32_t)t_rand(&rng), 0,
					   &req[slot]));
		}
		L_OK(beeline_waitall(WINDOW, req, NULL));
	} else {
		uint64_t next[3] = {0}, number;

		for (int i = 0; i < 2 * COUNT + WINDOW; i++) {
			int slot = i % WINDOW;
			struct beeline_status s;

			t_at("message %d of all", i);
			if (i >= WINDOW) {
				L_OK(beeline_wait(&req[slot], &s));
				memcpy(&number, buf[slot], sizeof number);
				T_EQ(number, next[s.source]);
				next[s.source]++;
				bytes_check("ordered", buf[slot] + 8, s.length - 8,
					    (unsigned)number);
			}
			if (i < 2 * COUNT)
				L_OK(beeline_irecv(ep, buf[slot], MOST,
						   beeline_from_any_tag(BEELINE_ANY_SOURCE, 0),
						   &req[slot]));
		}
	}
	leave_world();
	for (int i = 0; i < WINDOW; i++)
		free(buf[i]);
}

/* Equal receives are matched in post order, early messages in their order. */
static void run_post_order(void)
{
	struct beeline_request *req[10];
	uint32_t v[10];

	enter_world(0);
	for (int early = 0; early < 2; early++) {
		if (t_rank) {
			if (!early)
				barrier();
			for (uint32_t i = 0; i < 10; i++)
				L_OK(beeline_send(ep, &i, sizeof i, 0, 5, 5));
			if (early)
				barrier();
			continue;
		}
		if (early)
			barrier();
		for (int i = 0; i < 10; i++) /* exact and wild in turn */
			L_OK(beeline_irecv(ep, &v[i], sizeof v[i],
					   i % 2 ? beeline_from(1, 5, 5)
						 : beeline_from_any_tag(BEELINE_ANY_SOURCE, 5),
					   &req[i]));
		if (!early)
			barrier();
		L_OK(beeline_waitall(10, req, NULL));
		for (uint32_t i = 0; i < 10; i++)
			T_EQ(v[i], i);
	}
	leave_world();
}

static void truncate_one(size_t sent, size_t room, bool early)
{
	unsigned char *buf = bytes_new(sent + room + 1);
	struct beeline_request *req = NULL;
	struct beeline_status s;

	t_at("%zu bytes into %zu, %s", sent, room, early ? "early" : "posted");
	if (t_rank) {
		struct beeline_request *sending;

		bytes_fill(buf, sent, 3);
		if (!early)
			barrier();
		L_OK(beeline_isend(ep, buf, sent, 0, 77, 1, &sending));
		if (early)
			barrier();
		L_OK(beeline_wait(&sending, NULL));
	} else {
		if (early)
			barrier();
		memset(buf, 0xee, sent + room);
		L_OK(beeline_irecv(ep, buf, room, beeline_from_any_tag(1, 1), &req));
		if (!early)
			barrier();
		L_IS(beeline_wait(&req, &s), -EMSGSIZE);
		L_IS(s.error, -EMSGSIZE);
		T_EQ(s.length, room);
		T_EQ(s.sent, sent);
		T_EQ(s.source, 1);
		T_EQ(s.tag, 77);
		T_EQ(s.context, 1);
		bytes_check("cut", buf, room, 3);
		T_EQ(buf[room], 0xee);
	}
	free(buf);
}

static void run_truncation(void)
{
	static const size_t sent[] = {1, 41, 300, 5000, 100000, 2000000};

	enter_world(0);
	for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++)
		for (int early = 0; early < 2; early++) {
			truncate_one(sent[i], 0, early);
			truncate_one(sent[i], sent[i] / 2, early);
			truncate_one(sent[i], sent[i] - 1, early);
		}
	leave_world();
}

static const struct t_case cases[] = {
	{"any_source", 4, run_any_source, "one wildcard receive for three senders", 0},
	{"source_selects", 3, run_source_selects, "the later source first", 0},
	{"tag_masks", 2, run_masks, "masks on early and on posted", 0},
	{"contexts", 2, run_contexts, "contexts never mix, all 32 bits count", 0},
	{"unknown_source", 2, run_unknown_source, "a sender nobody has added", 0},
	{"order", 3, run_order, "no overtaking, whatever the lengths", 60},
	{"post_order", 2, run_post_order, "equal receives in the order of posting", 0},
	{"truncation", 2, run_truncation, "too long: cut, with both lengths", 0},
};
const struct t_group group_match = T_GROUP("match", cases);
