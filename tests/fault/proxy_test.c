/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * proxy_test.c: a receive from anybody is shown to one neighbour (transport/local/ways/proxy.h),
 * who lies about it or dies with it. Rank 0 receives, rank 2 is that neighbour, and rank 1 sends
 * messages that could go there too: they must come, in order, into the first receive that no
 * message of rank 2's has taken. All of that also of a shared context, and of receives in several
 * pieces.
 *
 * And a receiver who lies about where its receive is, which is claimed: that costs the
 * claimer nothing, and the receiver finishes by itself.
 */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/local/ways/rndv.h"
#include "fault/world.h"
#include "transport/local/ways/advert.h"

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
static bool shares;	  /* it is a receive of a shared context */
static size_t pieces = 1; /* of a receive */

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
	size_t each = LEN / pieces;
	struct iovec iov[BL_IOV_MAX];
	struct bl_recv recv = {.iov = iov,
			       .niov = pieces,
			       .src = BL_ADDR_ANY,
			       .tag = TAG,
			       .context = buf[i],
			       .flags = BL_TAGGED | BL_COMPLETION};

	memset(buf[i], 0, LEN);
	for (size_t p = 0; p < pieces; p++)
		iov[p] = (struct iovec){buf[i] + p * each, each};
	iov[pieces - 1].iov_len += LEN % pieces;
	RANK_CHECK(0, !bl_recv(rank_home, &recv));
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

/* So many know us, and we know them. */
static void be_greeted(int by)
{
	uint8_t hello;

	for (int i = 0; i < by; i++) {
		RANK_CHECK(0, !bl_recv_buf(rank_home, &hello, 1, BL_ADDR_ANY, GREETING, 0, &hello,
					   BL_TAGGED | BL_COMPLETION));
		RANK_CHECK(0, completed(0, &(int){0}) == &hello);
	}
}

