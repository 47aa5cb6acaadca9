/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * wait.c: see wait.h. What wakes a sleeper:
 *
 *   a packet, a chunk that a neighbour has copied,
 *   a message's end that has no packet (fin.c)      its bell; local/sleep.c
 *   a connection made or refused                    the service thread
 *   a neighbour's death                             the sleeper's own look every 50 ms, or,
 *                                                   for who polls a descriptor, the service
 *                                                   thread's
 *   another thread that took what came              bl_ep_bells, bl_ep_work
 *   another thread's completion in the same queue   the queue's limit (cq.c)
 *   another thread's count in the same counter      the counter's `asleep` (bl_cntr_up)
 *   an endpoint that is enabled                     bl_wait_enabled
 *   fi_cq_signal, fi_cntr_add and the like          bl_wait_interrupt, bl_wait_wake
 *
 * Limit and `asleep` are set while there are sleepers, and from a successful
 * bl_wait_try() until something comes: a poll of the descriptor has no end that we see.
 *
 * Room in a neighbour's ring wakes nobody, so who waits for it only naps; who would poll a
 * descriptor meanwhile is told to read instead, until there is room.
 */
#include "core/wait.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/core.h"
#include "core/large.h"
#include "core/work.h"

#define NAP_NS	1000000u /* where not everything wakes us */
#define SPIN_NS 20000u	 /* about what a sleep and a wake cost */

struct group {
	struct bl_ep **ep;
	uint32_t count;
};

static struct group group_of(const struct bl_waiter *w)
{
	return w->cq ? (struct group){w->cq->ep, w->cq->nep}
		     : (struct group){w->cntr->ep, w->cntr->nep};
}

void bl_wait_init(struct bl_waiter *w, struct bl_cq *cq, struct bl_cntr *cntr)
{
	*w = (struct bl_waiter){.cq = cq, .cntr = cntr, .epoll = -1, .event = -1};
}

void bl_wait_fini(struct bl_waiter *w)
{
	if (w->epoll < 0)
		return;
	close(w->epoll);
	close(w->event);
}

int bl_wait_add(struct bl_waiter *w, struct bl_ep *ep)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd;

	if (w->epoll < 0)
		return 0;
	fd = bl_local_wake_socket(&ep->local);
	if (fd < 0)
		return fd;
	if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST)
		return -errno;
	return 0;
}

void bl_wait_remove(struct bl_waiter *w, struct bl_ep *ep)
{
	if (w->epoll >= 0 && ep->local.wake_socket >= 0)
		epoll_ctl(w->epoll, EPOLL_CTL_DEL, ep->local.wake_socket, NULL);
}

int bl_wait_fd(struct bl_waiter *w)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct group g = group_of(w);
	int err;

	if (w->epoll >= 0)
		return w->epoll;
	w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->event < 0)
		return -errno;
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll < 0 || epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->event, &event)) {
		err = -errno;
		goto undo;
	}
	for (uint32_t i = 0; i < g.count; i++) {
		err = bl_wait_add(w, g.ep[i]);
		if (err)
			goto undo;
	}
	return w->epoll;

undo:
	bl_warn("no descriptor to wait on: %s", strerror(-err));
	if (w->epoll >= 0)
		close(w->epoll);
	close(w->event);
	w->epoll = w->event = -1;
	return err;
}

static void raise_event(struct bl_waiter *w)
{
	uint64_t one = 1;

	if (w->event >= 0 && write(w->event, &one, sizeof one) < 0)
		return; /* it is readable already */
}

void bl_wait_interrupt(struct bl_waiter *w)
{
	struct group g = group_of(w);

	raise_event(w);
	for (uint32_t i = 0; i < g.count; i++)
		bl_local_wake(&g.ep[i]->local);
}

/* Whether who appends or counts must wake somebody. */
static void settle(struct bl_waiter *w)
{
	if (w->cq)
		bl_cq_limit(w->cq, !w->armed && !w->sleepers);
	else
		w->cntr->asleep = w->armed || w->sleepers;
}

bl_cold void bl_wait_wake(struct bl_waiter *w)
{
	w->armed = false;
	if (w->cq)
		bl_cq_limit(w->cq, true);
	else
		w->cntr->asleep = false;
	bl_wait_interrupt(w);
}

/* The waiters of all queues and counters of an endpoint, some perhaps twice. */
#define WAITERS 8

