/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * oversub_test.c: when a process that polls takes its core for shared (wait/oversub.h), by how many
 * cores there are, who may run there, and how often the scheduler has switched to others, all
 * of which are ours to say here; and when it naps.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "endpoint/api.h"
#include "wait/oversub.h"
#include "unit/node.h"

#define OTHERS_MOST    8
#define GIVES_AFTER_US 30 /* of a wait */

struct crowd_row {
	struct row row;
	int allowed; /* cores for us; 0: the kernel doesn't say */
	int others;  /* processes beside us, of which ... */
	int elsewhere, unmet, abroad, dead;
	int endpoints; /* of each of them */
	long switches; /* to somebody else, between two looks */
	bool shared;
	int bound; /* of the others, not elsewhere, to one of the cores each, the last one first */
	int ours;  /* we may run on the first of them only; 0: on all */
	int anywhere; /* of the others, the last, may run on eight cores more */
};

static const struct crowd_row crowds[] = {
	/* of others: on other cores, only an address so far, abroad, dead or removed */
	{{"as many others as cores", "we are one more"}, 2, 2, 0, 0, 0, 0, 1, 8, true, 0, 0, 0},
	{{"a neighbour fewer", "each has his core"}, 2, 1, 0, 0, 0, 0, 1, 8, false, 0, 0, 0},
	{{"all on a few cores", "of a large machine"}, 2, 7, 0, 0, 0, 0, 1, 8, true, 0, 0, 0},
	{{"a few on more cores", "of a large machine"}, 8, 7, 0, 0, 0, 0, 1, 8, false, 0, 0, 0},
	{{"each bound to a core", "and alone there"}, 1, 7, 7, 0, 0, 0, 1, 8, false, 0, 0, 0},
	{{"each bound to two", "and alone there"}, 2, 7, 7, 0, 0, 0, 1, 8, false, 0, 0, 0},
	{{"two bound to a core", "the others elsewhere"}, 1, 7, 6, 0, 0, 0, 1, 8, true, 0, 0, 0},
	{{"half bound to each half", "each has a core"}, 4, 7, 4, 0, 0, 0, 1, 8, false, 0, 0, 0},
	{{"half bound to each half", "and one too many"}, 4, 8, 4, 0, 0, 0, 1, 8, true, 0, 0, 0},
	{{"more cores than cpu_set_t", "has room for"}, 2048, 7, 0, 0, 0, 0, 1, 8, false, 0, 0, 0},
	{{"the kernel doesn't say", "where we may run"}, 0, 7, 0, 0, 0, 0, 1, 8, false, 0, 0, 0},
	{{"nobody else runs", "whatever our number"}, 2, 7, 0, 0, 0, 0, 1, 0, false, 0, 0, 0},
	{{"a leaf of a tree", "is connected to one"}, 2, 3, 0, 2, 0, 0, 1, 8, true, 0, 0, 0},
	{{"nobody met", "addresses are enough"}, 2, 2, 0, 2, 0, 0, 1, 8, true, 0, 0, 0},
	{{"nobody met", "each bound to a core"}, 1, 7, 7, 7, 0, 0, 1, 8, false, 0, 0, 0},
	{{"nobody met", "but one on another host"}, 2, 4, 0, 4, 3, 0, 1, 8, false, 0, 0, 0},
	{{"two have ended", "and left us their cores"}, 2, 3, 0, 0, 0, 2, 1, 8, false, 0, 0, 0},
	{{"two removed", "from the addresses"}, 2, 3, 0, 3, 0, 2, 1, 8, false, 0, 0, 0},
	{{"two endpoints each", "are no more processes"}, 2, 1, 0, 0, 0, 0, 2, 8, false, 0, 0, 0},
	{{"two endpoints each", "of one not met"}, 2, 1, 0, 1, 0, 0, 2, 8, false, 0, 0, 0},
	{{"the first two bound", "the others come to us"}, 2, 3, 0, 0, 0, 0, 1, 8, true, 1, 1, 0},
	{{"the first two bound", "one more goes anywhere"}, 2, 4, 0, 0, 0, 0, 1, 8, true, 1, 1, 1},
	{{"the first bound", "a core each"}, 4, 3, 0, 0, 0, 0, 1, 8, false, 0, 1, 0},
	{{"the first bound", "one too many"}, 4, 4, 0, 0, 0, 0, 1, 8, true, 0, 1, 0},
	{{"each bound to a core", "no two to one"}, 4, 3, 0, 0, 0, 0, 1, 8, false, 3, 1, 0},
	{{"all others bound", "to all that we have"}, 2, 2, 0, 0, 0, 0, 1, 8, true, 2, 0, 0},
	{{"all others bound", "one core is left to us"}, 3, 2, 0, 0, 0, 0, 1, 8, false, 2, 0, 0},
	{{"all others bound", "to a few of ours"}, 4, 3, 0, 0, 0, 0, 1, 8, false, 3, 0, 0},
};

