/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * oversub.c: see oversub.h.
 */
#include "wait/oversub.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/ep.h"
#include "endpoint/wait.h"
#include "place/cores.h"

#define SWITCHED_US  2	    /* a yield that took longer has probably switched */
#define COUNT_US     100000 /* between two counts of who shares our cores */
#define LOOK_READS   8	    /* empty, each so many, look whether they did, ... */
#define LOOK_RARELY  32	    /* ... or so many, once it is known */
#define SWITCHES     4	    /* so many ... */
#define WINDOW_US    10000  /* ... within this: shared */
#define SHARED_US    100000 /* for so long */
#define MET_US	     10000  /* or so long, with a neighbour that was met on it */
#define STAY_US	     2	    /* with one that runs: an answer takes less */
#define VISIT_US     4	    /* with one that doesn't: two or three turns of others */
#define VISIT_EVERY  32u    /* empty reads, ... */
#define VISIT_RARELY 512u   /* ... doubled up to this */
#define VISIT_PAIR   16u    /* ... or this, of a pair; pair_migrate.h */
#define NAP_AFTER_US 1000   /* of reads without a pause: who yields between them hardly naps */
#define NAP_US	     50	    /* doubled by each in vain */
#define VAIN_FEW     4	    /* so many in vain, and nothing of ours came: stay awake for ... */
#define NO_NAP_US    1000   /* ... this, doubled each time ... */
#define VAIN_MOST    11	    /* ... until so many */

void bl_oversub_new_wait(struct bl_oversub *crowd, bool awaited)
{
	crowd->read.waits += awaited;
	crowd->vain = 0;
	crowd->no_nap = 0;
}

/* --- who shares our cores -------------------------------------------------- */

#define PIDS 16384 /* two whose numbers are so far apart count as one */

/* How many other processes may run on these cores only, and these with those of the one that may
 * run on some of them and on the fewest others. */
struct sharers {
	struct bl_cores cores, nearest;
	pid_t us;
	int n, enough;
	int nearest_has;	  /* cores; 0: nobody is such a one */
	uint64_t seen[PIDS / 64]; /* a process may have many endpoints */
};

static void count_on(struct sharers *sharers)
{
	memset(sharers->seen, 0, sizeof sharers->seen);
	sharers->n = sharers->nearest_has = 0;
	sharers->enough = CPU_COUNT_S(sizeof sharers->cores, sharers->cores.part);
}

/* True: that is enough. */
static bool add_sharer(struct sharers *sharers, pid_t pid)
{
	uint32_t at = (uint32_t)pid % PIDS;
	uint64_t *seen = &sharers->seen[at / 64], bit = 1ull << at % 64;
	size_t size = sizeof(struct bl_cores);
	struct bl_cores theirs;
	int has, either;

	if (pid <= 0 || pid == sharers->us || (*seen & bit))
		return false;
	*seen |= bit;
	if (sched_getaffinity(pid, size, theirs.part))
		return false;
	has = CPU_COUNT_S(size, theirs.part);
	CPU_OR_S(size, theirs.part, theirs.part, sharers->cores.part);
	either = CPU_COUNT_S(size, theirs.part);
	sharers->n += either == sharers->enough;
	if (either > sharers->enough && either < sharers->enough + has &&
	    (!sharers->nearest_has || either < sharers->nearest_has)) {
		sharers->nearest = theirs;
		sharers->nearest_has = either;
	}
	return sharers->n >= sharers->enough;
}

/* 0: it has ended. */
static pid_t pid_of_peer(const struct bl_peer *peer)
{
	return peer->dead ? 0 : peer->copy.pid;
}

/*
 * The same, or it is out of reach. Of a process that we aren't connected to it is what that calls
 * itself, which in a container of its own may be a stranger's number here, or nobody's: until we
 * are connected one too many may be counted, or one too few.
 */
static pid_t pid_of_addr(struct bl_ep *ep, const struct bl_addr *addr)
{
	const struct bl_peer *peer;

	if (bl_addr_reachable(&ep->local.addr, addr))
		return 0;
	peer = bl_local_find(&ep->local, addr);
	return peer && peer->adopted ? pid_of_peer(peer) : (pid_t)addr->pid;
}

/* Not only whom we are connected to: at the leaf of a tree that is one, and the others want the
 * core as well. */
static bool enough_sharers(struct bl_ep *ep, struct sharers *sharers)
{
	const struct bl_av *av = ep->av;

	for (uint64_t i = 0; av && i < av->count; i++)
		if (av->used[i] && add_sharer(sharers, pid_of_addr(ep, &av->addr[i])))
			return true;
	for (uint32_t i = 0; i < ep->local.nby_index; i++) {
		const struct bl_peer *peer = ep->local.by_index[i];

		if (peer && add_sharer(sharers, pid_of_peer(peer)))
			return true;
	}
	return false;
}

