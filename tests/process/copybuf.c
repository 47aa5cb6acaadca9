/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * copybuf.c: two who answer each other's messages, in turn or both at once, and who may write each
 * where they have just read the other's. What is where tests/unit/copybuf_turns_test.c shows; here
 * it is that nothing is lost or mixed up, whatever they say in between.
 */
#include "overlap.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST 131072u

/* directed: receives are from one source, and what they are for may be copied into them while it
 * comes; else from anybody, whatever they name. */
static void begin(struct t_node *n, bool directed)
{
	const struct t_opts o = {.caps = directed ? FI_DIRECTED_RECV : 0};

	setenv("FI_BEELINE_EAGER_MAX", "4096", 1);
	setenv("FI_BEELINE_EAGER_LONG_MAX", "131072", 1);
	setenv("FI_BEELINE_LONG_RING", "always", 1);
	setenv("FI_BEELINE_COPYBUF", "always", 1);
	start(n, &o, true);
	t_progress();
	t_progress();
}

/* Both draw the same. */
enum way {
	IN_TURN,  /* 0 begins */
	AT_ONCE,  /* both send, and then receive */
	EARLY,	  /* the same, and receive what has come by then */
	STREAMS,  /* several, and one answer */
	ANSWERED, /* long messages, short answers */
	WAYS
};

struct talk {
	struct t_node n;
	uint64_t sent, got;   /* messages; the other's have the same lengths in the same order */
	struct t_rng lens[2]; /* of ours, of its */
};

static size_t next_length(struct t_rng *rng)
{
	static const size_t lens[] = {289,  290,  1000, 1024,  2048,  3000,    4096,
				      4097, 5000, 8192, 20000, 65536, LONGEST, LONGEST - 1};

	return lens[t_rand_below(rng, t_rand_below(rng, 4) ? 9 : 14)];
}

static uint64_t seed_of(int rank, uint64_t message)
{
	return (uint64_t)rank << 32 | message;
}

struct message { /* a message under way */
	struct t_op op;
	struct t_buf b;
	size_t len;
};

/* len 0: the next one. */
static void begin_to_say(struct talk *t, struct message *m, size_t len)
{
	m->len = len ? len : next_length(&t->lens[0]);
	m->op = (struct t_op){0};
	m->b = t_buf(m->len, t->sent);
	t_fill(m->b.p, m->len, seed_of(t_rank, t->sent++), 0);
	t_tsend(&t->n, !t_rank, m->b.p, m->len, 1, &m->op);
}

static void has_said(struct message *m)
{
	T_WAIT(&m->op);
	t_fill(m->b.p, m->len, ~0ull, 0); /* it is ours again */
	t_buf_free(&m->b);
}

static void begin_to_hear(struct talk *t, struct message *m, size_t len)
{
	m->len = len ? len : next_length(&t->lens[1]);
	m->op = (struct t_op){0};
	m->b = t_buf(m->len, t->got + 3);
	t_blank(&m->b);
	t_trecv(&t->n, t->n.peer[!t_rank], m->b.p, m->len, 1, 0, &m->op);
}

static void has_heard(struct talk *t, struct message *m)
{
	T_WAIT(&m->op);
	T_EQ(m->op.c.len, m->len);
	T_GOT(&m->b, m->len, seed_of(!t_rank, t->got++));
	t_buf_free(&m->b);
}

static void say(struct talk *t, size_t len)
{
	struct message m;

	begin_to_say(t, &m, len);
	has_said(&m);
}

static void hear(struct talk *t, size_t len)
{
	struct message m;

	begin_to_hear(t, &m, len);
	has_heard(t, &m);
}

static void both(struct talk *t, bool early)
{
	struct message ours, its;

	if (!early)
		begin_to_hear(t, &its, 0);
	begin_to_say(t, &ours, 0);
	for (int looks = 0; early && looks < 50; looks++)
		t_progress();
	if (early)
		begin_to_hear(t, &its, 0);
	has_heard(t, &its);
	has_said(&ours);
}

