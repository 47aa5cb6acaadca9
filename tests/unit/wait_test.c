/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * wait_test.c: falling asleep (core/wait.c) while a neighbour does something, at the
 * moment where it matters: bl_local_doze() is ours, and does it before it dozes.
 * Endpoint 0 waits, endpoint 1 is the neighbour.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "copy/engine.h"
#include "core/claim.h"
#include "unit/node.h"

#define LONG_LEN 200000u

static struct node node;
static uint8_t from[LONG_LEN], to[LONG_LEN];
static void (*meanwhile)(void);

int __real_bl_local_doze(struct bl_local *local, uint32_t how, struct bl_futex *futex);
int __wrap_bl_local_doze(struct bl_local *local, uint32_t how, struct bl_futex *futex);

int __wrap_bl_local_doze(struct bl_local *local, uint32_t how, struct bl_futex *futex)
{
	void (*act)(void) = meanwhile;

	meanwhile = NULL;
	if (act)
		act();
	return __real_bl_local_doze(local, how, futex);
}

bool __real_bl_local_drain_all(void);
bool __wrap_bl_local_drain_all(void);
static void (*at_drain)(void);
static bool drain_fails;

/* Where it is called to be heard of room; what else drains stores calls it in its own file. */
bool __wrap_bl_local_drain_all(void)
{
	void (*act)(void) = at_drain;

	at_drain = NULL;
	if (act)
		act();
	return !drain_fails && __real_bl_local_drain_all();
}