/*
 * There are more of us than cores: of those that may run where we may and nowhere else, whether
 * launchers have bound each to a core or two, or all of a job to a part of the machine. Or, where
 * some are bound and others aren't (a program may bind its first ranks itself), of those that may
 * run on our cores and the next one's. If not, whoever else wants our core is a stranger, who gets
 * his share from the scheduler and gives nothing back for more. (It says less than who has a core:
 * four that are bound to one of our four may leave us three. Then nobody is switched to, either.)
 */
static bl_cold bool outnumber_cores(const struct bl_cq *cq)
{
	struct sharers sharers;

	sharers.us = getpid();
	if (sched_getaffinity(0, sizeof sharers.cores, sharers.cores.part))
		return false;
	for (int once_more = 1; once_more >= 0; once_more--) {
		count_on(&sharers);
		for (uint32_t i = 0; i < cq->nep; i++)
			if (enough_sharers(cq->ep[i], &sharers))
				return true;
		if (!sharers.nearest_has)
			break;
		sharers.cores = sharers.nearest;
	}
	return false;
}

/* What has the scheduler done since the last look? If others have run again and again,
 * the core is shared. If they have run more often than we gave way, whoever reads the
 * queue gives way as well, between reads, when he has looked at all that he waits for:
 * that is enough, and ours would waste every second turn. */
void bl_oversub_doubt(struct bl_cq *cq, uint64_t now)
{
	struct bl_oversub *crowd = &cq->crowd;
	bool count = now - crowd->counted > COUNT_US * bl_ticks_per_us();
	bool shared = bl_oversub_shared(crowd, now); /* by however many */
	struct rusage usage;
	uint64_t all, switches, windows;

	if ((!count && !crowd->outnumbers && !shared) || getrusage(RUSAGE_THREAD, &usage))
		return;
	all = (uint64_t)usage.ru_nivcsw;
	if (count) {
		/* Whoever has its core for itself need not ask where its neighbours run. */
		crowd->outnumbers = (crowd->outnumbers ||
				     (int64_t)(all - crowd->before) >= (int64_t)SWITCHES) &&
				    outnumber_cores(cq);
		crowd->before = all;
		crowd->counted = now;
	}
	if (!crowd->outnumbers && !shared) {
		crowd->left_to_caller = false;
		return;
	}
	switches = all - crowd->seen;
	crowd->left_to_caller = shared && switches >= crowd->own + (crowd->reads + 1) / 2;
	crowd->seen = all;
	crowd->own = crowd->reads = 0;
	if (!crowd->outnumbers)
		return;
	/* Whoever looks rarely has seen many windows at once; at 0 it begins anew. */
	windows = 1 + (now - crowd->window) / (WINDOW_US * bl_ticks_per_us());
	if (crowd->window && (int64_t)(all - crowd->switches) >= (int64_t)(SWITCHES * windows)) {
		crowd->until = now + SHARED_US * bl_ticks_per_us();
		crowd->window = 0;
	} else if (windows > 1) {
		crowd->window = now;
		crowd->switches = all;
	}
}

/* --- staying ----------------------------------------------------------------- */

static uint32_t this_core(void)
{
	int core = sched_getcpu();

	return core < 0 ? 0 : (uint32_t)core + 1;
}

static void say(const struct bl_cq *cq, uint32_t turn)
{
	for (uint32_t i = 0; i < cq->nep; i++)
		if (cq->ep[i]->local.seg.header)
			atomic_store_explicit(&cq->ep[i]->local.seg.header->turn, turn,
					      memory_order_relaxed);
}

void bl_oversub_return(struct bl_cq *cq)
{
	cq->away = false;
	cq->crowd.core = this_core();
	say(cq, cq->crowd.core);
}

void bl_oversub_leave(struct bl_cq *cq)
{
	/* Whichever queue of ours is read next returns. */
	for (uint32_t i = 0; i < cq->nep; i++) {
		const struct bl_ep *ep = cq->ep[i];

		if (ep->bound.tx_cq)
			ep->bound.tx_cq->away = true;
		if (ep->bound.rx_cq)
			ep->bound.rx_cq->away = true;
	}
	say(cq, cq->crowd.core | BL_TURN_AWAY);
}

