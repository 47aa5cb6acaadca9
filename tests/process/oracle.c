/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* oracle.c: see oracle.h. */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

struct oracle oracle;

const char *const oracle_names[KINDS] = {
	"write",       "writev",  "writemsg",	   "inject_write", "writedata",
	"inject_data", "read",	  "readv",	   "readmsg",	   "atomic",
	"inject_sum",  "fetch",	  "compare",	   "add to all's", "inject to all's",
	"fetch all's", "message", "tagged message"};

/* How often each kind comes. */
static const unsigned char weight[KINDS] = {20, 6, 16, 16, 4, 4, 12, 4, 8,
					    4,	5, 4,  5,  4, 4, 4,  5, 5};

_Noreturn void oracle_wrong(const char *file, int line, int from, int k, const char *what)
{
	const struct plan *p = &oracle.plan[from][k];

	t_fail(file, line,
	       "%s: seed %llu, round %d, operation %d of rank %d: %s to rank %d, %zu bytes (%zu, "
	       "gap %zu) at %llu, flags 0x%llx",
	       what, (unsigned long long)t_seed(), oracle.round, k, from, oracle_names[p->kind],
	       p->to, p->len, p->cut, p->gap, (unsigned long long)p->addr,
	       (unsigned long long)p->flags);
}

/* --- the plan ------------------------------------------------------------------ */

static enum kind rand_kind(struct t_rng *rng)
{
	uint64_t sum = 0, at;
	int kind = 0;

	for (int i = 0; i < KINDS; i++)
		sum += weight[i];
	for (at = t_rand_below(rng, sum); at >= weight[kind]; kind++)
		at -= weight[kind];
	return (enum kind)kind;
}

static size_t rand_len(struct t_rng *rng)
{
	switch (t_rand_below(rng, 40)) {
	case 0:
		return t_rand_below(rng, LONGEST + 1);
	case 1:
	case 2:
		return 3000 + t_rand_below(rng, 3000);
	case 3:
		return 0;
	}
	return 1 + t_rand_below(rng, t_rand_below(rng, 3) ? 40 : 512);
}

static uint64_t rand_flags(struct t_rng *rng, const struct plan *p)
{
	uint64_t flags = 0;

	flags |= one_in(rng, 2) ? FI_COMPLETION : 0;
	flags |= one_in(rng, 16) ? FI_FENCE : 0;
	flags |= one_in(rng, 6) ? FI_DELIVERY_COMPLETE : 0;
	if (is_message(p))
		return flags | (one_in(rng, 2) ? FI_FENCE : 0);
	flags |= one_in(rng, 3) ? FI_MORE : 0;
	flags |= one_in(rng, 8) && p->kind == WRITEMSG ? FI_REMOTE_CQ_DATA : 0;
	if (one_in(rng, 4) && p->kind != READMSG && p->len <= oracle.inject_max &&
	    !(flags & FI_DELIVERY_COMPLETE))
		flags |= FI_INJECT;
	return flags;
}

/* Beside the last one there, over a part of it, in a few pages, or anywhere. */
static uint64_t rand_place(struct t_rng *rng, uint64_t end, size_t len)
{
	switch (t_rand_below(rng, 8)) {
	case 0:
		return t_rand_below(rng, ROOM - len + 1);
	case 1:
	case 2:
		return t_rand_below(rng, (len < 4096 ? 8192 : ROOM) - len + 1);
	case 3:
		end -= end < len ? end : t_rand_below(rng, len + 1);
	}
	return end + len <= ROOM ? end : 0;
}

/* Now and then many of a kind to the same process follow each other: more than are kept, or done
 * at once. */
struct stretch {
	enum kind kind;
	int to;
	uint64_t left;
};

static void rand_next(struct t_rng *rng, struct stretch *s)
{
	if (s->left) {
		s->left--;
		return;
	}
	s->kind = rand_kind(rng);
	s->to = (int)t_rand_below(rng, (uint64_t)t_nproc);
	if (one_in(rng, 16))
		s->left = t_rand_below(rng, 100);
}

static void plan_one(struct t_rng *rng, struct plan *p, struct stretch *s, uint64_t *end)
{
	rand_next(rng, s);
	*p = (struct plan){.kind = s->kind, .to = s->to};
	p->seed = t_rand(rng) | 1;
	p->settled = one_in(rng, s->left ? 400 : 40);
	p->len = rand_len(rng);
	if (s->left)
		p->len = 1 + t_rand_below(rng, 64);
	if (is_message(p))
		p->len = t_rand_below(rng, one_in(rng, 12) ? LONGEST : 300);
	if (is_atomic(p))
		p->len = 8 * (1 + t_rand_below(rng, WORDS));
	if (is_injected(p) && p->len > oracle.inject_max)
		p->len = oracle.inject_max;
	if (takes_flags(p))
		p->flags = rand_flags(rng, p);
	if (is_message(p)) /* behind what has been written */
		p->settled = !(p->flags & FI_FENCE) && one_in(rng, 2);
	p->cut = t_rand_below(rng, p->len + 1);
	if ((p->kind == WRITEMSG || p->kind == READMSG) && one_in(rng, 3))
		p->gap = t_rand_below(rng, 100);
	if (is_add(p)) {
		p->addr = 8 * t_rand_below(rng, SUMS - p->len / 8 + 1);
		return;
	}
	p->addr = rand_place(rng, end[p->to], p->len + p->gap);
	if (is_atomic(p))
		p->addr = p->addr / 8 * 8;
	if (!is_message(p))
		end[p->to] = p->addr + p->len + p->gap;
}

