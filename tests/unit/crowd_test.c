/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * crowd_test.c: when a process that polls takes its core for shared (core/crowd.h), by how many
 * cores there are, who may run there, and how often the scheduler has switched to others, all
 * of which are ours to say here; when it stays, and when it naps.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/core.h"
#include "core/crowd.h"
#include "unit/node.h"

#define OTHERS_MOST    8
#define GIVES_AFTER_US 30 /* of a wait */
/* cq.c and crowd.c have the same: longer between two reads is computing, a longer wait naps. */
#define COMPUTING_US  7
#define NAPS_AFTER_US 1000
#define HELD_UP_US    50 /* much longer than a read takes */

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
static uint64_t each_takes; /* us */

int __wrap_sched_yield(void)
{
	uint64_t began = bl_ticks();

	yields++;
	while (bl_ticks() - began < each_takes * bl_ticks_per_us())
		;
	return 0;
}

static int core = 7; /* OUR_CORE */

int __wrap_sched_getcpu(void)
{
	return core;
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
		bl_crowd_give_way(cq, bl_ticks());
}

/* Many that are short: between two reads something has come, and others have run. */
static void wait_often(struct bl_cq *cq)
{
	struct bl_comp comp;
	char buf[8];

	/* what is waited for */
	assert_int_equal(bl_recv_buf(cq->ep[0], buf, sizeof buf, 0, 5, 0, NULL, NODE_FLAGS), 0);

	cq->ep[0]->next_look = bl_ticks() + BL_TICKS_AHEAD; /* they don't live */
	/* Two of the spins, one of so many waits, within a moment, though this machine may be busy
	 */
	for (int waits = 0; waits < 64 * (int)BL_LUCK_PROBE && !cq->crowd.until; waits++) {
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

	cq->ep[0]->next_look = began + BL_TICKS_AHEAD; /* they don't live */
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
	struct bl_crowd *crowd;
	uint64_t now = bl_ticks(), apart = what->apart * bl_ticks_per_us();

	node_open(&node, 1);
	crowd = &node.cq[0]->crowd;
	switched = 0;
	*crowd = (struct bl_crowd){.outnumbers = true, .counted = now, .window = now};
	row = &looks;
	bl_crowd_doubt(node.cq[0], now + apart);
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
	struct bl_luck luck = {.waits = 1};

	for (const char *spin = what->spins; *spin; spin++)
		bl_luck_spun(&luck, *spin == '+');
	for (; luck.waits <= 512; luck.waits++)
		assert_int_equal(bl_luck_may_spin(&luck),
				 what->again || luck.waits % what->probe == 0);
}

/* --- stays ----------------------------------------------------------------------- */

#define OUR_CORE     8 /* it counts from 1 here */
#define ANOTHER_CORE 9
#define LEFT_OURS    (OUR_CORE | BL_TURN_AWAY)
#define LEFT_ANOTHER (ANOTHER_CORE | BL_TURN_AWAY)

static struct node pair; /* we are the first */

static void open_pair(uint32_t company)
{
	node_open(&pair, 2);
	pair.cq[0]->crowd = (struct bl_crowd){
		.until = bl_ticks() + BL_TICKS_AHEAD,
		.company = company,
		.visit_every = 32,
	};
	/* nobody looks after lives or the scheduler meanwhile */
	pair.ep[0]->next_look = pair.cq[0]->crowd.until;
}

static void post(uint64_t from, uint64_t tag)
{
	static uint8_t buf[8];

	assert_int_equal(bl_recv_buf(pair.ep[0], buf, sizeof buf, from, tag, 0, NULL, NODE_FLAGS),
			 0);
}

static void their_turn(uint32_t turn)
{
	atomic_store(&pair.ep[1]->local.seg.header->turn, turn);
}

static uint32_t our_turn(void)
{
	return atomic_load(&pair.ep[0]->local.seg.header->turn);
}

enum whom { NOBODY, THEM, ANYBODY, US };
enum outcome { LEAVES, STAYS, VISITS };

struct stay_row {
	struct row row;
	enum whom whom; /* the oldest receive is from */
	uint32_t turn;	/* of the other */
	uint32_t company;
	bool due; /* it is time for a visit */
	enum outcome outcome;
};

static const struct stay_row stays[] = {
	{{"runs elsewhere", "its answer is near"}, THEM, ANOTHER_CORE, 1, false, STAYS},
	{{"has not said anything", "it may run"}, THEM, 0, 1, false, STAYS},
	{{"runs here", "so it has been stopped in the middle"}, THEM, OUR_CORE, 1, true, LEAVES},
	{{"left our core", "it can't run before we go"}, THEM, LEFT_OURS, 1, true, LEAVES},
	{{"left another core", "no answer before its turn"}, THEM, LEFT_ANOTHER, 1, false, LEAVES},
	{{"left another core", "it may find us here"}, THEM, LEFT_ANOTHER, 1, true, VISITS},
	{{"runs elsewhere, no company", "it never answered"}, THEM, ANOTHER_CORE, 0, false, LEAVES},
	{{"runs elsewhere, no company", "perhaps now"}, THEM, ANOTHER_CORE, 0, true, VISITS},
	{{"left our core, no company", "nobody to find us"}, THEM, LEFT_OURS, 0, true, LEAVES},
	{{"from anybody", "who that is isn't known"}, ANYBODY, ANOTHER_CORE, 8, true, LEAVES},
	{{"nothing posted", "nobody is waited for"}, NOBODY, ANOTHER_CORE, 8, true, LEAVES},
	{{"from ourselves", "we are here"}, US, ANOTHER_CORE, 8, true, LEAVES},
	{{"a core beyond any", "said by a broken neighbour"}, THEM, 0x7fffffff, 1, false, STAYS},
};

static void stays_with(void **state)
{
	const struct stay_row *what = TABLE_ROW(struct stay_row, state);
	struct bl_stay stay;
	struct bl_cq *cq;
	enum outcome outcome = LEAVES;

	open_pair(what->company);
	cq = pair.cq[0];
	cq->crowd.skipped = what->due ? 31 : 7;
	bl_crowd_return(cq);
	assert_int_equal(our_turn(), OUR_CORE);
	their_turn(what->turn);
	if (what->whom != NOBODY)
		post(what->whom == ANYBODY ? BL_ADDR_ANY : what->whom == US ? 0 : 1, 5);
	if (bl_crowd_stay(cq, &stay))
		outcome = stay.visit ? VISITS : STAYS;
	assert_int_equal(outcome, what->outcome);
	node_close(&pair);
}

/* Where the kernel doesn't say on which core we run, no process there knows, and all are as if on
 * one. */
static void unknown_cores(void **state)
{
	struct bl_stay stay;

	open_pair(8);
	core = -1;
	bl_crowd_return(pair.cq[0]);
	assert_int_equal(our_turn(), 0);
	bl_crowd_leave(pair.cq[0]);
	assert_int_equal(our_turn(), BL_TURN_AWAY);
	post(1, 5);
	for (int away = 0; away < 2; away++) {
		pair.cq[0]->crowd.skipped = 31;
		their_turn(away ? BL_TURN_AWAY : 0);
		assert_false(bl_crowd_stay(pair.cq[0], &stay));
	}
	core = 7;
	node_close(&pair);
}

/* A process with a queue for its sends and one for its receives: which of them it has left by
 * doesn't matter. */
static void returns_by_any_queue(void **state)
{
	struct bl_comp comp;
	struct bl_cq *tx;

	open_pair(0);
	assert_int_equal(bl_cq_open(pair.domain, 0, &tx), 0);
	pair.ep[0]->tx_cq = tx;
	bl_crowd_leave(pair.cq[0]);
	assert_int_equal(our_turn(), BL_TURN_AWAY);
	assert_true(tx->away);
	bl_crowd_return(tx);
	bl_cq_read(pair.cq[0], &comp, 1, sizeof comp, NULL);
	assert_int_equal(our_turn(), OUR_CORE);
	pair.ep[0]->tx_cq = pair.cq[0];
	assert_int_equal(bl_cq_close(tx), 0);
	node_close(&pair);
}

/* What ends a stay of either kind. */
static void stays_until(void **state)
{
	for (int visit = 0; visit < 2; visit++) {
		struct bl_stay stay;
		struct bl_cq *cq;

		open_pair(1);
		cq = pair.cq[0];
		cq->crowd.skipped = 31;
		their_turn(ANOTHER_CORE | (visit ? BL_TURN_AWAY : 0));
		post(1, 5);
		assert_true(bl_crowd_stay(cq, &stay));
		assert_int_equal(stay.visit, visit);
		stay.until = cq->crowd.until;
		assert_true(bl_crowd_stay_on(cq, &stay));
		their_turn(ANOTHER_CORE |
			   BL_TURN_AWAY); /* a visit minds that as little as before */
		assert_int_equal(bl_crowd_stay_on(cq, &stay), visit);
		their_turn(ANOTHER_CORE);
		assert_true(bl_crowd_stay_on(cq, &stay));
		stay.until = bl_ticks() - 1;
		assert_false(bl_crowd_stay_on(cq, &stay));
		assert_false(stay.left);
		stay.until = cq->crowd.until;
		assert_int_equal(bl_cancel(pair.ep[0], NULL), 0); /* no longer awaited */
		assert_false(bl_crowd_stay_on(cq, &stay));
		assert_true(stay.left);
		node_close(&pair);
	}
}

struct company_row {
	struct row row;
	const char *stays; /* + found, - in vain, . the other left; the same of visits: F V */
	uint32_t company, visit_every;
};

static const struct company_row companies[] = {
	{{"a visit", "is how it begins"}, "F", 1, 0},
	{{"a visit in vain", "the next one in a while"}, "V", 0, 32},
	{{"two", "in twice that"}, "VV", 0, 64},
	{{"many", "rarely"}, "VVVVVVVVVV", 0, 512},
	{{"a visit found", "is no reason for more"}, "VVVF", 1, 128},
	{{"and has stayed", "is one"}, "VVVF+", 2, 32},
	{{"four, then in vain", "one is left"}, "++++-", 1, 64},
	{{"every other", "half of them in vain is too many"}, "+-+-+-+-", 0, 64},
	{{"three of four", "less than pays"}, "+++-+++-+++-", 0, 64},
	{{"four of five", "pays"}, "++++-++++-++++-", 3, 64},
	{{"long together", "counts no more than eight"}, "++++++++++++--", 2, 128},
	{{"left", "costs nothing"}, "++..........", 2, 32},
	{{"visits in vain", "say nothing of who runs"}, "++VV", 2, 128},
};

static void company_lasts(void **state)
{
	const struct company_row *what = TABLE_ROW(struct company_row, state);
	struct bl_crowd crowd = {0};

	for (const char *end = what->stays; *end; end++) {
		struct bl_stay stay = {.visit = *end == 'F' || *end == 'V', .left = *end == '.'};

		bl_crowd_stayed(&crowd, &stay, *end == 'F' || *end == '+');
	}
	assert_int_equal(crowd.company, what->company);
	assert_int_equal(crowd.visit_every, what->visit_every);
}

/* Each 16th time where it would be each 512th. */
static void visits_its_partner(void **state)
{
	struct bl_stay stay;

	(void)state;
	for (int two = 0; two < 2; two++)
		for (uint32_t skipped = 14; skipped < 16; skipped++) {
			open_pair(1);
			pair.cq[0]->crowd.visit_every = 512;
			pair.cq[0]->crowd.skipped = skipped;
			pair.cq[0]->crowd.apart.pair = two;
			bl_crowd_return(pair.cq[0]);
			their_turn(LEFT_ANOTHER);
			post(1, 5);
			assert_int_equal(bl_crowd_stay(pair.cq[0], &stay), two && skipped == 15);
			node_close(&pair);
		}
}

/* Who reads says whether it is here. */
struct turn_row {
	struct row row;
	enum whom posted;
	const char *reads; /* -: nothing is there, +: something, which another has sent */
	bool away;
	int yields;
};

static const struct turn_row turns[] = {
	{{"something", "is here"}, NOBODY, "+", false, 0},
	{{"first of a wait", "its caller may yield"}, THEM, "+-", true, 0},
	{{"first, for anybody", "its caller may have enough"}, ANYBODY, "+-", false, 0},
	{{"second, for anybody", "its caller waits"}, ANYBODY, "+--", true, 1},
	{{"first, for nothing", "its caller goes on"}, NOBODY, "+-", false, 0},
	{{"second, for nothing", "its caller waits for something else"}, NOBODY, "+--", true, 1},
	{{"then something", "is here again"}, NOBODY, "+---+", false, 2},
};

/* True: this machine has held us up between two empty reads, by the times that the queue itself has
 * noted, which it takes for its caller's computing; or altogether for as long as a wait that naps.
 */
static bool reads_as(const struct turn_row *what, struct bl_cq *cq)
{
	uint64_t us = bl_ticks_per_us(), began = bl_ticks();
	bool held_up = false;
	struct bl_comp comp;

	for (const char *read = what->reads; *read; read++) {
		uint64_t before = cq->last_empty;

		if (*read == '+') {
			post(1, 5);
			node_send(&pair, 1, 0, NULL, 0, 5, NULL, BL_TAGGED);
			for (int reads = 1; bl_cq_read(cq, &comp, 1, sizeof comp, NULL) != 1;
			     reads++)
				assert_in_range(reads, 1, 1000000);
			continue;
		}
		assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), -EAGAIN);
		if (read != what->reads && read[-1] == '-')
			held_up |= cq->last_empty - before > COMPUTING_US * us;
	}
	return held_up || bl_ticks() - began > NAPS_AFTER_US * us;
}