/* Whom the oldest receive is from. NULL: anybody, or there is none. */
static const struct bl_peer *awaited_by(const struct bl_ep *ep)
{
	const struct bl_post *post =
		ep->tagged.posted.head ? ep->tagged.posted.head : ep->msg.posted.head;

	/* Before it is adopted the service thread sees to it. */
	return post && post->src && post->src->adopted && post->src->mapped.header ? post->src
										   : NULL;
}

static const struct bl_peer *awaited(const struct bl_cq *cq)
{
	const struct bl_peer *peer = NULL;

	for (uint32_t i = 0; i < cq->nep && !peer; i++)
		peer = awaited_by(cq->ep[i]);
	return peer;
}

static uint32_t turn_of(const struct bl_peer *peer)
{
	return atomic_load_explicit(&peer->mapped.header->turn, memory_order_relaxed);
}

static uint32_t core_of(const struct bl_peer *peer)
{
	return turn_of(peer) & ~BL_TURN_AWAY;
}

enum bl_migrate_step bl_oversub_step(struct bl_cq *cq, uint64_t now)
{
	struct bl_migrate *apart = &cq->crowd.apart;
	const struct bl_peer *peer;

	if (bl_knobs()->migrate == BL_MIGRATE_NEVER || !bl_migrate_may_look(apart, now))
		return BL_MIGRATE_REMAIN;
	peer = awaited(cq);
	return bl_migrate_look(cq, peer, peer && core_of(peer) == this_core(), now);
}

/* It is time for a visit. */
static bool may_visit(struct bl_oversub *crowd)
{
	uint32_t every = crowd->visit_every;

	if (++crowd->skipped < (crowd->apart.pair ? bl_min(every, VISIT_PAIR) : every))
		return false;
	crowd->skipped = 0;
	return true;
}

bool bl_oversub_stay(struct bl_cq *cq, struct bl_stay *stay)
{
	const struct bl_peer *peer = awaited(cq);
	struct bl_oversub *crowd = &cq->crowd;
	bool away, company = crowd->company;

	/* Its line, which lies in its cache, need not come for nothing. */
	if (!peer || (!company && !may_visit(crowd)))
		return false;
	if (!crowd->core)
		crowd->core = this_core();
	if (core_of(peer) == crowd->core)
		return false;
	away = turn_of(peer) & BL_TURN_AWAY;
	if (company && away && !may_visit(crowd))
		return false;
	*stay = (struct bl_stay){.peer = peer, .visit = away || !company};
	stay->until = bl_ticks() + (stay->visit ? VISIT_US : STAY_US) * bl_ticks_per_us();
	return true;
}

bool bl_oversub_stay_on(const struct bl_cq *cq, struct bl_stay *stay)
{
	const struct bl_peer *peer = awaited(cq);

	stay->left = peer != stay->peer || (!stay->visit && (turn_of(peer) & BL_TURN_AWAY));
	return !stay->left && !bl_is_due(bl_ticks(), stay->until);
}

void bl_oversub_stayed(struct bl_oversub *crowd, const struct bl_stay *stay, bool found)
{
	if (found) {
		crowd->company += crowd->company < BL_CORUN_CREDIT;
		if (!stay->visit)
			crowd->visit_every = VISIT_EVERY;
	} else if (!stay->left) { /* who leaves has told us, and we have lost little */
		if (!stay->visit)
			crowd->company -= bl_min(crowd->company, BL_CORUN_LOSS);
		crowd->visit_every = crowd->visit_every
					     ? bl_min(2 * crowd->visit_every, VISIT_RARELY)
					     : VISIT_EVERY;
	}
}

bool bl_oversub_waits(const struct bl_cq *cq)
{
	bool work = false;

	for (uint32_t i = 0; i < cq->nep && !work; i++)
		work = bl_ep_has_work(cq->ep[i]) || awaited_by(cq->ep[i]);
	return work;
}

/* --- leaving ----------------------------------------------------------------- */

/* Whoever shares the domain among threads has locked it: the others get at it while we
 * are away. */
static bool is_locked(const struct bl_cq *cq)
{
	return atomic_load_explicit(&cq->domain->lock.held, memory_order_relaxed);
}

static void yield(struct bl_cq *cq)
{
	bool locked = is_locked(cq);

	if (locked)
		bl_domain_unlock(cq->domain);
	sched_yield();
	if (locked)
		bl_domain_lock(cq->domain);
}