static const struct crowd_row *row;
static long switched;
static int asked; /* for where a neighbour may run */

int __wrap_sched_yield(void);
int __wrap_sched_getcpu(void);
int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __real_getrusage(int who, struct rusage *usage);
int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);

/* However many others run on this machine now, the looks are moments apart. */
static int yields;

int __wrap_sched_yield(void)
{
	yields++;
	return 0;
}

int __wrap_sched_getcpu(void)
{
	return 7;
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
	int first = 0, n = row ? row->allowed : 0, nth = pid - first_pid();

	if (!row)
		return __real_sched_getaffinity(pid, size, set);
	if (!pid && row->ours) {
		n = row->ours;
	} else if (pid && nth < row->elsewhere) {
		first = 4096;
	} else if (pid && nth < row->elsewhere + row->bound) {
		first = row->allowed - 1 - nth % row->allowed;
		n = 1;
	} else if (pid && nth >= row->others - row->anywhere) {
		n = row->allowed + 8;
	}
	asked += pid > 0;
	CPU_ZERO_S(size, set);
	for (int cpu = first; cpu < first + n; cpu++)
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
	cq->crowd.no_nap = cq->wait_began + BL_TICKS_AHEAD; /* nor is anybody there to wake us */
	for (int reads = 0; reads < 64; reads++)
		bl_oversub_give_way(cq, bl_ticks());
}

/* Many that are short: between two reads something has come, and others have run. */
static void wait_often(struct bl_cq *cq)
{
	struct bl_comp comp;
	char buf[8];

	/* what is waited for */
	assert_int_equal(bl_recv_buf(cq->ep[0], buf, sizeof buf, 0, 5, 0, NULL, NODE_FLAGS), 0);

	cq->ep[0]->watch.next_look = bl_ticks() + BL_TICKS_AHEAD; /* they don't live */
	/* Two of the spins, one of so many waits, within a moment, though this machine may be busy
	 */
	for (int waits = 0; waits < 64 * (int)BL_SPIN_CREDIT_PROBE && !cq->crowd.until; waits++) {
		cq->full++;
		assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), -EAGAIN);
	}
}

/* For what others do to memory of theirs, say, which it looks at by operations of its own: now and
 * then it gives its core away, no sooner than one that begins to wait. */
static void wait_between_operations(struct bl_cq *cq)
{
	uint64_t began = bl_ticks(), least = (uint64_t)GIVES_AFTER_US * bl_ticks_per_us();
	struct bl_comp comp;

	cq->ep[0]->watch.next_look = began + BL_TICKS_AHEAD; /* they don't live */
	cq->last_empty = cq->wait_began = cq->gave_way = began;
	for (yields = 0; yields < 32 && !cq->crowd.until;) {
		bl_cq_renew(cq);
		assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), -EAGAIN);
		assert_true(bl_ticks() - began >= (uint64_t)yields * least);
		assert_true(bl_ticks() - began < 60000000ull * bl_ticks_per_us());
	}
	assert_true(yields);
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
	cq->crowd.left_to_caller = true; /* who may have found other cores since */
	by(cq);
	assert_false(cq->crowd.left_to_caller && !cq->crowd.outnumbers);
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
	is_found_shared(wait_between_operations, what);
}

struct rate_row {
	struct row row;
	long switches;	/* between a look and the next one */
	uint64_t apart; /* us */
	bool shared;
};

static const struct rate_row rates[] = {
	{{"four in a millisecond", "others run again and again"}, 4, 1000, true},
	{{"three", "somebody's moment"}, 3, 1000, false},
	{{"four, just within a window", "as often as counts"}, 4, 9990, true},
	{{"four, in a little more", "too rarely"}, 4, 10010, false},
	{{"four in each of two", "that is often enough"}, 8, 10010, true},
	{{"of a look each 90 ms", "four in each of ten"}, 40, 90000, true},
	{{"one less", "too rarely"}, 39, 90000, false},
};

static void is_often_enough(void **state)
{
	const struct rate_row *what = TABLE_ROW(struct rate_row, state);
	struct crowd_row looks = {.switches = what->switches};
	static struct node node;
	struct bl_oversub *crowd;
	uint64_t now = bl_ticks(), apart = what->apart * bl_ticks_per_us();

	node_open(&node, 1);
	crowd = &node.cq[0]->crowd;
	switched = 0;
	*crowd = (struct bl_oversub){.outnumbers = true, .counted = now, .window = now};
	row = &looks;
	bl_oversub_doubt(node.cq[0], now + apart);
	row = NULL;
	assert_int_equal(crowd->until != 0, what->shared);
	/* the next window: the same, or a new one */
	assert_true(crowd->window == (what->shared ? 0 : now + (what->apart > 10000 ? apart : 0)));
	assert_true(what->shared || what->apart < 10000 ||
		    crowd->switches == (uint64_t)what->switches);
	node_close(&node);
}