static uint32_t waiters_of(struct bl_ep *ep, struct bl_waiter *w[WAITERS])
{
	struct bl_cq *cq[] = {ep->tx_cq, ep->rx_cq};
	struct bl_cntr *cntr[] = {ep->tx_cntr,	  ep->rx_cntr,		ep->read_cntr,
				  ep->write_cntr, ep->remote_read_cntr, ep->remote_write_cntr};
	uint32_t n = 0;

	for (size_t i = 0; i < bl_countof(cq); i++)
		if (cq[i])
			w[n++] = &cq[i]->wait;
	for (size_t i = 0; i < bl_countof(cntr); i++)
		if (cntr[i])
			w[n++] = &cntr[i]->wait;
	return n;
}

void bl_wait_enabled(struct bl_ep *ep)
{
	struct bl_waiter *w[WAITERS];
	uint32_t n = waiters_of(ep, w);

	for (uint32_t i = 0; i < n; i++)
		if (w[i]->armed || w[i]->sleepers)
			bl_wait_wake(w[i]);
}

/* --- falling asleep ----------------------------------------------------- */

/* Readable no longer, until there is news; true: it was. The other queues and counters of
 * these endpoints hear of it from the same sockets: pass it on. */
static bool drain(struct bl_waiter *w)
{
	struct group g = group_of(w);
	uint64_t count;
	bool any;

	any = read(w->event, &count, sizeof count) > 0;
	for (uint32_t i = 0; i < g.count; i++) {
		struct bl_waiter *other[WAITERS];
		uint32_t n;

		if (!bl_local_drain_wakes(&g.ep[i]->local))
			continue;
		any = true;
		n = waiters_of(g.ep[i], other);
		for (uint32_t k = 0; k < n; k++)
			if (other[k] != w)
				raise_event(other[k]);
	}
	return any;
}

/* A send would find room now: whoever polls a descriptor goes and tries. */
static bl_cold void tell_all(struct bl_ep *ep)
{
	struct bl_waiter *w[WAITERS];
	uint32_t n = waiters_of(ep, w);

	for (uint32_t i = 0; i < n; i++)
		raise_event(w[i]);
}

static bool has_something(const struct bl_waiter *w)
{
	return w->cq && w->cq->head != w->cq->tail;
}

/* The endpoint on whose futex this thread dozes may be gone, others in its place. */
static void leave_futex(const struct bl_waiter *w, struct bl_sleep *sleep)
{
	struct group g = group_of(w);

	for (uint32_t i = 0; sleep->ep && i < g.count; i++)
		if (g.ep[i]->number == sleep->ep)
			bl_local_rise(&g.ep[i]->local);
	sleep->ep = 0;
}

/* Make progress once more, and have all endpoints wake us from now on. The most
 * that we may sleep; 0: there is something. */
static uint64_t fall_asleep(struct bl_waiter *w, uint32_t how, struct bl_sleep *sleep)
{
	struct group g = group_of(w);
	uint64_t most = BL_WAIT_MOST_NS;
	uint32_t i;

	for (i = 0; i < g.count; i++)
		bl_ep_progress(g.ep[i]);
	if (has_something(w))
		return 0;
	for (i = 0; i < g.count; i++) {
		int err = bl_local_doze(&g.ep[i]->local, how, &sleep->futex);

		if (err == -EAGAIN)
			return 0;
		if (sleep->futex.word)
			sleep->ep = g.ep[i]->number;
		if (err)
			most = NAP_NS;
	}
	/* What was done before its doer could see that we stopped polling: a chunk counted, the
	 * end of a message that had no room in the ring. */
	for (i = 0; i < g.count; i++) {
		bl_fin_look_at_all(g.ep[i]); /* first: what waits for that may begin */
		if (g.ep[i]->work)
			bl_ep_progress(g.ep[i]);
	}
	/* That pass may have begun what only we can end. */
	for (i = 0; i < g.count; i++) {
		if (bl_ep_room_came(g.ep[i]))
			tell_all(g.ep[i]);
		if (bl_ep_needs_hand(g.ep[i]))
			most = NAP_NS;
	}
	/* Others' bells may be ours too; and that pass may have found work to begin. */
	if ((w->cntr && w->cntr->regions) ||
	    bl_work_naps(w->cq ? w->cq->domain : w->cntr->domain, g.count))
		most = NAP_NS;
	if (has_something(w)) {
		leave_futex(w, sleep);
		return 0;
	}
	return most;
}

/*
 * Have the descriptor wake us. What has made it readable may not yet have woken others
 * who poll it, and who would find it silent again now: it is made so once more if there
 * is something, or when something comes.
 */
static uint64_t fall_asleep_on_fd(struct bl_waiter *w, struct bl_sleep *sleep)
{
	bool news = drain(w);
	uint64_t most = fall_asleep(w, BL_SLEEP_SOCKET, sleep);

	if (news && most)
		w->armed = true;
	else if (news)
		raise_event(w);
	return most;
}

