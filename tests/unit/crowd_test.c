/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * crowd_test.c: when a process that polls takes its core for shared (core/wait.c), by how many
 * cores there are, who may run there, and how often the scheduler has switched to others, all
 * of which are ours to say here; and when it naps.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/wait.h"
#include "unit/node.h"

#define OTHERS_MOST 8

struct crowd_row {
	struct row row;
	int allowed; /* cores for us; 0: the kernel doesn't say */
	int others;  /* processes beside us, of which ... */
	int elsewhere, unmet, abroad, dead;
	int endpoints; /* of each of them */
	long switches; /* to somebody else, between two looks */
	bool shared;
};

static const struct crowd_row crowds[] = {
	/* of others: on other cores, only an address so far, abroad, dead or removed */
	{{"as many neighbours as cores", "with us one too many"}, 2, 2, 0, 0, 0, 0, 1, 8, true},
	{{"a neighbour fewer", "each has his core"}, 2, 1, 0, 0, 0, 0, 1, 8, false},
	{{"all on a few cores", "of a large machine"}, 2, 7, 0, 0, 0, 0, 1, 8, true},
	{{"a few on more cores", "of a large machine"}, 8, 7, 0, 0, 0, 0, 1, 8, false},
	{{"each bound to a core", "and alone there"}, 1, 7, 7, 0, 0, 0, 1, 8, false},
	{{"each bound to two", "and alone there"}, 2, 7, 7, 0, 0, 0, 1, 8, false},
	{{"two bound to a core", "the others elsewhere"}, 1, 7, 6, 0, 0, 0, 1, 8, true},
	{{"half bound to each half", "each has a core"}, 4, 7, 4, 0, 0, 0, 1, 8, false},
	{{"half bound to each half", "and one too many"}, 4, 8, 4, 0, 0, 0, 1, 8, true},
	{{"more cores than cpu_set_t", "has room for"}, 2048, 7, 0, 0, 0, 0, 1, 8, false},
	{{"the kernel doesn't say", "where we may run"}, 0, 7, 0, 0, 0, 0, 1, 8, false},
	{{"nobody else runs", "whatever our number"}, 2, 7, 0, 0, 0, 0, 1, 0, false},
	{{"a leaf of a tree", "is connected to one"}, 2, 3, 0, 2, 0, 0, 1, 8, true},
	{{"nobody met", "addresses are enough"}, 2, 2, 0, 2, 0, 0, 1, 8, true},
	{{"nobody met", "each bound to a core"}, 1, 7, 7, 7, 0, 0, 1, 8, false},
	{{"nobody met", "all but one on another host"}, 2, 4, 0, 4, 3, 0, 1, 8, false},
	{{"two have ended", "and left us their cores"}, 2, 3, 0, 0, 0, 2, 1, 8, false},
	{{"two removed", "from the addresses"}, 2, 3, 0, 3, 0, 2, 1, 8, false},
	{{"two endpoints each", "are no more processes"}, 2, 1, 0, 0, 0, 0, 2, 8, false},
	{{"two endpoints each", "of one not met"}, 2, 1, 0, 1, 0, 0, 2, 8, false},
};

static const struct crowd_row *row;
static long switched;
static int asked; /* for where a neighbour may run */

int __wrap_sched_yield(void);
int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __real_getrusage(int who, struct rusage *usage);
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);

/* However many others run on this machine now, the looks are moments apart. */
int __wrap_sched_yield(void)
{
	return 0;
}

int __wrap_getrusage(int who, struct rusage *usage)
{
	if (!row)
		return __real_getrusage(who, usage);
	*usage = (struct rusage){.ru_nivcsw = switched += row->switches};
	return 0;
}

/* The first neighbour's, the next one's is the next. */
static pid_t first_pid(void)
{
	return getpid() + 1;
}

/* Of a kernel for 8192 cores, which has no answer for less room. */
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	int first = pid && pid < first_pid() + (row ? row->elsewhere : 0) ? 4096 : 0;

	if (!row)
		return __real_sched_getaffinity(pid, size, set);
	asked += pid > 0;
	CPU_ZERO_S(size, set);
	for (int cpu = first; cpu < first + row->allowed; cpu++)
		CPU_SET_S((size_t)cpu, size, set);
	return row->allowed && size >= 8192 / 8 ? 0 : -1;
}

static struct bl_peer *others[OTHERS_MOST];
static struct bl_peer *by_index[OTHERS_MOST + 1]; /* one number is nobody's */

/* Who is met first, who isn't, who is dead: the last are. Of who is met every other is in the
 * address vector, and what it calls itself is another's number here. */
static void meet_others(struct node *node)
{
	struct bl_local *local = &node->ep[0]->local;
	int n = row->others * row->endpoints, met = n - row->unmet * row->endpoints;

	assert_in_range(n, 0, OTHERS_MOST);
	memset(by_index, 0, sizeof by_index);
	for (int i = 0; i < n; i++) {
		pid_t pid = first_pid() + i % row->others;
		bool known = i >= met || i % 2 == 0 || i >= met - row->dead;
		struct bl_addr addr = local->addr;
		uint64_t index;

		addr.pid = (uint32_t)(i < met ? pid + 1000 : pid);
		addr.id[0] ^= 1 + (uint8_t)i;
		addr.host += i >= n - row->abroad;
		if (known)
			assert_int_equal(bl_av_insert(node->av[0], &addr, &index), 0);
		if (i >= met) {
			if (i >= n - row->dead)
				assert_int_equal(bl_av_remove(node->av[0], index), 0);
			continue;
		}
		others[i] = bl_local_peer(local, &addr);
		assert_non_null(others[i]);
		others[i]->copy.pid = pid;
		others[i]->adopted = true;
		others[i]->dead = i >= met - row->dead ? ECONNRESET : 0;
		by_index[i + 1] = others[i]->dead ? NULL : others[i];
	}
	local->by_index = by_index;
	local->nby_index = bl_countof(by_index);
}