static bool readable(void)
{
	struct pollfd fd = {.fd = bl_wait_fd(&node.cq[0]->wait), .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

/* Woken, by who made room or by the service thread, which may have seen it first. */
static bool is_woken(void)
{
	struct pollfd fd = {.fd = bl_wait_fd(&node.cq[0]->wait), .events = POLLIN};

	return poll(&fd, 1, 20000) == 1;
}

/* As two processes, which reach each other's memory by the kernel. */
static void open_two(void)
{
	node_open(&node, 2);
	for (size_t a = 0; a < 2; a++)
		for (size_t b = 0; b < 2; b++)
			node.ep[a]->dest[b]->copy.pull = node.ep[a]->dest[b]->copy.push =
				BL_COPY_VM;
	assert_true(bl_wait_fd(&node.cq[0]->wait) >= 0);
}

/* Nothing is there, and nothing that has come before makes the descriptor readable. */
static void become_quiet(void)
{
	for (uint64_t until = bl_clock_ns() + 20000000000ull;;) {
		node_expect_nothing(&node, 0);
		if (!bl_wait_try(&node.cq[0]->wait) && !readable())
			return;
		assert_true(bl_clock_ns() < until);
	}
}

/* --- fences ------------------------------------------------------------------ */

/* A long message that nobody hears of, `between`, and a fenced one. */
static void send_fenced(uint32_t between)
{
	struct iovec iov = {from, 8};
	struct bl_send fenced = {&iov, 1, 1, 2, 0, from, NODE_FLAGS | BL_FENCE, NULL};

	node.ep[0]->leaves = node.ep[1]->leaves = 0; /* both are used to wait */
	node_send(&node, 0, 1, from, sizeof from, 1, NULL, BL_TAGGED);
	assert_int_equal(node.ep[0]->nopen, 1);
	while (between-- && !bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED))
		;
	assert_int_equal(bl_send_fenced(node.ep[0], &fenced), 0);
	assert_int_equal(node.ep[0]->nfence, 1);
}

/* The neighbour posts the receive for the long one, and goes away without a look: it is
 * ours to claim. */
static void post_and_leave(void)
{
	assert_int_equal(bl_recv_buf(node.ep[1], to, sizeof to, 0, 1, 0, to, BL_TAGGED), 0);
	atomic_store_explicit(&node.ep[1]->local.seg.header->here, 0, memory_order_relaxed);
	while ((int64_t)(bl_ticks() - node.ep[0]->next_claim) < 0)
		;
}

/* The last pass before sleep ends what a fence waited for, and no neighbour says so. */
static void opened_at_last(void **state)
{
	open_two();
	become_quiet();
	send_fenced(0);
	meanwhile = post_and_leave;
	assert_int_equal(bl_wait_try(&node.cq[0]->wait), -EAGAIN);
	assert_memory_equal(to, from, sizeof to);
	assert_ptr_equal(node_completion(&node, 0, NULL).context, from);
	node_close(&node);
}

/* The neighbour has told how much it has read: a ring that is full now stays so. */
static void settle_credit(void)
{
	const struct bl_rx *rx = &node.ep[1]->dest[0]->rx;

	do {
		node_send(&node, 0, 1, NULL, 0, 4, NULL, BL_TAGGED);
		node_settle(&node, 1);
	} while (rx->credited != rx->next);
}

/* The same, and what begins then finds no room: that rings no bell. */
static void opened_without_room(void **state)
{
	open_two();
	settle_credit();
	become_quiet();
	send_fenced(BL_SLOTS);
	meanwhile = post_and_leave;
	assert_int_equal(bl_wait_try(&node.cq[0]->wait), -EAGAIN);
	assert_memory_equal(to, from, sizeof to);
	assert_int_equal(node.ep[0]->nfence, 1);
	assert_ptr_equal(node_completion(&node, 0, NULL).context, from);
	node_close(&node);
}

static bool woken(const struct bl_sleep *sleep)
{
	return atomic_load(sleep->futex.word) != sleep->futex.value;
}

/* --- room --------------------------------------------------------------------- */

struct room_row {
	struct row row;
	size_t len;
};

static const struct room_row rooms[] = {
	{{"slots", "a short message takes one"}, 8},
	{{"payload", "its room ends before the slots do"}, 4000},
};

/* A send found no room. Who waits sleeps until there is some, and is woken by it, once. */
static void waiting_for_room(void **state)
{
	const struct room_row *row = TABLE_ROW(struct room_row, state);
	const struct bl_lane *lane;

	open_two();
	lane = node.ep[0]->dest[1]->tx.lane;
	settle_credit();
	become_quiet();
	while (!bl_inject(node.ep[0], from, row->len, 1, 3, 0, BL_TAGGED))
		;
	assert_int_equal(atomic_load(&lane->wants_room), 0); /* who is awake asks for nothing */
	for (int i = 0; i < 10; i++)
		assert_int_equal(bl_wait_try(&node.cq[0]->wait), 0);
	assert_false(readable());
	assert_int_equal(atomic_load(&lane->wants_room), 1);
	node_settle(&node, 1);
	assert_true(is_woken());
	assert_int_equal(atomic_load(&lane->wants_room), 0);
	assert_int_equal(bl_inject(node.ep[0], from, row->len, 1, 3, 0, BL_TAGGED), 0);
	become_quiet();
	node_close(&node);
}

/* The neighbour reads all, before it can see that it is to ring. */
static void make_room_unasked(void)
{
	struct bl_peer *peer = node.ep[0]->dest[1];

	atomic_store(&peer->tx.lane->wants_room, 0);
	for (int pass = 0; node.ep[1]->dest[0]->rx.next != peer->tx.next; pass++) {
		assert_in_range(pass, 0, 100);
		bl_ep_progress(node.ep[1]);
	}
}

struct late_row {
	struct row row;
	bool owing; /* a packet of our own waits; not a send of our caller's */
};

static const struct late_row lates[] = {
	{{"a send", "its caller hears of it"}, false},
	{{"a packet of our own", "it goes out"}, true},
};

/* The room comes before the last look: nobody rings for that. */
static void room_comes_before_sleep(void **state)
{
	const struct late_row *what = TABLE_ROW(struct late_row, state);

	open_two();
	settle_credit();
	become_quiet();
	while (!bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED))
		;
	if (what->owing) {
		bl_ep_room_lost(node.ep[0], node.ep[0]->dest[1]); /* its caller has given up */
		assert_true(bl_ep_may_retry(node.ep[0]));
		bl_control(node.ep[0], node.ep[0]->dest[1], BL_OP_FIN, 0, 0, NULL, 0);
	}
	at_drain = make_room_unasked;
	assert_int_equal(bl_wait_try(&node.cq[0]->wait), what->owing ? 0 : -EAGAIN);
	assert_null(at_drain);
	assert_false(atomic_load(&node.ep[0]->dest[1]->asked_room));
	assert_int_equal(node.ep[0]->nowing, 0);
	become_quiet();
	node_close(&node);
}

/* What waits for room is of our own: the end of a message, said to who has filled his ring with
 * nothing read. Who sleeps meanwhile sends it when there is room, woken by that. */