static void plan_round(int from)
{
	uint64_t end[PROCS] = {0};
	struct stretch stretch = {.left = 0};
	struct t_rng rng;

	t_rng_init(&rng, (uint64_t)oracle.round << 8 | (uint64_t)from);
	for (int k = 0; k < OPS; k++)
		plan_one(&rng, &oracle.plan[from][k], &stretch, end);
}

/* --- what comes of it ------------------------------------------------------------- */

static uint64_t operand(const struct plan *p, size_t i, int from)
{
	return is_add(p) ? (uint64_t)1 << 16 * from : p->seed * (i + 1);
}

/* A compare-and-swap finds what it looks for in each other word. */
static uint64_t compared(const struct plan *p, size_t i, uint64_t is)
{
	return ((p->seed >> 8) + i) & 1 ? is : ~is;
}

/* It changes the bytes of its origin's region; or doesn't. */
static void apply(const struct plan *p, int from, unsigned char *region)
{
	static unsigned char bytes[LONGEST];

	if (is_write(p)) {
		t_fill(bytes, p->len, p->seed, 0);
		memcpy(region + p->addr, bytes, p->cut);
		memcpy(region + p->addr + p->cut + p->gap, bytes + p->cut, p->len - p->cut);
	}
	for (size_t i = 0; is_atomic(p) && i < p->len / 8; i++) {
		uint64_t is, becomes;

		memcpy(&is, region + p->addr + 8 * i, 8);
		becomes = is + operand(p, i, from);
		if (p->kind == COMPARE)
			becomes = compared(p, i, is) == is ? operand(p, i, from) : is;
		memcpy(region + p->addr + 8 * i, &becomes, 8);
	}
}

/* What this process has to find when the round is over, and by when. */
static void foresee(int from)
{
	memset(oracle.last[from], 0xff, sizeof(oracle.last[from]));
	memset(oracle.last_of[from], 0xff, sizeof(oracle.last_of[from]));
	for (int k = 0; k < OPS; k++) {
		const struct plan *p = &oracle.plan[from][k];

		if (p->to != t_rank || is_message(p) || is_read(p))
			continue;
		apply(p, from, is_add(p) ? (unsigned char *)oracle.final_sums : oracle.final[from]);
		for (size_t i = 0; !is_add(p) && i < p->len; i++) {
			size_t at = p->addr + i + (i < p->cut || is_atomic(p) ? 0 : p->gap);

			oracle.last[from][at] = (short)k;
			oracle.last_of[from][at / BLOCK] = (short)k;
		}
	}
}

/* What may still change isn't looked at: another thread of ours may be writing it for its origin.
 */
void oracle_check(int from, int k)
{
	const unsigned char *is = oracle.mem[from], *right = oracle.final[from];

	for (size_t i = 0; i < ROOM; i++) {
		int by = oracle.last[from][i];

		if (i % BLOCK == 0 && oracle.last_of[from][i / BLOCK] <= k &&
		    !memcmp(is + i, right + i, BLOCK))
			i += BLOCK - 1;
		else if (by < 0 && is[i] != right[i])
			t_fail(__FILE__, __LINE__,
			       "seed %llu, round %d: rank %d's byte %zu has changed, which it "
			       "doesn't write: 0x%02x, not 0x%02x",
			       (unsigned long long)t_seed(), oracle.round, from, i, is[i],
			       right[i]);
		else if (by <= k && is[i] != right[i])
			oracle_wrong(__FILE__, __LINE__, from, by,
				     "a byte isn't there, or not the last one");
	}
}

void oracle_plan(int round)
{
	oracle.round = round;
	for (int from = 0; from < t_nproc; from++) {
		plan_round(from);
		foresee(from);
	}
}

void *oracle_next(const struct plan *p, uint64_t *operands, uint64_t *compare)
{
	unsigned char *there = oracle.shadow[p->to] + p->addr, *wanted = NULL;
	uint64_t *added = &oracle.added[p->to][is_add(p) ? p->addr / 8 : 0];
	size_t words = is_atomic(p) ? p->len / 8 : 0;

	if (is_read(p) || fetches(p))
		wanted = malloc(p->len + 1);
	if (is_read(p)) {
		memcpy(wanted, there, p->cut);
		memcpy(wanted + p->cut, there + p->cut + p->gap, p->len - p->cut);
	} else if (fetches(p)) {
		memcpy(wanted, is_add(p) ? (void *)added : there, p->len);
	}
	for (size_t i = 0; i < words; i++) {
		operands[i] = operand(p, i, t_rank);
		if (p->kind == COMPARE)
			compare[i] = compared(p, i, ((uint64_t *)(void *)wanted)[i]);
	}
	for (size_t i = 0; is_add(p) && i < words; i++)
		added[i]++;
	if (!is_add(p))
		apply(p, t_rank, oracle.shadow[p->to]);
	return wanted;
}

void oracle_check_end(void)
{
	for (int from = 0; from < t_nproc; from++)
		oracle_check(from, OPS - 1);
	for (int i = 0; i < SUMS; i++)
		T_CHECK(oracle.sums[i] == oracle.final_sums[i],
			"seed %llu, round %d: sum %d is 0x%llx, not 0x%llx",
			(unsigned long long)t_seed(), oracle.round, i,
			(unsigned long long)oracle.sums[i],
			(unsigned long long)oracle.final_sums[i]);
}