static void part_from_others(void)
{
	for (int i = 0; i < OTHERS_MOST && others[i]; i++) {
		others[i]->adopted = false;
		others[i]->dead = 0;
		others[i] = NULL;
	}
}

/* One wait that is long. */
static void wait_long(struct bl_cq *cq)
{
	cq->wait_began = bl_ticks();
	for (int reads = 0; reads < 64; reads++)
		bl_wait_give_way(cq, bl_ticks());
}

/* Many that are short: between two reads something has come, and others have run. */
static void wait_often(struct bl_cq *cq)
{
	struct bl_comp comp;

	cq->ep[0]->next_look = bl_ticks() + 3600000000ull * bl_ticks_per_us(); /* they don't live */
	/* Two of the spins, one of so many waits, within a moment, though this machine may be busy
	 */
	for (int waits = 0; waits < 64 * (int)BL_WAIT_PROBE && !cq->crowd.until; waits++) {
		cq->full++;
		assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), -EAGAIN);
	}
}

static void is_found_shared(void (*by)(struct bl_cq *cq), const struct crowd_row *what)
{
	struct bl_peer **own;
	static struct node node;
	struct bl_local *local;
	struct bl_cq *cq;
	uint32_t nown;

	row = NULL;
	switched = asked = 0;
	node_open(&node, 1);
	cq = node.cq[0];
	local = &node.ep[0]->local;
	own = local->by_index;
	nown = local->nby_index;
	row = what;
	meet_others(&node);
	by(cq);
	assert_int_equal(cq->crowd.until != 0, row->shared);
	assert_true(row->switches || !asked); /* a thousand neighbours aren't asked for nothing */
	row = NULL;
	part_from_others();
	local->by_index = own;
	local->nby_index = nown;
	node_close(&node);
}

static void counts_as_shared(void **state)
{
	const struct crowd_row *what = TABLE_ROW(struct crowd_row, state);

	is_found_shared(wait_long, what);
	is_found_shared(wait_often, what);
}

/* --- spins ----------------------------------------------------------------------- */

struct luck_row {
	struct row row;
	const char *spins; /* +: it found something, -: it didn't */
	bool again;	   /* the next wait spins as well */
	bool alone;	   /* the core is ours */
};

static const struct luck_row lucks[] = {
	{{"none yet", "only a probe"}, "", false, false},
	{{"a probe in vain", "as before"}, "-", false, false},
	{{"a probe", "perhaps both run now"}, "+", true, false},
	{{"once, then in vain", "chance"}, "+-", false, false},
	{{"three, then in vain", "as many as it takes away"}, "+++-", false, false},
	{{"four, then in vain", "one is left"}, "++++-", true, false},
	{{"every other", "half of them in vain is too many"}, "+-+-+-+-", false, false},
	{{"three of four", "less than pays"}, "+++-+++-+++-", false, false},
	{{"four of five", "pays"}, "++++-++++-++++-", true, false},
	{{"long together", "then the other's turn ends"}, "++++++++++++---", false, false},
	{{"long together", "one in vain is no end"}, "++++++++++++--", true, false},
	{{"alone, once", "good for three in vain"}, "+---", true, true},
	{{"alone, once", "and not for four"}, "+----", false, true},
	{{"alone, each fourth", "the others cost nobody anything"}, "+---+---+---", true, true},
	{{"alone, often", "as good as once"}, "++++++----", false, true},
};

static void spins_while_they_find(void **state)
{
	const struct luck_row *what = TABLE_ROW(struct luck_row, state);
	struct bl_crowd crowd = {.waits = 1};

	for (const char *spin = what->spins; *spin; spin++)
		bl_wait_spun(&crowd, *spin == '+', !what->alone);
	assert_int_equal(bl_wait_may_spin(&crowd), what->again);
	for (crowd.waits = 2; crowd.waits < BL_WAIT_PROBE; crowd.waits++)
		assert_int_equal(bl_wait_may_spin(&crowd), what->again);
	assert_true(bl_wait_may_spin(&crowd)); /* a probe */
}

/* --- naps ------------------------------------------------------------------------ */

struct nap_row {
	struct row row;
	int64_t waited; /* us */
	bool crowded, vain, naps;
};

static const struct nap_row naps[] = {
	{{"a millisecond", "somebody computes"}, 1100, true, false, true},
	{{"not a millisecond", "it may come any moment"}, 900, true, false, false},
	{{"at once", "it may come any moment"}, 0, true, false, false},
	{{"nobody shares the core", "nobody needs it"}, 1100, false, false, false},
	{{"naps were in vain", "stays awake"}, 1100, true, true, false},
};

/* A nap that nobody ends is counted in vain. */
static void naps_when(void **state)
{
	const struct nap_row *when = TABLE_ROW(struct nap_row, state);
	static struct node node;
	uint64_t now, hour = 3600000000ull * bl_ticks_per_us();
	struct bl_cq *cq;
	uint32_t before;

	node_open(&node, 1);
	cq = node.cq[0];
	now = bl_ticks();
	cq->wait_began = now - (uint64_t)when->waited * bl_ticks_per_us();
	cq->crowd.until = when->crowded ? now + hour : 0;
	cq->crowd.no_nap = when->vain ? now + hour : 0;
	before = cq->crowd.vain;
	bl_wait_give_way(cq, now);
	assert_int_equal(cq->crowd.vain - before, when->naps);
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("core", counts_as_shared, crowds);
	TABLE_ROWS("luck", spins_while_they_find, lucks);
	TABLE_ROWS("nap", naps_when, naps);
	return table_run("crowd");
}