int bl_wait_try(struct bl_waiter *w)
{
	struct bl_sleep sleep = {0};
	bool quiet;

	if (w->epoll < 0)
		return has_something(w) ? -EAGAIN : 0;
	quiet = fall_asleep_on_fd(w, &sleep) == BL_WAIT_MOST_NS;
	w->armed |= quiet;
	settle(w);
	return quiet ? 0 : -EAGAIN;
}

/* One endpoint's futex is the quickest; for more, or none, the descriptor. */
bool bl_wait_doze(struct bl_waiter *w, struct bl_sleep *sleep)
{
	*sleep = (struct bl_sleep){.fd = -1};
	if (group_of(w).count == 1) {
		sleep->most = fall_asleep(w, BL_SLEEP_FUTEX, sleep);
	} else if ((sleep->fd = bl_wait_fd(w)) >= 0) {
		sleep->most = fall_asleep_on_fd(w, sleep);
	} else {
		sleep->most = fall_asleep(w, 0, sleep);
		sleep->most = bl_min(sleep->most, (uint64_t)NAP_NS);
	}
	w->sleepers += sleep->most > 0;
	settle(w);
	return sleep->most;
}

void bl_wait_sleep(const struct bl_sleep *sleep, uint64_t ns)
{
	uint64_t most = bl_min(sleep->most, ns);
	struct timespec timeout = {(time_t)(most / 1000000000u), (long)(most % 1000000000u)};
	struct pollfd fd = {.fd = sleep->fd, .events = POLLIN};

	if (sleep->futex.word)
		bl_local_sleep(&sleep->futex, most);
	else
		ppoll(&fd, 1, &timeout, NULL); /* -1 is no descriptor: it only sleeps */
}

void bl_wait_rise(struct bl_waiter *w, struct bl_sleep *sleep)
{
	leave_futex(w, sleep);
	w->sleepers--;
	settle(w);
}

uint64_t bl_wait_spin_ns(void)
{
	return SPIN_NS;
}

/* --- reads that poll ----------------------------------------------------- */

/*
 * MPI libraries poll a queue and never wait on it. With a core for each process
 * that is best; where processes share cores, whoever polls keeps the one that it
 * waits for from running. A yield is the cheap way out when that one happens to be
 * next; a nap, from which the sender wakes us, always lets others run and brings us
 * back at once, but costs both sides a system call and more.
 *
 * So: a wait of more than a few microseconds yields. When our core is seen to have gone to
 * others, at yields of ours or of the library above, it counts as shared for a while. There each
 * wait yields at once (or, while that is of use, after a short spin), and naps when it has lasted
 * so long that somebody computes: among processes that all wait for each other a nap holds up the
 * next one, and that one who waits for it. What the caller waits for may be nothing of ours (some
 * libraries have collectives in shared memory of their own, and poll us meanwhile): a nap is short,
 * and naps that nobody wakes us from become rare.
 */
#define SWITCHED_US  2	    /* a yield that took longer has probably switched */
#define COUNT_US     100000 /* between two counts of who shares our cores */
#define LOOK_READS   8	    /* empty, each so many, look whether they did */
#define SWITCHES     4	    /* so many ... */
#define WINDOW_US    10000  /* ... within this: shared */
#define SHARED_US    100000 /* for so long */
#define NAP_AFTER_US 1000   /* of reads without a pause: who yields between them hardly naps */
#define NAP_US	     50	    /* doubled by each in vain */
#define VAIN_FEW     4	    /* so many in vain, and nothing of ours came: stay awake for ... */
#define NO_NAP_US    1000   /* ... this, doubled each time ... */
#define VAIN_MOST    11	    /* ... until so many */

void bl_wait_new(struct bl_crowd *crowd)
{
	crowd->waits++;
	crowd->vain = 0;
	crowd->no_nap = 0;
}

#define CORES_MOST 8192	 /* that any kernel of today can name */
#define PIDS	   65536 /* two whose numbers are so far apart count as one */

/* A set of cores: cpu_set_t ends at 1024. */
struct cores {
	cpu_set_t part[CORES_MOST / CPU_SETSIZE];
};

/* How many other processes may run on just our cores. */
struct sharers {
	struct cores mine;
	pid_t us;
	int n, enough;
	uint64_t seen[PIDS / 64]; /* a process may have many endpoints */
};