static bool is_as_expected(const struct turn_row *what, const struct bl_cq *cq)
{
	return cq->away == what->away && yields == what->yields &&
	       (cq->crowd.skipped > 0) == (what->posted == THEM) && /* asked whether to stay */
	       our_turn() == (what->away ? OUR_CORE | BL_TURN_AWAY : OUR_CORE);
}

static void says_its_turn(void **state)
{
	const struct turn_row *what = TABLE_ROW(struct turn_row, state);
	bool good = false, held_up = true;

	for (int tries = 0; !good && held_up; tries++) {
		struct bl_cq *cq;

		assert_in_range(tries, 0, 1000);
		open_pair(0);
		cq = pair.cq[0];
		cq->last_empty = bl_ticks();
		bl_crowd_return(cq);
		if (what->posted != NOBODY)
			post(what->posted == ANYBODY ? BL_ADDR_ANY : 1, 6);
		yields = 0;
		held_up = reads_as(what, cq);
		good = is_as_expected(what, cq);
		if (!good && !held_up)
			fail_msg("away %d, %d yields, asked %u, turn %#x", cq->away, yields,
				 cq->crowd.skipped, our_turn());
		node_close(&pair);
	}
}

/* --- yields ---------------------------------------------------------------------- */

struct yield_row {
	struct row row;
	enum whom posted;
	bool crowded;
	uint64_t every; /* us: a yield at the most, but the first; 0: each read */
	bool taken;	/* a yield, by others, which takes a while */
};