static void owing_a_packet(void **state)
{
	struct bl_sleep sleep;
	struct bl_peer *peer;

	open_two();
	settle_credit();
	become_quiet();
	while (!bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED))
		;
	bl_ep_room_lost(node.ep[0], node.ep[0]->dest[1]); /* its caller has given up */
	assert_true(bl_ep_may_retry(node.ep[0]));
	peer = node.ep[0]->dest[1];
	bl_control(node.ep[0], peer, BL_OP_FIN, 0, 0, NULL, 0); /* of none that is under way */
	assert_int_equal(node.ep[0]->nowing, 1);
	while (!bl_wait_doze(&node.cq[0]->wait, &sleep))
		;
	assert_true(sleep.most == BL_WAIT_MOST_NS && sleep.futex.word && !woken(&sleep));
	assert_int_equal(node.ep[0]->nowing, 1);
	for (int pass = 0; node.ep[1]->dest[0]->rx.next != peer->tx.next; pass++) {
		assert_in_range(pass, 0, 100);
		bl_ep_progress(node.ep[1]);
	}
	assert_true(woken(&sleep));
	bl_wait_rise(&node.cq[0]->wait, &sleep);
	bl_ep_progress(node.ep[0]);
	assert_int_equal(node.ep[0]->nowing, 0);
	assert_int_equal(node.ep[0]->work, 0);
	node_close(&node);
}

/* Whom nobody can ring, as where membarrier is refused, looks now and then. */
static void room_rings_not(void **state)
{
	struct bl_peer *peer;
	struct bl_sleep sleep;
	uint32_t bell;

	open_two();
	settle_credit();
	become_quiet();
	while (!bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED))
		;
	peer = node.ep[0]->dest[1];
	bell = peer->bell_index;
	peer->bell_index = BL_BELL_NONE;
	while (!bl_wait_doze(&node.cq[0]->wait, &sleep))
		;
	assert_in_range(sleep.most, 1, BL_WAIT_MOST_NS - 1);
	bl_wait_rise(&node.cq[0]->wait, &sleep);
	assert_int_equal(bl_wait_try(&node.cq[0]->wait), -EAGAIN);
	peer->bell_index = bell;
	node_settle(&node, 1);
	node_close(&node);
}

/* Where a process can't make others drain their stores nobody is asked, and who waits looks. */
static void room_without_drain(void **state)
{
	const struct bl_lane *lane;
	struct bl_sleep sleep;

	open_two();
	lane = node.ep[0]->dest[1]->tx.lane;
	settle_credit();
	become_quiet();
	while (!bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED))
		;
	drain_fails = true;
	for (int i = 0; i < 2; i++) {
		while (!bl_wait_doze(&node.cq[0]->wait, &sleep))
			;
		assert_in_range(sleep.most, 1, BL_WAIT_MOST_NS - 1);
		bl_wait_rise(&node.cq[0]->wait, &sleep);
		assert_int_equal(atomic_load(&lane->wants_room), 0);
	}
	drain_fails = false;
	assert_int_equal(bl_wait_try(&node.cq[0]->wait), 0);
	assert_int_equal(atomic_load(&lane->wants_room), 1);
	node_settle(&node, 1);
	assert_true(is_woken());
	node_close(&node);
}

static void asks_for_room(size_t of, bool asks)
{
	const struct bl_peer *peer = node.ep[0]->dest[of];

	assert_int_equal(atomic_load(&peer->tx.lane->wants_room), asks);
	assert_int_equal(atomic_load(&peer->asked_room), asks);
}

/* As become_quiet(), but that the others do nothing. */
static void become_quiet_alone(void)
{
	for (int tries = 0; bl_wait_try(&node.cq[0]->wait) || readable(); tries++) {
		assert_in_range(tries, 0, 1000);
		bl_ep_progress(node.ep[0]);
	}
}

/* Several rings are full: whichever has room first wakes, and who has given none is asked still. */
static void room_of_several(void **state)
{
	node_open(&node, 3);
	assert_true(bl_wait_fd(&node.cq[0]->wait) >= 0);
	for (size_t at = 1; at < 3; at++) {
		const struct bl_rx *rx = &node.ep[at]->dest[0]->rx;

		do {
			node_send(&node, 0, at, NULL, 0, 4, NULL, BL_TAGGED);
			node_settle(&node, at);
		} while (rx->credited != rx->next);
	}
	become_quiet();
	for (size_t at = 1; at < 3; at++)
		while (!bl_inject(node.ep[0], from, 8, at, 3, 0, BL_TAGGED))
			;
	assert_int_equal(bl_wait_try(&node.cq[0]->wait), 0);
	asks_for_room(1, true);
	asks_for_room(2, true);
	node_settle(&node, 1); /* the first that was refused */
	assert_true(is_woken());
	assert_int_equal(bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED), 0);
	become_quiet_alone();
	asks_for_room(1, false);
	asks_for_room(2, true);
	node_settle(&node, 2);
	assert_true(is_woken());
	become_quiet_alone();
	asks_for_room(2, false);
	assert_int_equal(node.ep[0]->nstarved, 0);
	node_close(&node);
}