static void round_of(struct talk *t, enum way way, uint64_t several)
{
	switch (way) {
	case IN_TURN:
		if (t_rank == 0)
			say(t, 0);
		hear(t, 0);
		if (t_rank == 1)
			say(t, 0);
		break;
	case AT_ONCE:
	case EARLY:
		both(t, way == EARLY);
		break;
	case STREAMS:
		for (uint64_t i = 0; i < several; i++)
			if (t_rank == 0)
				say(t, 0);
			else
				hear(t, 0);
		if (t_rank == 0)
			hear(t, 0);
		else
			say(t, 0);
		break;
	default:
		if (t_rank == 0) {
			say(t, 0);
			hear(t, 16);
		} else {
			hear(t, 0);
			say(t, 16);
		}
	}
}

static void any_way_by(bool directed)
{
	struct t_rng rng;
	struct talk t = {0};

	begin(&t.n, directed);
	t_rng_init(&rng, 7);
	t_rng_init(&t.lens[0], (uint64_t)t_rank);
	t_rng_init(&t.lens[1], (uint64_t)!t_rank);
	for (int part = 0; part < t_scaled(100); part++) {
		enum way way = (enum way)t_rand_below(&rng, WAYS);
		uint64_t rounds = 1 + t_rand_below(&rng, 20), several = 1 + t_rand_below(&rng, 5);

		for (uint64_t i = 0; i < rounds; i++)
			round_of(&t, way, several);
	}
	t_finish(&t.n);
}

static void any_way(void)
{
	any_way_by(true);
}

static void from_anybody(void)
{
	any_way_by(false);
}

/* Sends that aren't waited for: several are under way when an answer comes. */
static void under_way(void)
{
	enum { MANY = 4 };
	struct t_node n;

	begin(&n, true);
	for (uint64_t round = 0; round < (uint64_t)t_scaled(400); round++) {
		uint64_t many = round % 40 < 20 ? 1 : 1 + round % MANY;
		struct t_op tx[MANY] = {0}, rx[MANY] = {0};
		struct t_buf from[MANY], to[MANY];
		size_t len = round % 3 ? 3000 : 20000;

		for (uint64_t i = 0; i < many; i++) {
			to[i] = t_buf(len, round);
			t_blank(&to[i]);
			t_trecv(&n, n.peer[!t_rank], to[i].p, len, i, 0, &rx[i]);
		}
		for (uint64_t i = 0; i < many; i++) {
			from[i] = t_buf(len, round + i);
			t_fill(from[i].p, len, seed_of(t_rank, round * MANY + i), 0);
			t_tsend(&n, !t_rank, from[i].p, len, i, &tx[i]);
		}
		for (uint64_t i = 0; i < many; i++) {
			T_WAIT(&rx[i]);
			T_WAIT(&tx[i]);
			T_GOT(&to[i], len, seed_of(!t_rank, round * MANY + i));
			t_buf_free(&to[i]);
			t_buf_free(&from[i]);
		}
	}
	t_finish(&n);
}

/* Whoever has been answered ends, and what it said last is received. */
static void last_word(void)
{
	for (int round = 0; round < 10; round++) {
		struct talk t = {0};

		/* Whose is the last word: an answer, or an offer. */
		const int last = round % 2;

		begin(&t.n, true);
		for (int i = 0; i < 6 + last; i++) {
			if (t_rank == 0)
				say(&t, 2048);
			if (t_rank == 1 || i < 6)
				hear(&t, 2048);
			if (t_rank == 1 && i < 6)
				say(&t, 2048);
		}
		if (t_rank == last) {
			say(&t, 3000); /* no longer than what is never announced */
			t_close(&t.n);
		}
		t_barrier();
		if (t_rank != last) {
			hear(&t, 3000);
			t_close(&t.n);
		}
		t_barrier();
	}
}

/* --- several receives, of which a message that is still being written may have begun one -------
 */

enum { AT_ONCE_MOST = 5 };
#define ROOM 131072u

struct given {
	size_t len;
	uint64_t tag, number;
};

struct wanted {
	struct incoming in;
	uint64_t tag, ignore;
};