static const struct yield_row lasting[] = {
	{{"for a message", "its sender may want the core"}, THEM, false, 2, false},
	{{"for nothing of ours", "whatever it is comes sooner"}, NOBODY, false, 30, false},
	{{"taken", "for its sender, perhaps"}, THEM, false, 0, true},
	{{"for nothing of ours, taken", "for whatever it is, perhaps"}, NOBODY, false, 0, true},
	{{"in a crowd", "whoever it is wants the core"}, THEM, true, 0, false},
	{{"for nothing of ours, in a crowd", "whatever it is"}, NOBODY, true, 0, false},
};

#define LASTS_US 2000

/* Reads in a row of a wait that has lasted for a while, and goes on. */
static void yields_while_it_lasts(void **state)
{
	const struct yield_row *what = TABLE_ROW(struct yield_row, state);
	uint64_t began, us = bl_ticks_per_us(), lasted, last;
	int reads = 0;
	struct bl_comp comp;
	struct bl_cq *cq;

	open_pair(0);
	cq = pair.cq[0];
	if (!what->crowded)
		cq->crowd.until = 0;
	if (what->posted == THEM)
		post(1, 6);
	for (int i = 0; i < 2; i++) /* the second one begins no wait */
		assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), -EAGAIN);
	began = bl_ticks();
	cq->wait_began = began - 2 * GIVES_AFTER_US * us;
	cq->gave_way = began - 2 * GIVES_AFTER_US * us;
	cq->crowd.no_nap = began + BL_TICKS_AHEAD;
	yields = 0;
	each_takes = what->taken ? 4 : 0;
	last = began;
	do {
		uint64_t now = bl_ticks();

		/* However long this machine has held us up, in the last read, too: its caller
		 * hasn't computed, and its wait goes on. */
		cq->last_empty = now;
		if (now - last > COMPUTING_US * us)
			cq->wait_began = began - 2 * GIVES_AFTER_US * us;
		if (cq->crowd.taken && now - last > HELD_UP_US * us)
			cq->crowd.taken = now;
		last = now;
		assert_int_equal(bl_cq_read(cq, &comp, 1, sizeof comp, NULL), -EAGAIN);
		lasted = bl_ticks() - began;
	} while (++reads, lasted < LASTS_US * us);
	each_takes = 0;
	assert_true(yields > 0);
	if (what->every && !cq->crowd.taken) /* by nobody else on this machine */
		assert_true((uint64_t)yields <= 1 + lasted / (what->every * us));
	else if (!what->every) /* but while it is held up between two looks */
		assert_in_range(yields, reads - reads / 8 - 1, reads);
	node_close(&pair);
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
	bl_crowd_give_way(cq, now);
	assert_int_equal(cq->crowd.vain - before, when->naps);
	assert_int_equal(yields, !when->naps);
	node_close(&node);
}