/* --- spins ----------------------------------------------------------------------- */

struct luck_row {
	struct row row;
	const char *spins; /* on a core of our own. +: it found something, -: it didn't */
	bool again;	   /* the next wait spins as well */
	uint32_t probe;	   /* else one in so many does */
};

static const struct luck_row lucks[] = {
	{{"none yet", "only a probe"}, "", false, 32},
	{{"a probe in vain", "the next one later"}, "-", false, 64},
	{{"probes in vain", "rarer each time"}, "--", false, 128},
	{{"many in vain", "but not for ever"}, "----------", false, 256},
	{{"in vain, then once", "perhaps luck is back"}, "-----+", true, 0},
	{{"once, then in vain", "not worth it"}, "+-", false, 64},
	{{"three of four", "the fourth costs more than they save"}, "+++-+++-", false, 128},
	{{"as often as pays", "even: no more"}, "++++++++++++++++-", false, 32},
	{{"once more", "good for one in vain"}, "+++++++++++++++++-", true, 0},
	{{"long ago in vain", "forgotten"}, "----++++++++++++++++-", false, 32},
	{{"often", "good for one"}, "++++++++++++++++++++++++++++++++++++++++-", true, 0},
	{{"often", "and not for two"}, "++++++++++++++++++++++++++++++++++++++++--", false, 32},
};

static void spins_while_they_find(void **state)
{
	const struct luck_row *what = TABLE_ROW(struct luck_row, state);
	struct bl_spin_credit luck = {.waits = 1};

	for (const char *spin = what->spins; *spin; spin++)
		bl_spin_credit_spun(&luck, *spin == '+');
	for (; luck.waits <= 512; luck.waits++)
		assert_int_equal(bl_spin_credit_may_spin(&luck),
				 what->again || luck.waits % what->probe == 0);
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

/* Who doesn't nap yields. A nap that nobody ends is counted in vain. */
static void naps_when(void **state)
{
	const struct nap_row *when = TABLE_ROW(struct nap_row, state);
	static struct node node;
	uint64_t now, long_ = BL_TICKS_AHEAD;
	struct bl_cq *cq;
	uint32_t before;

	node_open(&node, 1);
	cq = node.cq[0];
	now = bl_ticks();
	cq->wait_began = now - (uint64_t)when->waited * bl_ticks_per_us();
	cq->crowd.until = when->crowded ? now + long_ : 0;
	cq->crowd.no_nap = when->vain ? now + long_ : 0;
	before = cq->crowd.vain;
	yields = 0;
	bl_oversub_give_way(cq, now);
	assert_int_equal(cq->crowd.vain - before, when->naps);
	assert_int_equal(yields, !when->naps);
	node_close(&node);
}

/* What others asked for is done without a word to the caller: its wait, which was long, lasts since
 * it last gave way only, and so doesn't nap. */
static void served_meanwhile(void **state)
{
	static struct node node;
	struct bl_comp comp;
	struct bl_cq *cq;
	uint64_t now;

	(void)state;
	node_open(&node, 1);
	cq = node.cq[0];
	now = bl_ticks();
	cq->crowd.until = now + BL_TICKS_AHEAD;
	cq->wait_full = cq->empty_full = cq->full;
	cq->last_empty = cq->gave_way = now;
	cq->wait_began = now - 1100 * bl_ticks_per_us();
	bl_cq_renew(cq);
	assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), -EAGAIN);
	assert_true((int64_t)(cq->wait_began - now) >= 0);
	assert_int_equal(cq->crowd.vain, 0);
	node_close(&node);
}

/* What a counter said before it began anew is put right when a read gives way, at the latest. */
static void counter_begins_anew(void **state)
{
	struct node node;
	uint64_t now;

	(void)state;
	node_open(&node, 1);
	now = bl_ticks();
	node.ep[0]->watch.next_look = node.cq[0]->crowd.until = now + 2 * BL_TICKS_AHEAD;
	assert_true(bl_oversub_shared(&node.cq[0]->crowd, now));
	bl_oversub_give_way(node.cq[0], now);
	assert_true(bl_has_come(bl_ticks(), node.ep[0]->watch.next_look));
	assert_false(bl_oversub_shared(&node.cq[0]->crowd, bl_ticks()));
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("core", counts_as_shared, crowds);
	TABLE_ROWS("rate", is_often_enough, rates);
	TABLE_ROWS("luck", spins_while_they_find, lucks);
	TABLE_TEST(counter_begins_anew);
	TABLE_ROWS("nap", naps_when, naps);
	TABLE_TEST(served_meanwhile);
	return table_run("oversub");
}