static void receive(void)
{
	rank_keep_log();
	rank_shares = shares;
	rank_open(0, RANKS);
	for (int i = 0; i < 3; i++)
		RANK_CHECK(0, (buf[i] = malloc(LEN)));
	be_greeted(2); /* both are neighbours, */
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
	struct bl_peer *peer = world_peer(0);
	struct bl_adverts *board = &peer->rx.lane->board;
	uint64_t posted = atomic_load(&board->posted);
	uint32_t me = peer->doorbell_index, generation;
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

/* --- a receiver who lies --------------------------------------------------- */

enum lie {
	TRUTH,	/* the claimer copies */
	COUNT,	/* so many pieces */
	LENGTH, /* of its second piece */
	PLACE,	/* of the same */
	LONGER, /* the second and the third, by so much */
	ALL,	/* bytes in all */
};

struct shown_row {
	struct row row;
	size_t pieces; /* that it has */
	enum lie lie;
	uint64_t value;
};

#define EACH (LEN / 3) /* bytes in each of three */

static const struct shown_row shown_rows[] = {
	{{"two", "as it is"}, 2, TRUTH, 0},
	{{"three", "as it is"}, 3, TRUTH, 0},
	{{"eight", "as it is"}, 8, TRUTH, 0},
	{{"none", "one buffer, then, which isn't there"}, 3, COUNT, 0},
	{{"one", "that is said in another way"}, 3, COUNT, 1},
	{{"fewer", "they don't add up"}, 3, COUNT, 2},
	{{"nine", "more than there can be"}, 3, COUNT, 9},
	{{"65535", "the same"}, 3, COUNT, UINT16_MAX},
	{{"without a place", "the advert has none for pieces"}, 1, COUNT, 2},
	{{"one is shorter", "they don't add up"}, 3, LENGTH, EACH - 1},
	{{"one is longer", "they don't add up"}, 3, LENGTH, EACH + 1},
	{{"one is huge", "the sum overflows"}, 3, LENGTH, UINT64_MAX - 5},
	{{"two are huge", "it overflows to the right number"}, 3, LONGER, 1ULL << 63},
	{{"one isn't there", "the kernel refuses"}, 3, PLACE, 4096},
	{{"one is the kernel's", "the same"}, 3, PLACE, 1ULL << 63},
	{{"less in all", "than the pieces add up to"}, 3, ALL, LEN - 1},
	{{"more in all", "than the pieces add up to"}, 3, ALL, LEN + 1},
	{{"an overflow in all", "which a sum can't be"}, 3, ALL, UINT64_MAX},
};

static const struct shown_row *shown;

static uint64_t counted(enum bl_stat which)
{
	return atomic_load(&ep->local.stats->counter[which].value);
}

static void tell_lie(struct bl_adverts *board)
{
	uint32_t i = (uint32_t)__builtin_ctzll(atomic_load(&board->posted));
	struct bl_advert *a = &board->advert[i];
	struct bl_piece *piece = board->scatter[shown->pieces > 1 ? i - BL_SCATTER_FIRST : 0].piece;

	RANK_CHECK(0, atomic_load(&a->pieces) == (shown->pieces > 1 ? shown->pieces : 0));
	RANK_CHECK(0, atomic_load(&a->len) == LEN);
	switch (shown->lie) {
	case TRUTH:
		break;
	case COUNT:
		atomic_store(&a->pieces, (uint16_t)shown->value);
		if (!shown->value)
			atomic_store(&a->base, 4096);
		if (shown->value == 1)
			piece[0].len = LEN; /* so it is */
		break;
	case LENGTH:
		piece[1].len = shown->value;
		break;
	case PLACE:
		piece[1].base = shown->value;
		break;
	case LONGER:
		piece[1].len = piece[2].len = EACH + shown->value;
		break;
	case ALL:
		atomic_store(&a->len, shown->value);
		break;
	}
}

/* Away from where it has posted until the sender's call is over. */
static void lie_to_sender(void)
{
	rank_open(0, 2);
	pieces = shown->pieces;
	RANK_CHECK(0, (buf[0] = malloc(LEN)));
	be_greeted(1);
	post(0);
	struct bl_peer *peer = bl_local_find(&ep->local, &world->addr[HONEST]);

	RANK_CHECK(0, peer && atomic_load(&peer->tx.lane->board.posted));
	tell_lie(&peer->tx.lane->board);
	say(0, 1);
	rank_await(0, &world->mark[HONEST], 1);
	RANK_CHECK(0, shown->lie || buf[0][LEN - 1] == 7);
	expect(0, 7, 0);
	RANK_CHECK(0, counted(BL_STAT_received_claimed) == !shown->lie);
	say(0, 2);
	await(0, HONEST, 2);
	rank_close(0);
	free(buf[0]);
}

static void send_to_liar(void)
{
	uint8_t *mine = malloc(LEN);
	struct iovec iov = {mine, LEN};
	struct bl_send send = {.iov = &iov,
			       .niov = 1,
			       .tag = TAG,
			       .context = mine,
			       .flags = BL_TAGGED | BL_COMPLETION};
	int err;

	rank_open(HONEST, 2);
	send.dest = world_index[0];
	RANK_CHECK(HONEST, mine);
	memset(mine, 7, LEN);
	greet(HONEST);
	RANK_CHECK(HONEST, !bl_send(ep, &send));
	say(HONEST, 1);
	RANK_CHECK(HONEST, completed(HONEST, &err) == mine && !err);
	await(HONEST, 0, 2);
	RANK_CHECK(HONEST, counted(BL_STAT_sent_claimed) == !shown->lie);
	say(HONEST, 2);
	rank_close(HONEST);
	free(mine);
}

static void run_shown(int rank)
{
	if (rank)
		send_to_liar();
	else
		lie_to_sender();
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
	pieces = 1;
	claims_of(state);
}

static void claims_in_pieces(void **state)
{
	shares = false;
	pieces = 3;
	claims_of(state);
}

static void claims_shared(void **state)
{
	shares = true;
	pieces = 1;
	claims_of(state);
}

static void where(void **state)
{
	shown = TABLE_ROW(struct shown_row, state);
	shares = false;
	setenv("FI_BEELINE_OVERLAP", "always", 1);
	world_start(2, run_shown);
	world_end(-1);
}

int main(void)
{
	TABLE_ROWS("claims", claims, rows);
	TABLE_ROWS("claims of a context", claims_shared, rows);
	TABLE_ROWS("claims of pieces", claims_in_pieces, rows);
	TABLE_ROWS("where it is", where, shown_rows);
	return table_run("proxy");
}
