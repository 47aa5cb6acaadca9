/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * turns.c: two who answer each other's messages, in turn or both at once, and who may write each
 * where they have just read the other's. What is where tests/unit/turns_test.c shows; here it is
 * that nothing is lost or mixed up, whatever they say in between.
 */
#include "overlap.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST 131072u

static void begin(struct t_node *n)
{
	setenv("FI_BEELINE_EAGER_MAX", "4096", 1);
	setenv("FI_BEELINE_CARRY_MAX", "131072", 1);
	setenv("FI_BEELINE_STRETCH", "always", 1);
	setenv("FI_BEELINE_TURNS", "always", 1);
	start(n, NULL, true);
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

static void any_way(void)
{
	struct t_rng rng;
	struct talk t = {0};

	begin(&t.n);
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

/* Sends that aren't waited for: several are under way when an answer comes. */
static void under_way(void)
{
	enum { MANY = 4 };
	struct t_node n;

	begin(&n);
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

		begin(&t.n);
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

static const struct t_case cases[] = {
	{"turns_any_way", 2, any_way, "an answer in a place that wasn't free, or not where it is",
	 0},
	{"turns_under_way", 2, under_way, "the same, several at once", 0},
	{"turns_last_word", 2, last_word, "an answer is received after its sender has ended", 0},
};

const struct t_group group_turns = T_GROUP("turns", cases);
