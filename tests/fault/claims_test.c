/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * claims_test.c: a receive from anybody is shown to one neighbour (core/claim.h), who
 * lies about it or dies with it. Rank 0 receives, rank 2 is that neighbour, and rank 1
 * sends messages that could go there too: they must come, in order, into the first
 * receive that no message of rank 2's has taken. All of that also of a shared context.
 */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/large.h"
#include "fault/world.h"
#include "local/advert.h"

#define HONEST	 1
#define DELEGATE 2
#define LEN	 150000u
#define TAG	 5
#define GREETING 77
#define LIAR	 "claimed a receive for no message"

enum what {
	NOTHING,  /* it does nothing at all */
	STATE,	  /* writes this state, in its own name */
	ANOTHERS, /* in another's name */
	STALE,	  /* of a receive that was there before */
	MISFIT,	  /* claims with a message that doesn't match */
	CLAIM,	  /* claims with a message that matches, and never ends it */
	WITHDRAW, /* the same, and then says otherwise */
	DISOWN,	  /* the same, and then the message is anybody's */
};

struct claims_row {
	struct row row;
	enum what what;
	enum bl_advert_state state;
	bool cancel; /* the owner wants it back for itself */
	bool killed; /* the neighbour dies before anything else comes */
	int held;    /* the first receive is taken, others' messages go past it: how it ends */
	bool found;  /* to be a liar */
};

static const struct claims_row rows[] = {
	{{"dies", "shown to nobody else, but still posted"}, NOTHING, 0, .killed = true},
	{{"claims", "no message of its own that it is for"},
	 STATE,
	 BL_ADVERT_CLAIMED,
	 .found = true},
	{{"claims, dies", "its claim is for no message"}, STATE, BL_ADVERT_CLAIMED, .killed = true},
	{{"claims, cancelled", "a cancel isn't refused for a lie"},
	 STATE,
	 BL_ADVERT_CLAIMED,
	 .cancel = true,
	 .found = true},
	{{"done", "says that it has copied, and hasn't"}, STATE, BL_ADVERT_DONE, .found = true},
	{{"yours", "leaves the copy of nothing to us"}, STATE, BL_ADVERT_YOURS, .found = true},
	{{"owned", "a state that is ours to write"}, STATE, BL_ADVERT_OWNED, .found = true},
	{{"free", "the same"}, STATE, BL_ADVERT_FREE, .found = true},
	{{"nonsense", "no state at all"}, STATE, 15, .found = true},
	{{"in another's name", "who isn't asked"}, ANOTHERS, BL_ADVERT_CLAIMED, .found = true},
	{{"stale", "a receive that was there before"}, STALE, BL_ADVERT_CLAIMED, .found = true},
	{{"misfit", "its message has another tag"}, MISFIT, BL_ADVERT_CLAIMED, .found = true},
	{{"holds", "a message of its own that has matched"},
	 CLAIM,
	 BL_ADVERT_CLAIMED,
	 .held = ECONNRESET},
	{{"holds, withdraws", "what has gone past stays past"},
	 WITHDRAW,
	 BL_ADVERT_CLAIMED,
	 .held = EPROTO},
	{{"holds, disowns", "and no message is left that would end it"},
	 DISOWN,
	 BL_ADVERT_CLAIMED,
	 .held = EPROTO,
	 .found = true},
};

static const struct claims_row *row;
static bool shares; /* it is a receive of a shared context */

/* --- all ----------------------------------------------------------------- */

static void say(int rank, uint32_t what)
{
	atomic_store(&world->mark[rank], what);
}

static void await(int me, int rank, uint32_t what)
{
	struct deadline late = deadline_in(WORLD_NS);

	while (atomic_load(&world->mark[rank]) < what) {
		if (deadline_over(&late))
			rank_fail(me, "rank %d never came to %u", rank, what);
		bl_ep_progress(ep);
		sched_yield();
	}
}

/* The next completion: its context, and its error in *err. */
static void *completed(int rank, int *err)
{
	struct deadline late = deadline_in(WORLD_NS);
	struct bl_comp_err failed;
	struct bl_comp comp;
	ssize_t n;

	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN)
		if (deadline_over(&late))
			rank_fail(rank, "nothing completes");
	*err = 0;
	if (n == 1)
		return comp.context;
	RANK_CHECK(rank, bl_cq_readerr(cq, &failed) == 1);
	*err = failed.err;
	return failed.comp.context;
}

