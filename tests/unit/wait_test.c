/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * wait_test.c: falling asleep (endpoint/wait.c) while a neighbour does something, at the
 * moment where it matters: bl_local_doze() is ours, and does it before it dozes.
 * Endpoint 0 waits, endpoint 1 is the neighbour.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "copy/engine.h"
#include "transport/local/ways/proxy.h"
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

#define KEPT_MOST 64 /* injected bytes that wait */

/* Messages nobody hears of, until one has to wait; whose. */
static struct bl_peer *fill_with(size_t to_whom, size_t len)
{
	struct bl_peer *peer = node.peer[0][to_whom];

	while (bl_txq_is_empty(peer->txq))
		assert_int_equal(bl_send_buf(node.ep[0], from, len, to_whom, 3, 0, NULL, BL_TAGGED),
				 0);
	return peer;
}

static struct bl_peer *fill(size_t to_whom)
{
	return fill_with(to_whom, 8);
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
			node.peer[a][b]->copy.pull = node.peer[a][b]->copy.push = BL_COPY_VM;
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

	node.ep[0]->ways.habit.leaves = node.ep[1]->ways.habit.leaves =
		0; /* both are used to wait */
	node_send(&node, 0, 1, from, sizeof from, 1, NULL, BL_TAGGED);
	assert_int_equal(node.ep[0]->ways.pending.nopen, 1);
	while (between-- && bl_tx_room(&node.peer[0][1]->tx))
		assert_int_equal(bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED), 0);
	assert_int_equal(bl_send_fenced(node.ep[0], &fenced), 0);
	assert_int_equal(node.ep[0]->txq.nactive, 1);
}

/* The neighbour posts the receive for the long one, and goes away without a look: it is
 * ours to claim. */
static void post_and_leave(void)
{
	assert_int_equal(bl_recv_buf(node.ep[1], to, sizeof to, 0, 1, 0, to, BL_TAGGED), 0);
	atomic_store_explicit(&node.ep[1]->local.seg.header->here, 0, memory_order_relaxed);
	while ((int64_t)(bl_ticks() - node.ep[0]->ways.pending.next_claim) < 0)
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
	const struct bl_rx *rx = &node.peer[1][0]->rx;

	do {
		node_send(&node, 0, 1, NULL, 0, 4, NULL, BL_TAGGED);
		node_settle(&node, 1);
	} while (rx->credited != rx->next);
}

static void asks_for_room(const struct bl_peer *peer, bool asks)
{
	assert_int_equal(atomic_load(&peer->tx.lane->wants_room), asks);
	assert_int_equal(atomic_load(&peer->wants_credit), asks);
}

/* The same, and what begins then finds no room: whoever makes some rings. */
static void opened_without_room(void **state)
{
	struct bl_peer *peer;

	open_two();
	settle_credit();
	become_quiet();
	peer = node.peer[0][1];
	send_fenced(BL_SLOTS);
	meanwhile = post_and_leave;
	while (bl_wait_try(&node.cq[0]->wait))
		;
	assert_memory_equal(to, from, sizeof to);
	assert_int_equal(node.ep[0]->txq.nactive, 1);
	asks_for_room(peer, true);
	node_settle(&node, 1);
	assert_true(is_woken());
	assert_ptr_equal(node_completion(&node, 0, NULL).context, from);
	node_close(&node);
}

static bool woken(const struct bl_sleep *sleep)
{
	return atomic_load(sleep->futex.word) != sleep->futex.value;
}

/* Who has queued something has woken others, and may have to ask again before it sleeps. */
static void falls_asleep(void)
{
	for (uint64_t until = bl_clock_ns() + 20000000000ull; bl_wait_try(&node.cq[0]->wait);)
		assert_true(bl_clock_ns() < until);
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

/* A send found no room. Who waits sleeps until there is some, is woken by it, and it goes. */
static void waiting_for_room(void **state)
{
	const struct room_row *row = TABLE_ROW(struct room_row, state);
	const struct bl_lane *lane;

	open_two();
	lane = node.peer[0][1]->tx.lane;
	settle_credit();
	become_quiet();
	fill_with(1, row->len);
	assert_int_equal(atomic_load(&lane->wants_room), 0); /* who is awake asks for nothing */
	falls_asleep();
	for (int i = 0; i < 10; i++)
		assert_int_equal(bl_wait_try(&node.cq[0]->wait), 0);
	assert_false(readable());
	assert_int_equal(atomic_load(&lane->wants_room), 1);
	node_settle(&node, 1);
	assert_true(is_woken());
	assert_int_equal(atomic_load(&lane->wants_room), 0);
	become_quiet();
	assert_int_equal(node.ep[0]->txq.nactive, 0);
	node_close(&node);
}

/* The neighbour reads all, before it can see that it is to ring. */
static void make_room_unasked(void)
{
	struct bl_peer *peer = node.peer[0][1];

	atomic_store(&peer->tx.lane->wants_room, 0);
	for (int pass = 0; node.peer[1][0]->rx.next != peer->tx.next; pass++) {
		assert_in_range(pass, 0, 100);
		bl_ep_progress(node.ep[1]);
	}
}

struct late_row {
	struct row row;
	bool owing; /* a packet of our own waits; not a send of our caller's */
};

static const struct late_row lates[] = {
	{{"a send", "it goes out"}, false},
	{{"a packet of our own", "so does it"}, true},
};

/* The ring is full, and nothing waits. */
static struct bl_peer *fill_to_the_last(void)
{
	struct bl_peer *peer = node.peer[0][1];

	while (bl_tx_room(&peer->tx))
		assert_int_equal(bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED), 0);
	return peer;
}