/* --- met on one core ------------------------------------------------------------- */

struct met_row {
	struct row row;
	uint32_t turn;	/* what the other one says */
	uint64_t takes; /* us: a yield */
	bool shared;
};

static const struct met_row mets[] = {
	{{"it waits here", "a yield each turn, not 30 us"}, OUR_CORE, 5, true},
	{{"it has left our core", "it waits here"}, OUR_CORE | BL_TURN_AWAY, 5, true},
	{{"it waits elsewhere", "a stranger took the core"}, OUR_CORE + 1, 5, false},
	{{"it has said nothing", "a stranger took the core"}, 0, 5, false},
	{{"nobody took the core", "it isn't here any more"}, OUR_CORE, 0, false},
};

/* Two of a job of two, on two cores: others' load has put both on one of these. */
static void met_on_one_core(void **state)
{
	const struct met_row *what = TABLE_ROW(struct met_row, state);
	struct bl_cq *cq;

	open_pair(0);
	cq = pair.cq[0];
	cq->crowd.until = 0;
	their_turn(what->turn);
	each_takes = what->takes;
	bl_crowd_give_way(cq, bl_ticks());
	each_takes = 0;
	assert_int_equal(our_turn(), OUR_CORE); /* so that it finds us, too */
	assert_int_equal(bl_crowd_shared(&cq->crowd, bl_ticks()), what->shared);
	/* And no longer than for a moment. */
	assert_false(bl_crowd_shared(&cq->crowd, bl_ticks() + 11000 * bl_ticks_per_us()));
	node_close(&pair);
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
	node.ep[0]->next_look = node.cq[0]->crowd.until = now + 2 * BL_TICKS_AHEAD;
	assert_true(bl_crowd_shared(&node.cq[0]->crowd, now));
	bl_crowd_give_way(node.cq[0], now);
	assert_true(bl_has_come(bl_ticks(), node.ep[0]->next_look));
	assert_false(bl_crowd_shared(&node.cq[0]->crowd, bl_ticks()));
	node_close(&node);
}

int main(void)
{
	TABLE_ROWS("core", counts_as_shared, crowds);
	TABLE_ROWS("rate", is_often_enough, rates);
	TABLE_ROWS("luck", spins_while_they_find, lucks);
	TABLE_ROWS("stay", stays_with, stays);
	TABLE_TEST(counter_begins_anew);
	TABLE_TEST(unknown_cores);
	TABLE_TEST(returns_by_any_queue);
	TABLE_TEST(stays_until);
	TABLE_ROWS("company", company_lasts, companies);
	TABLE_TEST(visits_its_partner);
	TABLE_ROWS("turn", says_its_turn, turns);
	TABLE_ROWS("yield", yields_while_it_lasts, lasting);
	TABLE_ROWS("nap", naps_when, naps);
	TABLE_ROWS("met", met_on_one_core, mets);
	TABLE_TEST(served_meanwhile);
	return table_run("crowd");
}
