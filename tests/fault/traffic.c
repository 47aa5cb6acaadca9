/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * traffic.c: see traffic.h. One thread per rank. Message number n from rank a to
 * rank b has a length and bytes that both can work out; tag 1 carries them, tag 2
 * says goodbye: how many there were.
 */
#include "fault/traffic.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "fault/promise.h"

#define WINDOW	4 /* sends and receives under way with each */
#define LONGEST (8u << 20)

struct op {
	int peer;
	bool send, busy;
	uint64_t number;
	uint8_t *buf;
};

static struct {
	const struct traffic *t;
	struct op recv[RANKS][WINDOW], send[RANKS][WINDOW];
	uint64_t sent[RANKS], posted[RANKS], received[RANKS];
	uint64_t since_death, farewell[RANKS], bye;
	uint64_t looked_at, waited; /* for the death to be noticed, ns */
	bool dead[RANKS], ending, said[RANKS], heard[RANKS];
	struct op bye_op[RANKS];
} s;

static size_t length_of(int from, int to, uint64_t number)
{
	uint64_t seed = number * 64 + (uint64_t)(from * 8 + to);

	return s.t->least + table_random(&seed) % (s.t->most - s.t->least + 1);
}

/* Words rather than bytes: megabytes of them are filled and checked. */
static uint64_t word_of(int from, uint64_t number, size_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15u + number * 64 + (uint64_t)from;
}

static void fill(uint8_t *buf, size_t len, int from, uint64_t number)
{
	uint64_t *word = (uint64_t *)buf, last = word_of(from, number, len / 8);

	for (size_t i = 0; i < len / 8; i++)
		word[i] = word_of(from, number, i);
	memcpy(word + len / 8, &last, len % 8);
}

static void check(const uint8_t *buf, size_t len, int from, uint64_t number)
{
	const uint64_t *word = (const uint64_t *)buf;
	uint64_t last = word_of(from, number, len / 8), wrong = 0;

	for (size_t i = 0; i < len / 8; i++)
		wrong |= word[i] ^ word_of(from, number, i);
	if (!wrong && !memcmp(word + len / 8, &last, len % 8))
		return;
	for (size_t i = 0; i < len / 8; i++)
		if (word[i] != word_of(from, number, i))
			rank_fail(s.t->rank, "message %lu from %d: word %zu of %zu is wrong",
				  (unsigned long)number, from, i, len / 8);
	rank_fail(s.t->rank, "message %lu from %d: its last bytes are wrong", (unsigned long)number,
		  from);
}

/* What the end of a process is called; a mad one may have broken the protocol before. */
static bool is_an_end(int err)
{
	return err == ECONNRESET || err == ECONNREFUSED || s.t->mad;
}

static void mourn(int peer, int err)
{
	if (peer != s.t->victim)
		rank_fail(s.t->rank, "rank %d lives, and an operation with it failed: %s", peer,
			  strerror(err));
	if (s.t->mad)
		atomic_store(&world->mark[s.t->rank], !atomic_load(&world->hurt_at));
	else if (!atomic_load(&world->hurt_at))
		rank_fail(s.t->rank, "error with the victim before it was hurt: %s", strerror(err));
	else if (!is_an_end(err))
		rank_fail(s.t->rank, "an operation with the dead ends in: %s", strerror(err));
	s.dead[peer] = true;
}

static bool over(int peer)
{
	return s.dead[peer] || s.ending;
}

static void post_some(int peer)
{
	for (int i = 0; i < WINDOW && !s.dead[peer]; i++) {
		struct op *op = &s.recv[peer][i];
		int err;

		if (op->busy)
			continue;
		if (s.heard[peer] && s.posted[peer] >= s.farewell[peer])
			return;
		op->number = s.posted[peer];
		err = bl_recv_buf(ep, op->buf, LONGEST, world_index[peer], 1, 0, op,
				  BL_TAGGED | BL_COMPLETION);
		/* One that has heard our goodbye may have closed: its last ones are read next. */
		if (err == -EAGAIN || (err == -ENOTCONN && s.said[peer]))
			return;
		if (err) {
			mourn(peer, -err);
			return;
		}
		op->busy = true;
		s.posted[peer]++;
	}
}