/* Both draw the same: so many messages, tagged or not. */
static int draw(struct t_rng *rng, struct given *m, uint64_t *number)
{
	static const size_t lens[] = {9000, 14336, 20000, 60000, 65536, 70000, 98304, ROOM};
	int many = t_rand_below(rng, 3) ? 1 : 1 + (int)t_rand_below(rng, AT_ONCE_MOST);

	for (int i = 0; i < many; i++)
		m[i] = (struct given){lens[t_rand_below(rng, sizeof(lens) / sizeof(lens[0]))],
				      1 + t_rand_below(rng, 2), (*number)++};
	return many;
}

static void give(struct t_node *n, const struct given *m, int many, bool tagged)
{
	struct t_op op[AT_ONCE_MOST] = {0};
	struct t_buf b[AT_ONCE_MOST];

	for (int i = 0; i < many; i++) {
		b[i] = t_buf(m[i].len, (uint64_t)i);
		t_fill(b[i].p, m[i].len, m[i].number, 0);
		if (tagged)
			t_tsend(n, !t_rank, b[i].p, m[i].len, m[i].tag, &op[i]);
		else
			T_TRY(fi_send(n->ep, b[i].p, m[i].len, NULL, n->peer[!t_rank], &op[i]));
	}
	for (int i = 0; i < many; i++) {
		T_WAIT(&op[i]);
		t_buf_free(&b[i]);
	}
}

static void want(struct t_node *n, struct wanted *w, bool tagged)
{
	w->in = (struct incoming){.buf = t_buf(ROOM, w->tag), .posted = true};
	t_blank(&w->in.buf);
	if (tagged)
		t_trecv(n, n->peer[!t_rank], w->in.buf.p, ROOM, w->tag, w->ignore, &w->in.op);
	else
		T_TRY(fi_recv(n->ep, w->in.buf.p, ROOM, NULL, n->peer[!t_rank], &w->in.op));
}

/* The first message that is left and matches is the one that it must have, and none if there is
 * none. */
static void has_its_own(const struct wanted *w, struct given *m, int many, bool tagged)
{
	int i = 0;

	while (i < many && (!m[i].len || (tagged && (w->tag ^ m[i].tag) & ~w->ignore)))
		i++;
	T_CHECK(w->in.posted == (i == many), "a receive has no message, or another's");
	if (i == many)
		return;
	T_EQ(w->in.op.c.len, m[i].len);
	T_GOT(&w->in.buf, m[i].len, m[i].number);
	m[i].len = 0;
}

/* Some receives, of which one may be cancelled, and behind them as many that take anything. In the
 * order of posting each has had the first of what is left that it takes. */
static void take(struct t_node *n, struct t_rng *own, struct given *m, int many, bool tagged)
{
	struct wanted w[2 * AT_ONCE_MOST];
	int left = many;

	for (int i = 0; i < 2 * many; i++) {
		bool any = i >= many || t_rand_below(own, 2);

		w[i].tag = 1 + t_rand_below(own, 2);
		w[i].ignore = any ? UINT64_MAX >> 8 : 0;
		want(n, &w[i], tagged);
		if (!t_rand_below(own, 4))
			for (uint64_t looks = t_rand_below(own, 30); looks; looks--)
				t_progress();
	}
	if (!t_rand_below(own, 3)) {
		struct wanted *c = &w[t_rand_below(own, (uint64_t)many)];

		if (!c->in.op.done && !fi_cancel(&n->ep->fid, &c->in.op)) { /* else too late */
			T_WAIT_ERR(&c->in.op, FI_ECANCELED);
			T_GOT(&c->in.buf, 0, 0); /* no part of it has been written to */
			c->in.posted = false;
		}
	}
	while (left) {
		t_progress();
		for (int i = 0; i < 2 * many; i++) {
			if (!w[i].in.posted || !w[i].in.op.done)
				continue;
			T_WAIT(&w[i].in.op);
			w[i].in.posted = false;
			left--;
		}
	}
	for (int i = 0; i < 2 * many; i++)
		if (w[i].in.posted || !w[i].in.op.c.err)
			has_its_own(&w[i], m, many, tagged);
	for (int i = 0; i < 2 * many; i++) {
		if (w[i].in.posted) {
			T_OK(fi_cancel(&n->ep->fid, &w[i].in.op));
			T_WAIT_ERR(&w[i].in.op, FI_ECANCELED);
		}
		t_buf_free(&w[i].in.buf);
	}
}