static void send_one(int rank, int to, uint8_t byte)
{
	uint8_t *buf = malloc(LEN);
	struct iovec iov = {buf, LEN};
	struct bl_send send = {&iov, 1,	  world_index[to],	     TAG,
			       0,    buf, BL_TAGGED | BL_COMPLETION, NULL};
	int err;

	RANK_CHECK(rank, buf);
	memset(buf, byte, LEN);
	while ((err = bl_send(ep, &send)) == -EAGAIN)
		bl_ep_progress(ep);
	RANK_CHECK(rank, !err);
	RANK_CHECK(rank, completed(rank, &err) == buf && !err);
	free(buf);
}

/* --- rank 0 -------------------------------------------------------------- */

static uint8_t *buf[3];

static void post(int i)
{
	memset(buf[i], 0, LEN);
	RANK_CHECK(0, !bl_recv_buf(rank_home, buf[i], LEN, BL_ADDR_ANY, TAG, 0, buf[i],
				   BL_TAGGED | BL_COMPLETION));
}

/* Receive i is over, with the message made of `byte`, or the error. */
static void expect(int i, uint8_t byte, int error)
{
	int err;
	void *context = completed(0, &err);

	if (context != buf[i] || err != error)
		rank_fail(0, "receive %d: error %d; wanted: receive %d, error %d",
			  context == buf[0]   ? 0
			  : context == buf[1] ? 1
					      : 2,
			  err, i, error);
	if (!error)
		RANK_CHECK(0, buf[i][0] == byte && !memcmp(buf[i], buf[i] + 1, LEN - 1));
}

static bool is_shown(void)
{
	struct bl_peer *peer = bl_local_find(&ep->local, &world->addr[DELEGATE]);

	return atomic_load(&peer->tx.lane->board.posted);
}

/* The same, but the liar's message, which it has said is anybody's, may cost a receive, as
 * any sender's may: that ends with the liar, and the next one is the honest one's. */
static void expect_or_liars(int i, uint8_t byte)
{
	int err;

	RANK_CHECK(0, completed(0, &err) == buf[i] && (!err || err == EPROTO));
	if (err) {
		post(i);
		expect(i, byte, 0);
	}
	RANK_CHECK(0, buf[i][0] == byte && !memcmp(buf[i], buf[i] + 1, LEN - 1));
}

static void receive(void)
{
	uint8_t hello;

	rank_keep_log();
	rank_shares = shares;
	rank_open(0, RANKS);
	for (int i = 0; i < 3; i++)
		RANK_CHECK(0, (buf[i] = malloc(LEN)));
	for (int i = 0; i < 2; i++) { /* both are neighbours, */
		RANK_CHECK(0, !bl_recv_buf(rank_home, &hello, 1, BL_ADDR_ANY, GREETING, 0, &hello,
					   BL_TAGGED | BL_COMPLETION));
		RANK_CHECK(0, completed(0, &(int){0}) == &hello);
	}
	say(0, 1);
	post(0); /* and from this one large messages come, */
	expect(0, 99, 0);
	post(0); /* so it is expected */
	post(1);
	RANK_CHECK(0, is_shown());
	say(0, 2);
	await(0, DELEGATE, 2);
	if (row->cancel) {
		RANK_CHECK(0, !bl_cancel(rank_home, buf[0]));
		expect(0, 0, ECANCELED);
	}
	say(0, 3);
	if (row->cancel) {
		expect(1, 1, 0);
		post(2);
		expect(2, 2, 0);
	} else if (row->held) {
		expect(1, 1, 0);
		say(0, 4);
		if (row->what == DISOWN) { /* it is asked for when somebody wants it */
			await(0, DELEGATE, 3);
			bl_cancel(rank_home, buf[0]);
		}
		expect(0, 0, row->held);
		post(2);
		if (row->what == DISOWN)
			expect_or_liars(2, 2);
		else
			expect(2, 2, 0);
	} else {
		expect(0, 1, 0);
		expect(1, 2, 0);
	}
	/* One who withdraws in two steps is found out if it is looked at between them. */
	if (row->what != WITHDRAW && row->found != !!rank_logged(LIAR))
		rank_fail(0, "the log says %u times that somebody lied", rank_logged(LIAR));
	/* life goes on */
	send_one(0, HONEST, 3);
	for (int i = 0; i < 3; i++)
		free(buf[i]);
	atomic_store(&world->stop, 1);
	rank_close(0);
}

/* --- rank 1 -------------------------------------------------------------- */

static void greet(int rank)
{
	while (bl_inject(ep, "", 1, world_index[0], GREETING, 0, BL_TAGGED) == -EAGAIN)
		bl_ep_progress(ep);
	await(rank, 0, 1);
}