uint64_t bl_oversub_go(struct bl_cq *cq, enum bl_migrate_step step, uint64_t now)
{
	struct bl_migrate *apart = &cq->crowd.apart;
	uint32_t to =
		step == BL_MIGRATE_GO ? bl_migrate_goes(apart, now) : core_of(apart->peer) - 1;
	bool locked = is_locked(cq);
	int core;

	if (step == BL_MIGRATE_BACK)
		bl_migrate_stays(apart, now);
	say(cq, 0); /* the other one, who would go next, doesn't find us where it is */
	if (locked)
		bl_domain_unlock(cq->domain);
	core = step == BL_MIGRATE_GO ? bl_place_elsewhere(to) : bl_place_at(to);
	if (locked)
		bl_domain_lock(cq->domain);
	if (core < 0 && step == BL_MIGRATE_GO)
		bl_migrate_stays(apart, now);
	bl_oversub_return(cq);
	return bl_ticks();
}

uint64_t bl_oversub_sleep(struct bl_cq *cq, uint64_t us, uint64_t now)
{
	bool locked = is_locked(cq);
	struct bl_sleep sleep;

	if (!bl_wait_doze(&cq->wait, &sleep))
		return 0;
	if (locked)
		bl_domain_unlock(cq->domain);
	bl_wait_sleep(&sleep, us * 1000);
	if (locked)
		bl_domain_lock(cq->domain);
	bl_wait_rise(&cq->wait, &sleep);
	return bl_ticks() - now;
}

/* Sleep until woken, for a moment. */
static void nap(struct bl_cq *cq, uint64_t now)
{
	struct bl_oversub *crowd = &cq->crowd;
	uint64_t us = crowd->vain < VAIN_FEW ? NAP_US << crowd->vain : NAP_US;
	uint64_t slept = bl_oversub_sleep(cq, us, now);

	if (slept < us * bl_ticks_per_us())
		return;
	if (crowd->vain >= VAIN_FEW)
		crowd->no_nap =
			now + slept + (NO_NAP_US * bl_ticks_per_us() << (crowd->vain - VAIN_FEW));
	if (crowd->vain < VAIN_MOST)
		crowd->vain++;
}

/* Nothing that is due, and has only been compared quickly, is overlooked for long. */
void bl_oversub_put_right(struct bl_cq *cq, uint64_t now)
{
	if (bl_is_due(now, cq->crowd.until))
		cq->crowd.until = 0;
	for (uint32_t i = 0; i < cq->nep; i++)
		if (bl_is_due(now, cq->ep[i]->watch.next_look))
			cq->ep[i]->watch.next_look = now;
}

/* For neighbours that others' load has put on our core, too. */
static void tell_core(struct bl_cq *cq)
{
	uint32_t core = this_core();

	if (core == cq->crowd.core)
		return;
	cq->crowd.core = core;
	say(cq, core);
}

/* One whom we poll, other than ourselves, says that it waits, or has waited, on our core. */
static bool met_neighbour(const struct bl_cq *cq)
{
	for (uint32_t i = 0; i < cq->nep; i++) {
		const struct bl_local *local = &cq->ep[i]->local;

		for (uint32_t n = 0; n < local->npolled; n++) {
			const struct bl_peer *peer = local->hot[n];

			if (peer->mapped.header && core_of(peer) == cq->crowd.core &&
			    memcmp(&peer->addr, &local->addr, sizeof local->addr))
				return cq->crowd.core;
		}
	}
	return false;
}

uint64_t bl_oversub_give_way(struct bl_cq *cq, uint64_t now)
{
	struct bl_oversub *crowd = &cq->crowd;
	uint64_t before, after;
	bool switched = false;

	bl_oversub_put_right(cq, now);
	if (now - cq->wait_began > NAP_AFTER_US * bl_ticks_per_us() &&
	    bl_oversub_shared(crowd, now) && bl_is_due(now, crowd->no_nap)) {
		nap(cq, now);
		return bl_ticks();
	}
	if (!bl_oversub_shared(crowd, now))
		tell_core(cq);
	crowd->reads++;
	after = bl_ticks();
	if (!crowd->left_to_caller) { /* else its caller's yields, which we don't see, say nothing
				       */
		before = after;	      /* the yield alone, not what led to it */
		crowd->own++;
		yield(cq);
		after = bl_ticks();
		switched = after - before > SWITCHED_US * bl_ticks_per_us();
	}
	if (switched)
		crowd->taken = after;
	if (switched && !bl_oversub_shared(crowd, after) && met_neighbour(cq))
		crowd->until = after + MET_US * bl_ticks_per_us();
	if (crowd->reads >= (bl_oversub_shared(crowd, now) ? LOOK_RARELY : LOOK_READS) ||
	    (switched && !bl_oversub_shared(crowd, after)))
		bl_oversub_doubt(cq, after);
	return after;
}