static void several_receives(void)
{
	struct given m[AT_ONCE_MOST];
	struct t_rng rng, own;
	uint64_t number = 0;
	struct t_node n;

	begin(&n, true);
	t_rng_init(&rng, 11);
	t_rng_init(&own, 13);
	for (int round = 0; round < t_scaled(1500); round++) {
		bool tagged = t_rand_below(&rng, 4);
		int many = draw(&rng, m, &number);

		if (t_rank == round % 2)
			give(&n, m, many, tagged);
		else
			take(&n, &own, m, many, tagged);
	}
	t_finish(&n);
}

/* --- what was just written ------------------------------------------------------------- */

/* The same memory again and again, written before it is sent and read when it has come, so that one
 * copy takes long: such messages go in turn, too, where that pays (transport/local/adapt/dirty.h).
 */
static void written_rounds(struct t_node *n, enum way way, const size_t *lens, uint64_t rounds,
			   uint64_t *number)
{
	size_t most = lens[0] > lens[1] ? lens[0] : lens[1];
	bool first = t_rank == 0 || way == AT_ONCE;
	struct t_buf from = t_buf(most, 0), to = t_buf(most, 1);

	for (uint64_t i = 0; i < rounds; i++, (*number)++) {
		size_t len = lens[i / 8 & 1], back = way == ANSWERED ? 16 : len;
		size_t ours = t_rank ? back : len, its = t_rank ? len : back;
		struct t_op tx = {0}, rx = {0};

		memset(to.p, T_BLANK, its);
		t_trecv(n, n->peer[!t_rank], to.p, its, 1, 0, &rx);
		if (!first)
			T_WAIT(&rx);
		t_fill(from.p, ours, seed_of(t_rank, *number), 0);
		t_tsend(n, !t_rank, from.p, ours, 1, &tx);
		T_WAIT(&tx);
		if (first)
			T_WAIT(&rx);
		T_EQ(rx.c.len, its);
		T_SAME(to.p, its, seed_of(!t_rank, *number), 0);
	}
	t_buf_free(&from);
	t_buf_free(&to);
}

static void just_written(void)
{
	static const size_t lens[] = {8193,   20000,  65535,  65536,  131072,
				      131073, 262144, 400000, 524288, 524289};
	static const enum way ways[] = {IN_TURN, ANSWERED, AT_ONCE, AT_ONCE};
	uint64_t number = 0;
	struct t_rng rng;
	struct t_node n;

	setenv("FI_BEELINE_LONG_RING", "always", 1);
	setenv("FI_BEELINE_COPYBUF", "exchange", 1);
	start(&n, &(struct t_opts){.caps = FI_DIRECTED_RECV}, true);
	t_rng_init(&rng, 17);
	for (int part = 0; part < t_scaled(40); part++) {
		/* eight of one, eight of the other, for which a buffer may be too short */
		size_t some[2] = {lens[t_rand_below(&rng, 5)],
				  lens[t_rand_below(&rng, sizeof(lens) / sizeof(lens[0]))]};
		enum way way = ways[t_rand_below(&rng, sizeof(ways) / sizeof(ways[0]))];

		written_rounds(&n, way, some, 16 + t_rand_below(&rng, 30), &number);
	}
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"turns_any_way", 2, any_way, "an answer in a place that wasn't free, or not where it is",
	 0},
	{"turns_from_anybody", 2, from_anybody, "the same, where nothing may be copied meanwhile",
	 0},
	{"turns_under_way", 2, under_way, "the same, several at once", 0},
	{"turns_several_receives", 2, several_receives,
	 "out of order, or a receive that was cancelled and written to", 0},
	{"turns_just_written", 2, just_written, "a part of another message, or of none", 0},
	{"turns_last_word", 2, last_word, "an answer is received after its sender has ended", 0},
};

const struct t_group group_copybuf = T_GROUP("copybuf", cases);