/* Who waits for room in the ring of one that goes away goes and hears why there is none. */
static void room_is_lost(void **state)
{
	struct bl_peer *peer;

	open_two();
	peer = node.ep[0]->dest[1];
	settle_credit();
	become_quiet();
	while (!bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED))
		;
	assert_int_equal(bl_wait_try(&node.cq[0]->wait), 0);
	assert_int_equal(bl_ep_close(node.ep[1]), 0);
	for (uint64_t until = bl_clock_ns() + 20000000000ull; !peer->dead;) {
		assert_true(bl_clock_ns() < until);
		bl_ep_progress(node.ep[0]);
	}
	assert_int_equal(node.ep[0]->nstarved, 0);
	assert_int_equal(bl_wait_try(&node.cq[0]->wait), -EAGAIN);
	assert_int_equal(bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED), -ENOTCONN);
	assert_int_equal(bl_ep_open(node.domain, &node.ep[1]), 0); /* for node_close() */
	node_close(&node);
}

/* The send was tried again in time: nobody waits, though the ring is full. */
static void room_was_found(void **state)
{
	open_two();
	settle_credit();
	become_quiet();
	while (!bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED))
		;
	node_settle(&node, 1);
	for (uint32_t n = BL_SLOTS; n--;)
		assert_int_equal(bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED), 0);
	become_quiet();
	node_close(&node);
}

/* --- several threads ------------------------------------------------------------ */

/* Another thread of the same program, which does one thing at a time for us. */
static struct {
	pthread_t thread;
	sem_t go, done;
	int (*act)(void); /* NULL: it ends */
	int ret;
} other;

static void *others_life(void *arg)
{
	(void)arg;
	for (;;) {
		sem_wait(&other.go);
		if (!other.act)
			return NULL;
		other.ret = other.act();
		sem_post(&other.done);
	}
}

static int by_other(int (*act)(void))
{
	other.act = act;
	sem_post(&other.go);
	if (act)
		sem_wait(&other.done);
	else
		pthread_join(other.thread, NULL);
	return other.ret;
}

static int inject(void)
{
	return bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED);
}

static int wait_try(void)
{
	return bl_wait_try(&node.cq[0]->wait);
}

static int fill(void)
{
	int ret;

	do
		ret = inject();
	while (!ret);
	return ret;
}

/* The ring is drained, and the other thread runs. */
static void open_two_with_other(void)
{
	open_two();
	settle_credit();
	become_quiet();
	sem_init(&other.go, 0, 0);
	sem_init(&other.done, 0, 0);
	assert_int_equal(pthread_create(&other.thread, NULL, others_life, NULL), 0);
}

/* What two threads do while there is no room, and once there is: `I` and `i` inject, `W` and `w`
 * ask whether to wait; capitals are ours, the others the other's. Both have been refused, but
 * where only one has. `says`: y, it may; n, it is to try again, or has no room. */
struct pair_row {
	struct row row;
	bool ours, others; /* has been refused */
	const char *does, *says;
};

static const struct pair_row pairs[] = {
	{{"both ask", "each hears of it, once"}, true, true, "WwWw", "nnyy"},
	{{"one takes some", "the other hears of it"}, true, true, "WIwiWw", "nynyyy"},
	{{"one takes some, without asking", "the other hears of it"}, true, true, "Iwi", "yny"},
	{{"the other one does", "so do we"}, true, true, "iWI", "yny"},
	{{"only ours", "who waits for us hears of it"}, true, false, "wWw", "nny"},
	{{"only the other's", "and so do we for it"}, false, true, "WwW", "nny"},
	{{"one was refused, and takes some", "nobody else waits"}, true, false, "Iw", "yy"},
};