static void send_some(int peer)
{
	for (int i = 0; i < WINDOW && !over(peer); i++) {
		struct op *op = &s.send[peer][i];
		uint64_t number = s.sent[peer];
		size_t len = length_of(s.t->rank, peer, number);
		int err;

		if (op->busy || (s.t->limit && number == s.t->limit))
			continue;
		if (s.t->copybuf && number > s.received[peer])
			return;
		if (op->number != number) {
			fill(op->buf, len, s.t->rank, number);
			op->number = number;
		}
		err = bl_send_buf(ep, op->buf, len, world_index[peer], 1, 0, op,
				  BL_TAGGED | BL_COMPLETION);
		if (err == -EAGAIN)
			return;
		if (err) {
			mourn(peer, -err);
			return;
		}
		op->busy = true;
		s.sent[peer]++;
	}
}

static void received_one(struct op *op, size_t len)
{
	int peer = op->peer;

	if (s.t->mad && peer == s.t->victim)
		return;
	if (len != length_of(peer, s.t->rank, op->number))
		rank_fail(s.t->rank, "message %lu from %d has %zu bytes", (unsigned long)op->number,
			  peer, len);
	check(op->buf, len, peer, op->number);
	s.received[peer]++;
	if (s.t->victim >= 0 && s.dead[s.t->victim])
		s.since_death++;
	uint64_t all = atomic_fetch_add(&world->messages[s.t->rank], 1) + 1;
	if (s.t->each)
		s.t->each(all);
}

static void take_completions(void)
{
	struct bl_comp comp[8];
	struct bl_comp_err err;
	ssize_t n = bl_cq_read(cq, comp, 8, sizeof comp[0], NULL);

	if (n == -BL_EAVAIL) {
		RANK_CHECK(s.t->rank, bl_cq_readerr(cq, &err) == 1);
		struct op *op = err.comp.context;
		op->busy = false;
		if (err.err != ECANCELED)
			mourn(op->peer, err.err);
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		struct op *op = comp[i].context;

		op->busy = false;
		if (op >= s.bye_op && op < s.bye_op + RANKS)
			s.heard[op->peer] = true;
		else if (!op->send)
			received_one(op, comp[i].len);
	}
}

static bool under_way(int peer, bool receives)
{
	for (int i = 0; i < WINDOW; i++)
		if (s.send[peer][i].busy || (receives && s.recv[peer][i].busy))
			return true;
	return false;
}

/* The victim is dead and nothing with it is left; when that was, for the test. */
static bool noticed(void)
{
	int v = s.t->victim, me = s.t->rank;
	uint64_t hurt = atomic_load(&world->hurt_at), now = bl_clock_ns();
	uint64_t gap = now - s.looked_at;

	if (v < 0 || v == me || atomic_load(&world->noticed_at[me]))
		return v >= 0;
	if (s.dead[v] && !under_way(v, true) && !s.bye_op[v].busy) {
		promise_noticed(me);
		atomic_store(&world->noticed_at[me], now);
		return true;
	}
	/* While the whole machine stood still nobody could notice anything. */
	if (hurt && now > hurt)
		s.waited += bl_min(bl_min(gap, now - hurt), TOLERATED_NS / 10);
	s.looked_at = now;
	if (s.waited > TOLERATED_NS)
		rank_fail(me, "%lu ms after the death: %s", (unsigned long)((now - hurt) / 1000000),
			  s.dead[v] ? "operations are still under way" : "not noticed");
	return false;
}