/* The room comes before the last look: nobody rings for that. */
static void room_comes_before_sleep(void **state)
{
	const struct late_row *what = TABLE_ROW(struct late_row, state);
	struct bl_peer *peer;

	open_two();
	settle_credit();
	become_quiet();
	peer = what->owing ? fill_to_the_last() : fill(1);
	if (what->owing)
		bl_control(node.ep[0], peer, BL_OP_FIN, 0, 0, NULL, 0);
	at_drain = make_room_unasked;
	falls_asleep();
	assert_null(at_drain);
	assert_false(atomic_load(&peer->wants_credit));
	assert_int_equal(node.ep[0]->credit.nowing, 0);
	assert_int_equal(node.ep[0]->work, 0);
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
	peer = fill_to_the_last();
	bl_control(node.ep[0], peer, BL_OP_FIN, 0, 0, NULL, 0); /* of none that is under way */
	assert_int_equal(node.ep[0]->credit.nowing, 1);
	while (!bl_wait_doze(&node.cq[0]->wait, &sleep))
		;
	assert_true(sleep.most == BL_WAIT_MOST_NS && sleep.futex.word && !woken(&sleep));
	assert_int_equal(node.ep[0]->credit.nowing, 1);
	for (int pass = 0; node.peer[1][0]->rx.next != peer->tx.next; pass++) {
		assert_in_range(pass, 0, 100);
		bl_ep_progress(node.ep[1]);
	}
	assert_true(woken(&sleep));
	bl_wait_rise(&node.cq[0]->wait, &sleep);
	bl_ep_progress(node.ep[0]);
	assert_int_equal(node.ep[0]->credit.nowing, 0);
	assert_int_equal(node.ep[0]->work, 0);
	node_close(&node);
}

/* Whom nobody can ring, as where membarrier is refused, looks now and then. */
static void room_rings_not(void **state)
{
	struct bl_peer *peer;
	struct bl_sleep sleep;
	uint32_t doorbell;

	open_two();
	settle_credit();
	become_quiet();
	peer = fill(1);
	doorbell = peer->doorbell_index;
	peer->doorbell_index = BL_DOORBELL_NONE;
	while (!bl_wait_doze(&node.cq[0]->wait, &sleep))
		;
	assert_in_range(sleep.most, 1, BL_WAIT_MOST_NS - 1);
	bl_wait_rise(&node.cq[0]->wait, &sleep);
	assert_int_equal(bl_wait_try(&node.cq[0]->wait), -EAGAIN);
	peer->doorbell_index = doorbell;
	node_settle(&node, 1);
	node_close(&node);
}

/* Where a process can't make others drain their stores nobody is asked, and who waits looks. */
static void room_without_drain(void **state)
{
	const struct bl_lane *lane;
	struct bl_sleep sleep;

	open_two();
	lane = node.peer[0][1]->tx.lane;
	settle_credit();
	become_quiet();
	fill(1);
	drain_fails = true;
	for (int i = 0; i < 2; i++) {
		while (!bl_wait_doze(&node.cq[0]->wait, &sleep))
			;
		assert_in_range(sleep.most, 1, BL_WAIT_MOST_NS - 1);
		bl_wait_rise(&node.cq[0]->wait, &sleep);
		assert_int_equal(atomic_load(&lane->wants_room), 0);
	}
	drain_fails = false;
	falls_asleep();
	assert_int_equal(atomic_load(&lane->wants_room), 1);
	node_settle(&node, 1);
	assert_true(is_woken());
	node_close(&node);
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
	struct bl_peer *peer[3];

	node_open(&node, 3);
	assert_true(bl_wait_fd(&node.cq[0]->wait) >= 0);
	for (size_t at = 1; at < 3; at++) {
		const struct bl_rx *rx = &node.peer[at][0]->rx;

		do {
			node_send(&node, 0, at, NULL, 0, 4, NULL, BL_TAGGED);
			node_settle(&node, at);
		} while (rx->credited != rx->next);
	}
	become_quiet();
	for (size_t at = 1; at < 3; at++)
		peer[at] = fill(at);
	falls_asleep();
	asks_for_room(peer[1], true);
	asks_for_room(peer[2], true);
	node_settle(&node, 1);
	assert_true(is_woken());
	become_quiet_alone();
	asks_for_room(peer[1], false);
	asks_for_room(peer[2], true);
	node_settle(&node, 2);
	assert_true(is_woken());
	become_quiet_alone();
	asks_for_room(peer[2], false);
	assert_int_equal(node.ep[0]->txq.nactive, 0);
	node_close(&node);
}