static void refused_to_two(void **state)
{
	const struct pair_row *row = TABLE_ROW(struct pair_row, state);
	char says[16] = "";
	bool full, quiet;
	size_t n = 0;

	open_two_with_other();
	full = (!row->ours || fill() == -EAGAIN) && (!row->others || by_other(fill) == -EAGAIN);
	quiet = (!row->ours || !wait_try()) && (!row->others || !by_other(wait_try));
	node_settle(&node, 1);
	for (const char *at = row->does; *at; at++) {
		int (*act)(void) = strchr("Ii", *at) ? inject : wait_try;
		int ret = strchr("IW", *at) ? act() : by_other(act);

		says[n++] = ret ? 'n' : 'y';
	}
	by_other(NULL); /* before anything may fail here: the next row has one of its own */
	assert_true(full && quiet);
	assert_string_equal(says, row->says);
	node_close(&node);
}

/* The descriptor that wakes both: whoever wakes first drains it, and the other, which has not run
 * yet, would find it silent and sleep on. */
static void other_still_asleep(void **state)
{
	bool ours, others, again, still, woken;

	(void)state;
	open_two_with_other();
	fill();
	by_other(fill);
	ours = !wait_try();
	others = !by_other(wait_try);
	node_settle(&node, 1);
	again = is_woken() && wait_try() && readable();
	still = !inject() && !wait_try() && readable(); /* it may have taken all there was */
	woken = by_other(wait_try);
	by_other(NULL);
	assert_true(ours && others);
	assert_true(again);
	assert_true(still);
	assert_true(woken);
	become_quiet();
	node_close(&node);
}

/* Another thread than this one is to have been refused. */
static void of_another(struct bl_refusals *r, uint32_t number)
{
	bl_refusal_note(r);
	bl_refusal_at(r, r->last - 1)->thread = (pthread_t)number;
	r->last = 0;
}

/* Each that was refused is known for as long as it hasn't heard. */
static void refused_to_many(void **state)
{
	enum { MANY = 3 * BL_REFUSED_FEW };
	struct bl_refusals r = {0};

	(void)state;
	assert_false(bl_refusal_of_others(&r));
	for (uint32_t i = 1; i <= MANY; i++)
		of_another(&r, i);
	assert_int_equal(r.n, MANY);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(bl_refusal_at(&r, i)->thread, i + 1);
	assert_true(bl_refusal_of_others(&r));
	bl_refusal_tell(&r);
	assert_false(bl_refusal_of_others(&r)); /* they will try by themselves, or never */
	assert_false(bl_refusal_take(&r));	/* it wasn't */
	bl_refusal_note(&r);
	bl_refusal_note(&r);
	assert_int_equal(r.n, MANY + 1);
	assert_false(bl_refusal_of_others(&r)); /* but it */
	assert_false(bl_refusal_take(&r));	/* not yet */
	bl_refusal_tell(&r);
	bl_refusal_note(&r); /* it has tried since, in vain */
	assert_false(bl_refusal_take(&r));
	bl_refusal_tell(&r);
	assert_true(bl_refusal_take(&r));
	assert_false(bl_refusal_take(&r));
	assert_int_equal(r.n, MANY);
	bl_refusal_fini(&r);
}

/* Who may be asleep although it was told is woken for a while, and, if there is more, again; but
 * not for ever. */
static void wakes_for_a_while(void **state)
{
	struct bl_refusals r = {0};
	struct bl_refused_thread *t = &r.few[0];

	(void)state;
	of_another(&r, 1);
	bl_refusal_tell(&r);
	assert_false(bl_refusal_wakes(&r)); /* it doesn't sleep */
	assert_false(bl_refusal_of_others(&r));
	*t = (struct bl_refused_thread){.thread = 1, .sleeps = true};
	assert_false(bl_refusal_wakes(&r)); /* it isn't told */
	for (int n = 1; n <= 8; n++) {
		assert_true(bl_refusal_of_others(&r));
		bl_refusal_tell(&r);
		bl_refusal_tell(&r);
		assert_int_equal(t->told_so, n); /* once at a time */
		assert_true(bl_refusal_wakes(&r));
		t->told_at -= 30000 * bl_ticks_per_us();
		assert_false(bl_refusal_wakes(&r));
	}
	assert_false(bl_refusal_of_others(&r)); /* one that has ended, say */
	bl_refusal_tell(&r);
	assert_false(bl_refusal_wakes(&r));
	bl_refusal_fini(&r);
}