static bool i_have_enough(void)
{
	if (s.t->victim >= 0 && s.t->victim != s.t->rank)
		return atomic_load(&world->noticed_at[s.t->rank]) && s.since_death >= s.t->after;
	if (atomic_load(&world->stop))
		return true;
	for (int p = 0; p < s.t->count; p++)
		if (p != s.t->rank && (!s.t->limit || s.sent[p] < s.t->limit))
			return false;
	return true;
}

/* Everybody who lives has enough: nobody waits for messages of one who ended. */
static bool all_have_enough(void)
{
	if (i_have_enough())
		atomic_store(&world->enough[s.t->rank], 1);
	for (int p = 0; p < s.t->count; p++)
		if (p != s.t->victim && !atomic_load(&world->enough[p]))
			return false;
	return s.t->rank != s.t->victim;
}

/* Tell every other rank how many messages it must have got, and hear the same. */
static bool goodbye(void)
{
	bool all = true;

	for (int p = 0; p < s.t->count; p++) {
		if (p == s.t->rank || s.dead[p])
			continue;
		if (!s.said[p]) {
			int err = bl_inject(ep, &s.sent[p], sizeof s.sent[p], world_index[p], 2, 0,
					    BL_TAGGED);

			s.said[p] = !err;
			if (err && err != -EAGAIN)
				mourn(p, -err);
		}
		all &= s.said[p] && s.heard[p] && s.received[p] == s.farewell[p] &&
		       !under_way(p, false);
	}
	return all;
}

/* Kept for the next run, and mapped by ourselves: malloc may be told to fill what it gives
 * (MALLOC_PERTURB_), and a rank that fills megabytes notices no death. */
static uint8_t *buffer(int rank, int peer, int i, bool send)
{
	static uint8_t *kept[RANKS][WINDOW][2];
	uint8_t **buf = &kept[peer][i][send];

	if (!*buf) {
		*buf = mmap(NULL, LONGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
		RANK_CHECK(rank, *buf != MAP_FAILED);
	}
	return *buf;
}

static void begin(const struct traffic *t)
{
	memset(&s, 0, sizeof s);
	s.looked_at = bl_clock_ns();
	s.t = t;
	for (int p = 0; p < t->count; p++)
		for (int i = 0; i < WINDOW; i++)
			for (int k = 0; k < 2; k++) {
				struct op *op = k ? &s.send[p][i] : &s.recv[p][i];

				*op = (struct op){p, k, false, UINT64_MAX,
						  buffer(t->rank, p, i, k)};
			}
}

static void end(void)
{
	for (int p = 0; p < s.t->count; p++)
		for (int i = 0; i < WINDOW; i++)
			if (s.recv[p][i].busy)
				RANK_CHECK(s.t->rank, !bl_cancel(ep, &s.recv[p][i]));
	/* What was cancelled says so; another run must not hear of it. */
	for (struct bl_comp_err err; bl_cq_readerr(cq, &err) == 1;)
		RANK_CHECK(s.t->rank, err.err == ECANCELED);
}

void traffic_run(const struct traffic *t)
{
	struct deadline late = deadline_in(WORLD_NS);

	begin(t);
	for (int p = 0; p < t->count; p++) {
		int err;

		s.bye_op[p] = (struct op){.peer = p};
		if (p == t->rank)
			continue;
		err = bl_recv_buf(ep, &s.farewell[p], sizeof s.farewell[p], world_index[p], 2, 0,
				  &s.bye_op[p], BL_TAGGED | BL_COMPLETION);
		s.bye_op[p].busy = !err;
		if (err)
			mourn(p, -err);
	}
	while (!(s.ending && goodbye())) {
		for (int p = 0; p < t->count; p++)
			if (p != t->rank) {
				post_some(p);
				send_some(p);
			}
		take_completions();
		noticed();
		s.ending |= all_have_enough();
		if (deadline_over(&late))
			rank_fail(t->rank, "traffic hangs: %lu messages received",
				  (unsigned long)atomic_load(&world->messages[t->rank]));
	}
	end();
}