/* What waits for room in the ring of one that goes away ends, and says why. */
static void room_is_lost(void **state)
{
	struct bl_peer *peer;

	open_two();
	settle_credit();
	become_quiet();
	peer = fill(1);
	falls_asleep();
	assert_int_equal(bl_ep_close(node.ep[1]), 0);
	for (uint64_t until = bl_clock_ns() + 20000000000ull; !peer->dead;) {
		assert_true(bl_clock_ns() < until);
		bl_ep_progress(node.ep[0]);
	}
	assert_int_equal(node_error(&node, 0).err, ENOTCONN);
	assert_int_equal(node.ep[0]->txq.nactive, 0);
	assert_int_equal(bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED), -ENOTCONN);
	assert_int_equal(bl_ep_open(node.domain, &node.ep[1]), 0); /* for node_close() */
	node_close(&node);
}

/* While one has a queue, none of its names goes the short way, which would overtake. */
static void two_names(void **state)
{
	struct bl_addr addr;
	uint64_t other;

	open_two();
	settle_credit();
	bl_ep_getname(node.ep[1], &addr);
	assert_int_equal(bl_av_insert(node.av[0], &addr, &other), 0);
	node_send(&node, 0, other, from, 8, 3, NULL, BL_TAGGED);
	assert_ptr_equal(node.ep[0]->dest[other], node.ep[0]->dest[1]);
	fill(1);
	assert_ptr_equal(node.ep[0]->dest[other], &bl_nobody);
	assert_ptr_equal(node.ep[0]->dest[1], &bl_nobody);
	node_settle(&node, 1);
	node_close(&node);
}

/* What waits for a connection costs whoever polls no look at all neighbours. */
static void while_connecting(void **state)
{
	uint64_t later = bl_ticks() + BL_TICKS_AHEAD;
	struct bl_peer *peer;

	open_two();
	settle_credit();
	peer = fill(1);
	peer->adopted = false;
	atomic_store(&peer->state, BL_PEER_CONNECTING);
	node.ep[0]->watch.next_look = later;
	for (int i = 0; i < 10; i++)
		bl_ep_progress(node.ep[0]);
	assert_true(node.ep[0]->watch.next_look == later);
	assert_false(bl_txq_needs_hand(node.ep[0]));
	peer->adopted = true;
	atomic_store(&peer->state, BL_PEER_READY);
	node_settle(&node, 1);
	bl_ep_progress(node.ep[0]);
	assert_int_equal(node.ep[0]->txq.nactive, 0);
	node_close(&node);
}

/* Too many injected bytes wait: whoever was refused tries again before it sleeps, once. */
static void refused_thread_tries(void **state)
{
	open_two();
	settle_credit();
	become_quiet();
	fill(1);
	while (!bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED))
		assert_in_range(node.ep[0]->txq.kept, 8, KEPT_MOST);
	assert_int_equal(node.ep[0]->txq.kept, KEPT_MOST);
	assert_int_equal(bl_wait_try(&node.cq[0]->wait), -EAGAIN);
	falls_asleep();
	node_settle(&node, 1);
	assert_true(is_woken());
	become_quiet_alone();
	assert_int_equal(node.ep[0]->txq.kept, 0);
	assert_int_equal(bl_inject(node.ep[0], from, 8, 1, 3, 0, BL_TAGGED), 0);
	node_close(&node);
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
	setenv("FI_BEELINE_INJECT_QUEUE", "64", 1);
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
	TABLE_TEST(two_names);
	TABLE_TEST(while_connecting);
	TABLE_TEST(refused_thread_tries);
	TABLE_TEST(woken_by_a_count);
	TABLE_TEST(woken_not_risen);
	return table_run("wait");
}