static void be_honest(void)
{
	uint8_t *mine = malloc(LEN);
	int err;

	rank_open(HONEST, RANKS);
	greet(HONEST);
	await(HONEST, HONEST, 1); /* the test program says when */
	send_one(HONEST, 0, 1);
	send_one(HONEST, 0, 2);
	RANK_CHECK(HONEST, mine && !bl_recv_buf(ep, mine, LEN, world_index[0], TAG, 0, mine,
						BL_TAGGED | BL_COMPLETION));
	RANK_CHECK(HONEST, completed(HONEST, &err) == mine && !err && mine[LEN - 1] == 3);
	free(mine);
	rank_close(HONEST);
}

/* --- rank 2 -------------------------------------------------------------- */

/* A message that says it is about to claim. The word, in its slot. */
static _Atomic uint32_t *announce(struct bl_peer *peer, uint64_t tag)
{
	static uint8_t mine[LEN];
	struct bl_rts rts = {.len = LEN, .taken = BL_TAKEN_SENDER, .piece = {{0, LEN}}};
	struct bl_slot *slot = bl_tx_slot(&peer->tx);

	rts.piece[0].base = (uintptr_t)mine;
	bl_put_packet(peer, BL_OP_TAGGED_RTS, 0, tag, 0, &rts,
		      offsetof(struct bl_rts, piece) + sizeof rts.piece[0]);
	return (_Atomic uint32_t *)(slot->bytes + offsetof(struct bl_rts, taken));
}

static void misbehave(void)
{
	struct bl_peer *peer = ep->dest[world_index[0]];
	struct bl_board *board = &peer->rx.lane->board;
	uint64_t posted = atomic_load(&board->posted);
	uint32_t me = peer->bell_index, generation;
	_Atomic uint32_t *taken = NULL;
	struct bl_advert *a = NULL;

	/* the older one */
	for (; posted; posted &= posted - 1) {
		struct bl_advert *one = &board->advert[__builtin_ctzll(posted)];

		if (!a || atomic_load(&one->number) < atomic_load(&a->number))
			a = one;
	}
	RANK_CHECK(DELEGATE, a);
	RANK_CHECK(DELEGATE, BL_ADVERT_STATE(bl_advert_look(a)) == BL_ADVERT_OPEN);
	generation = BL_ADVERT_GENERATION(bl_advert_look(a));
	switch (row->what) {
	case NOTHING:
		return;
	case STATE:
		break;
	case ANOTHERS:
		me++;
		break;
	case STALE:
		generation--;
		break;
	case MISFIT:
		announce(peer, TAG + 1);
		break;
	case CLAIM:
	case WITHDRAW:
	case DISOWN:
		taken = announce(peer, TAG);
		break;
	}
	atomic_store(&a->state, BL_ADVERT_WORD(generation, me, row->state));
	if (row->what != WITHDRAW && row->what != DISOWN)
		return;
	say(DELEGATE, 2);
	rank_await(DELEGATE, &world->mark[0], 4); /* the other's message has gone past */
	if (row->what == DISOWN) {
		atomic_store(taken, BL_TAKEN_OPEN);
		return;
	}
	atomic_store(&a->state, BL_ADVERT_WORD(generation, 0, BL_ADVERT_OPEN));
	atomic_store(taken, BL_TAKEN_BY(63));
}

static void be_shown(void)
{
	rank_open(DELEGATE, RANKS);
	greet(DELEGATE);
	send_one(DELEGATE, 0, 99);
	await(DELEGATE, 0, 2);
	misbehave();
	say(DELEGATE, 3);
	rank_await(DELEGATE, &world->stop, 1);
	_exit(0);
}

/* --- test program -------------------------------------------------------- */

static void run(int rank)
{
	if (rank == HONEST)
		be_honest();
	else if (rank == DELEGATE)
		be_shown();
	else
		receive();
}

static bool ready(void)
{
	return atomic_load(&world->mark[0]) >= 3;
}

static bool gone_past(void)
{
	return atomic_load(&world->mark[0]) >= 4;
}

/* On return its death can be seen. */
static void kill_delegate(void)
{
	siginfo_t info;

	kill(world_pid[DELEGATE], SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)world_pid[DELEGATE], &info, WEXITED | WNOWAIT), 0);
}

static void claims_of(void **state)
{
	row = TABLE_ROW(struct claims_row, state);
	setenv("FI_BEELINE_OVERLAP", "always", 1);
	world_start(RANKS, run);
	world_until(ready, "what rank 2 does");
	if (row->killed)
		kill_delegate();
	say(HONEST, 1);
	if (row->what == CLAIM) {
		world_until(gone_past, "a message that goes past");
		kill_delegate();
	}
	world_end(DELEGATE);
}

static void claims(void **state)
{
	shares = false;
	claims_of(state);
}

static void claims_shared(void **state)
{
	shares = true;
	claims_of(state);
}

int main(void)
{
	TABLE_ROWS("claims", claims, rows);
	TABLE_ROWS("claims of a context", claims_shared, rows);
	return table_run("claims");
}