/* Of who asks it is known that it is awake. */
static void asks_and_sleeps(void **state)
{
	struct bl_refusals r = {0};

	(void)state;
	bl_refusal_sleeps(&r); /* it hasn't been refused */
	assert_int_equal(r.n, 0);
	bl_refusal_note(&r);
	bl_refusal_sleeps(&r);
	assert_true(r.few[0].sleeps);
	bl_refusal_note(&r);
	assert_false(r.few[0].sleeps);
	bl_refusal_sleeps(&r);
	bl_refusal_tell(&r);
	assert_false(bl_refusal_wakes(&r)); /* it is who asks */
	assert_true(bl_refusal_take(&r));
	assert_int_equal(r.n, 0);
	bl_refusal_fini(&r);
}

/* There was no memory for a thread: none may sleep before all are told, nor for a while after. */
static void one_is_not_known(void **state)
{
	struct bl_refusals r = {.lost = true};

	(void)state;
	assert_true(bl_refusal_of_others(&r));
	assert_true(bl_refusal_take(&r));
	assert_true(bl_refusal_take(&r));
	bl_refusal_tell(&r);
	assert_false(bl_refusal_of_others(&r));
	assert_true(bl_refusal_take(&r));
	r.lost_at -= 30000 * bl_ticks_per_us();
	assert_false(bl_refusal_take(&r));
	bl_refusal_fini(&r);
}

static void close_with(struct bl_cntr *cntr)
{
	for (size_t i = 0; i < node.count; i++) {
		assert_int_equal(bl_ep_close(node.ep[i]), 0);
		assert_int_equal(bl_cq_close(node.cq[i]), 0);
		assert_int_equal(bl_av_close(node.av[i]), 0);
	}
	assert_int_equal(bl_cntr_close(cntr), 0);
	assert_int_equal(bl_domain_close(node.domain), 0);
}

/* A thread sleeps until a counter counts: another's count wakes it, each time. */
static void woken_by_a_count(void **state)
{
	struct bl_cntr *cntr;
	struct bl_sleep sleep;

	open_two();
	assert_int_equal(bl_cntr_open(node.domain, &cntr), 0);
	assert_int_equal(bl_ep_bind_cntr(node.ep[0], cntr, BL_SEND), 0);
	become_quiet();
	for (int i = 0; i < 3; i++) {
		while (!bl_wait_doze(&cntr->wait, &sleep))
			;
		assert_true(sleep.most == BL_WAIT_MOST_NS && sleep.futex.word && !woken(&sleep));
		if (i < 2)
			assert_int_equal(bl_send_buf(node.ep[0], from, 8, 1, 3, 0, NULL, BL_TAGGED),
					 0);
		else
			bl_cntr_error(cntr);
		assert_true(woken(&sleep));
		bl_wait_rise(&cntr->wait, &sleep);
		/* Nobody sleeps: counting looks no further. */
		assert_false(cntr->asleep);
	}
	close_with(cntr);
}

/* One has been woken, and is not up yet: another that is about to sleep must not put it
 * to sleep again. */
static void woken_not_risen(void **state)
{
	struct bl_sleep first, second;

	open_two();
	become_quiet();
	while (!bl_wait_doze(&node.cq[0]->wait, &first))
		;
	assert_true(first.futex.word && !woken(&first));
	bl_wait_interrupt(&node.cq[0]->wait);
	assert_true(woken(&first));
	assert_false(bl_wait_doze(&node.cq[0]->wait, &second));
	assert_true(woken(&first));
	bl_wait_rise(&node.cq[0]->wait, &first);
	while (!bl_wait_doze(&node.cq[0]->wait, &second))
		;
	assert_false(woken(&second));
	bl_wait_rise(&node.cq[0]->wait, &second);
	node_close(&node);
}

int main(void)
{
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 2654435761u >> 13);
	TABLE_TEST(opened_at_last);
	TABLE_TEST(opened_without_room);
	TABLE_ROWS("room", waiting_for_room, rooms);
	TABLE_ROWS("late", room_comes_before_sleep, lates);
	TABLE_TEST(owing_a_packet);
	TABLE_TEST(room_rings_not);
	TABLE_TEST(room_without_drain);
	TABLE_TEST(room_of_several);
	TABLE_TEST(room_is_lost);
	TABLE_TEST(room_was_found);
	TABLE_ROWS("refused", refused_to_two, pairs);
	TABLE_TEST(other_still_asleep);
	TABLE_TEST(refused_to_many);
	TABLE_TEST(wakes_for_a_while);
	TABLE_TEST(asks_and_sleeps);
	TABLE_TEST(one_is_not_known);
	TABLE_TEST(woken_by_a_count);
	TABLE_TEST(woken_not_risen);
	return table_run("wait");
}