/* True: that is enough. */
static bool add_sharer(struct sharers *sharers, pid_t pid)
{
	uint32_t at = (uint32_t)pid % PIDS;
	uint64_t *seen = &sharers->seen[at / 64], bit = 1ull << at % 64;
	struct cores theirs;

	if (pid <= 0 || pid == sharers->us || (*seen & bit))
		return false;
	*seen |= bit;
	sharers->n += !sched_getaffinity(pid, sizeof theirs, theirs.part) &&
		      CPU_EQUAL_S(sizeof theirs, theirs.part, sharers->mine.part);
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
 * There are more of us than cores: of those that may run where we may, whether launchers
 * have bound each to a core or two, or all of a job to a part of the machine. If not, whoever
 * else wants our core is a stranger, who gets his share from the scheduler and gives nothing
 * back for more.
 */
static bl_cold bool outnumber_cores(const struct bl_cq *cq)
{
	struct sharers sharers = {.us = getpid()};

	if (sched_getaffinity(0, sizeof sharers.mine, sharers.mine.part))
		return false;
	sharers.enough = CPU_COUNT_S(sizeof sharers.mine, sharers.mine.part);
	for (uint32_t i = 0; i < cq->nep; i++)
		if (enough_sharers(cq->ep[i], &sharers))
			return true;
	return false;
}

/* What has the scheduler done since the last look? If others have run again and again,
 * the core is shared. If they have run more often than we gave way, whoever reads the
 * queue gives way as well, between reads, when he has looked at all that he waits for:
 * that is enough, and ours would waste every second turn. */
void bl_wait_doubt(struct bl_cq *cq, uint64_t now)
{
	struct bl_crowd *crowd = &cq->crowd;
	bool count = now - crowd->counted > COUNT_US * bl_ticks_per_us();
	struct rusage usage;
	uint64_t all, switches;

	if ((!count && !crowd->outnumbers) || getrusage(RUSAGE_THREAD, &usage))
		return;
	all = (uint64_t)usage.ru_nivcsw;
	if (count) {
		/* Whoever has its core for itself need not ask where its neighbours run. */
		crowd->outnumbers = (crowd->outnumbers || all - crowd->before >= SWITCHES) &&
				    outnumber_cores(cq);
		crowd->before = all;
		crowd->counted = now;
	}
	if (!crowd->outnumbers)
		return;
	switches = all - crowd->seen;
	crowd->left_to_caller =
		bl_wait_crowded(crowd, now) && switches >= crowd->own + (crowd->reads + 1) / 2;
	crowd->seen = all;
	crowd->own = crowd->reads = 0;
	if (now - crowd->window > WINDOW_US * bl_ticks_per_us()) {
		crowd->window = now;
		crowd->switches = all;
	} else if (all - crowd->switches >= SWITCHES) {
		crowd->until = now + SHARED_US * bl_ticks_per_us();
		crowd->window = 0;
	}
}

/* A send has found no room. */
static bool starving(const struct bl_cq *cq)
{
	for (uint32_t i = 0; i < cq->nep; i++)
		if (cq->ep[i]->starved) {
			/* Once more if there is some by now: its caller tries again. */
			bl_ep_room_came(cq->ep[i]);
			return true;
		}
	return false;
}

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

/* Sleep until woken, for a moment. */
static void nap(struct bl_cq *cq, uint64_t now)
{
	struct bl_crowd *crowd = &cq->crowd;
	bool locked = is_locked(cq);
	uint64_t us = crowd->vain < VAIN_FEW ? NAP_US << crowd->vain : NAP_US;
	struct bl_sleep sleep;
	uint64_t slept;

	if (!bl_wait_doze(&cq->wait, &sleep))
		return;
	if (locked)
		bl_domain_unlock(cq->domain);
	bl_wait_sleep(&sleep, us * 1000);
	if (locked)
		bl_domain_lock(cq->domain);
	bl_wait_rise(&cq->wait, &sleep);
	slept = bl_ticks() - now;
	if (slept < us * bl_ticks_per_us())
		return;
	if (crowd->vain >= VAIN_FEW)
		crowd->no_nap =
			now + slept + (NO_NAP_US * bl_ticks_per_us() << (crowd->vain - VAIN_FEW));
	if (crowd->vain < VAIN_MOST)
		crowd->vain++;
}

uint64_t bl_wait_give_way(struct bl_cq *cq, uint64_t now)
{
	struct bl_crowd *crowd = &cq->crowd;
	uint64_t after;

	if (now - cq->wait_began > NAP_AFTER_US * bl_ticks_per_us() &&
	    bl_wait_crowded(crowd, now) && now >= crowd->no_nap && !starving(cq)) {
		nap(cq, now);
		return bl_ticks();
	}
	crowd->reads++;
	if (!crowd->left_to_caller) {
		crowd->own++;
		yield(cq);
	}
	after = bl_ticks();
	if (crowd->reads >= LOOK_READS ||
	    (after - now > SWITCHED_US * bl_ticks_per_us() && !bl_wait_crowded(crowd, after)))
		bl_wait_doubt(cq, after);
	return after;
}
