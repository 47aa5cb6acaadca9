/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * overlap.c: a large transfer is over with the second of the two calls, whichever
 * that is, with no help of the process that is away. "Away" is a wait at a pipe
 * (t_barrier_with(NULL)) or a loop of one's own: nothing of the library runs. No
 * case fails by the clock; what is away when its bytes must be there can't have helped.
 */
#include "overlap.h"

#include "ways.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_tagged.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void ship(struct t_node *n, bool tagged, int to, const struct t_buf *b, uint64_t tag,
		 uint64_t data, struct t_op *op)
{
	if (tagged)
		T_TRY(fi_tsenddata(n->ep, b->p, b->len, NULL, data, n->peer[to], tag, op));
	else
		T_TRY(fi_senddata(n->ep, b->p, b->len, NULL, data, n->peer[to], op));
}

/* The receiver posts and goes away; the sender is on its own from then on. */
static void receiver_away(bool tagged, bool anybody)
{
	struct t_opts o = {.cq_data = true};
	struct t_node n;

	start(&n, &o, true);
	for (uint64_t i = 0; i < NSIZES; i++) {
		struct t_buf b = t_buf(sizes[i], i * 3);
		struct t_op op = {0};

		t_barrier();
		if (t_rank == 0) {
			t_fill(b.p, b.len, i, 0);
			away(); /* posted */
			ship(&n, tagged, 1, &b, 5, i + 70, &op);
			T_WAIT(&op);
			away();
		} else {
			t_blank(&b);
			post(&n, tagged, anybody ? FI_ADDR_UNSPEC : n.peer[0], &b, 5, &op);
			away();
			away(); /* sent */
			T_GOT(&b, b.len, i);
			T_EQ(op.done, 0);
			T_WAIT(&op);
			T_EQ(op.c.len, b.len);
			T_EQ(op.c.data, i + 70);
			T_EQ(op.c.flags & (FI_RECV | FI_REMOTE_CQ_DATA),
			     FI_RECV | FI_REMOTE_CQ_DATA);
			if (tagged)
				T_EQ(op.c.tag, 5);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void receiver_away_tagged(void)
{
	receiver_away(true, false);
}

static void receiver_away_untagged(void)
{
	receiver_away(false, false);
}

static void receiver_away_anybody(void)
{
	receiver_away(true, true);
}

/* The sender goes away with its message in the ring: the call that posts the
 * receive brings the bytes. */
static void sender_away(void)
{
	struct t_node n;

	start(&n, NULL, true);
	for (uint64_t i = 0; i < 2 * NSIZES; i++) {
		struct t_buf b = t_buf(sizes[i / 2], i);
		struct t_op op = {0};

		t_barrier();
		if (t_rank == 0) {
			t_fill(b.p, b.len, i, 0);
			t_tsend(&n, 1, b.p, b.len, 5, &op);
			away(); /* sent */
			away(); /* received */
			T_WAIT(&op);
		} else {
			t_blank(&b);
			away();
			if (i & 1) /* it lies in the early queue, not in the ring */
				t_progress();
			post(&n, true, FI_ADDR_UNSPEC, &b, 5, &op);
			T_GOT(&b, b.len, i);
			T_WAIT(&op);
			away();
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

#define CONNECTED_NS 80000000u /* no post gives up waiting for its connection before */

/*
 * A sender that the receiver has never heard from: as receiver_away, if the receiver
 * says that it waits for it. One that would take anybody's message has nobody to show
 * it to, and gets it when it comes back; the next ones find who has sent it. Likewise where
 * a machine has so much else to do that the post didn't wait until they were connected.
 */
static void stranger(bool anybody)
{
	struct t_opts o = {.caps = FI_SOURCE | FI_DIRECTED_RECV};
	struct t_node n;

	start(&n, &o, false);
	for (uint64_t i = 0; i < 3; i++) {
		bool alone = !anybody || i, both[2];
		struct t_buf b = t_buf(MIB, 0);
		struct t_op op = {0};

		if (t_rank == 0) {
			t_fill(b.p, b.len, i, 0);
			t_allgather(&alone, sizeof alone, both, NULL);
			t_tsend(&n, 1, b.p, b.len, 5, &op);
			if (both[1])
				T_WAIT(&op);
			away();
			T_WAIT(&op);
		} else {
			uint64_t before;

			t_blank(&b);
			before = now();
			post(&n, true, anybody ? FI_ADDR_UNSPEC : n.peer[0], &b, 5, &op);
			alone = alone && (i || now() - before < CONNECTED_NS);
			t_allgather(&alone, sizeof alone, both, NULL);
			away();
			if (alone)
				T_GOT(&b, b.len, i);
			T_WAIT(&op);
			T_GOT(&b, b.len, i);
			T_EQ(op.c.src, n.peer[0]);
		}
		t_barrier();
		t_buf_free(&b);
	}
	t_finish(&n);
}

static void stranger_named(void)
{
	stranger(false);
}

static void stranger_anybody(void)
{
	stranger(true);
}

/* More receives than a board holds or a ring has packets, all posted before the
 * receiver goes; the others wait for it, and all keep their order. */
static void many(void)
{
	enum { N = 80, AT_LEAST = 12 };
	struct t_node n;
	struct t_buf b[N];
	struct t_op op[N];

	memset(op, 0, sizeof op);
	start(&n, NULL, true);
	for (int i = 0; i < N; i++)
		b[i] = t_buf(70000, 0);
	if (t_rank == 0) {
		int sent = 0;

		for (uint64_t i = 0; i < N; i++)
			t_fill(b[i].p, b[i].len, i, 0);
		away();
		for (ssize_t rc = 0; sent < N && !rc; sent += !rc)
			rc = fi_tsend(n.ep, b[sent].p, b[sent].len, NULL, n.peer[1], 5, &op[sent]);
		T_CHECK(sent >= AT_LEAST, "the ring takes %d messages", sent);
		for (int i = 0; i < AT_LEAST; i++)
			T_WAIT(&op[i]);
		away();
		for (int i = sent; i < N; i++)
			t_tsend(&n, 1, b[i].p, b[i].len, 5, &op[i]);
		for (int i = AT_LEAST; i < N; i++)
			T_WAIT(&op[i]);
	} else {
		for (int i = 0; i < N; i++) {
			t_blank(&b[i]);
			post(&n, true, i % 3 ? n.peer[0] : FI_ADDR_UNSPEC, &b[i], 5, &op[i]);
		}
		away();
		away();
		for (uint64_t i = 0; i < AT_LEAST; i++)
			T_GOT(&b[i], b[i].len, i);
		for (uint64_t i = 0; i < N; i++) {
			T_WAIT(&op[i]);
			T_GOT(&b[i], b[i].len, i);
		}
	}
	for (int i = 0; i < N; i++)
		t_buf_free(&b[i]);
	t_finish(&n);
}

/* A sender that sends and doesn't look, while more messages are received than the ring to it
 * has packets; then the receiver goes, and the sender looks. */
static void over(void)
{
	enum { N = 300, AT_ONCE = 50 };
	static struct t_op op[N];
	struct t_buf b = t_buf(70000, 0);
	struct t_node n;

	start(&n, NULL, true);
	if (t_rank == 0) {
		t_fill(b.p, b.len, 7, 0);
		for (uint64_t i = 0; i < N; i++) {
			if (i && !(i % AT_ONCE)) /* received; we don't look */
				t_barrier_with(NULL);
			t_tsend(&n, 1, b.p, b.len, i, &op[i]);
			t_at("message %llu", (unsigned long long)i);
		}
		away(); /* received */
		for (int i = 0; i < N; i++)
			T_WAIT(&op[i]);
		away();
	} else {
		for (uint64_t i = 0; i < N; i++) {
			if (i && !(i % AT_ONCE))
				t_barrier_with(NULL);
			t_blank(&b);
			post(&n, true, n.peer[0], &b, i, &op[i]);
			T_WAIT(&op[i]);
			T_GOT(&b, b.len, 7);
		}
		away();
		away();
	}
	t_buf_free(&b);
	t_finish(&n);
}

/*
 * What is before the large message and what is before the large receive keep
 * their place. First digit: what the receiver posts before the large receives;
 * second: what the sender sends before the large message, the receiver being away.
 */
static void in_order(bool small_first, bool same_tag)
{
	enum { LARGE = 200000 };
	struct t_node n;
	struct t_buf b[3] = {t_buf(LARGE, 0), t_buf(LARGE, 0), t_buf(LARGE, 0)};
	struct t_op op[3] = {0};
	uint64_t tag = same_tag ? 5 : 6;

	start(&n, NULL, true);
	if (t_rank == 0) {
		t_fill(b[0].p, LARGE, 1, 0);
		t_fill(b[1].p, LARGE, 2, 0);
		t_fill(b[2].p, LARGE, 3, 0);
		away();
		T_TRY(fi_tinject(n.ep, b[0].p, 64, n.peer[1], tag));
		t_tsend(&n, 1, b[1].p, LARGE, 5, &op[1]);
		t_tsend(&n, 1, b[2].p, LARGE, 5, &op[2]);
		if (!same_tag) { /* the short one is no obstacle */
			T_WAIT(&op[1]);
			T_WAIT(&op[2]);
		}
		away();
		T_WAIT(&op[1]);
		T_WAIT(&op[2]);
	} else {
		for (int i = 0; i < 3; i++)
			t_blank(&b[i]);
		/* The first receive takes the short message where the tags are the same. */
		if (small_first)
			t_trecv(&n, FI_ADDR_UNSPEC, b[0].p, 64, tag, 0, &op[0]);
		else
			t_trecv(&n, n.peer[0], b[0].p, LARGE, tag, 0, &op[0]);
		t_trecv(&n, FI_ADDR_UNSPEC, b[1].p, LARGE, 5, 0, &op[1]);
		t_trecv(&n, n.peer[0], b[2].p, LARGE, 5, 0, &op[2]);
		away();
		away();
		if (!same_tag) {
			T_GOT(&b[1], LARGE, 2);
			T_GOT(&b[2], LARGE, 3);
		}
		for (int i = 0; i < 3; i++)
			T_WAIT(&op[i]);
		T_EQ(op[0].c.len, 64);
		T_GOT(&b[0], 64, 1);
		T_GOT(&b[1], LARGE, 2);
		T_GOT(&b[2], LARGE, 3);
	}
	for (int i = 0; i < 3; i++)
		t_buf_free(&b[i]);
	t_finish(&n);
}

static void order_small(void)
{
	in_order(true, true);
}

static void order_large(void)
{
	in_order(false, true);
}

static void order_other_tag(void)
{
	in_order(false, false);
}

static void order_other_tag_small(void)
{
	in_order(true, false);
}

/* A receive that a short one before it may take the place of is shown once that
 * one is gone. */
static void shown_later(void)
{
	enum { LARGE = 300000 };
	struct t_node n;
	struct t_buf b = t_buf(LARGE, 0);
	struct t_op small = {0}, op = {0};
	uint64_t v = 77;

	start(&n, NULL, true);
	if (t_rank == 0) {
		t_fill(b.p, LARGE, 1, 0);
		away();
		T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 5));
		t_barrier();
		away();
		t_tsend(&n, 1, b.p, LARGE, 5, &op);
		T_WAIT(&op);
		away();
	} else {
		v = 0;
		t_blank(&b);
		t_trecv(&n, FI_ADDR_UNSPEC, &v, 8, 5, 0, &small);
		t_trecv(&n, FI_ADDR_UNSPEC, b.p, LARGE, 5, 0, &op);
		away();
		T_WAIT(&small);
		T_EQ(v, 77);
		t_barrier(); /* with progress, which is when it is shown */
		for (int i = 0; i < 10; i++) {
			nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
			t_progress();
		}
		away();
		away();
		T_GOT(&b, LARGE, 1);
		T_WAIT(&op);
	}
	t_buf_free(&b);
	t_finish(&n);
}

/* A message longer than the receive that it claims. */
static void truncated(void)
{
	struct t_node n;
	struct t_buf b = t_buf(300000, 0);
	struct t_op op = {0};

	start(&n, NULL, true);
	if (t_rank == 0) {
		t_fill(b.p, b.len, 1, 0);
		away();
		t_tsend(&n, 1, b.p, b.len, 5, &op);
		T_WAIT(&op);
		away();
	} else {
		t_blank(&b);
		t_trecv(&n, n.peer[0], b.p, 100000, 5, 0, &op);
		away();
		away();
		T_WAIT_ERR(&op, FI_ETRUNC);
		T_EQ(op.c.olen, 200000);
		T_GOT(&b, 100000, 1);
	}
	t_buf_free(&b);
	t_finish(&n);
}

/* Scattered at the sender; counters at both. */
static void gathered(void)
{
	struct t_opts o = {.counters = true, .iov = 2};
	struct t_node n;
	struct t_buf b = t_buf(400000, 0);
	struct t_op op = {0};

	start(&n, &o, true);
	if (t_rank == 0) {
		struct iovec iov[2] = {{b.p, 150001}, {b.p + 150001, b.len - 150001}};
		uint64_t before = fi_cntr_read(n.txcntr);

		t_fill(b.p, b.len, 1, 0);
		away();
		T_TRY(fi_tsendv(n.ep, iov, NULL, 2, n.peer[1], 5, &op));
		T_WAIT(&op);
		T_EQ(fi_cntr_read(n.txcntr), before + 1);
		away();
	} else {
		uint64_t before = fi_cntr_read(n.rxcntr);

		t_blank(&b);
		t_trecv(&n, n.peer[0], b.p, b.len, 5, 0, &op);
		away();
		away();
		T_WAIT(&op);
		T_EQ(fi_cntr_read(n.rxcntr), before + 1);
		T_GOT(&b, b.len, 1);
	}
	t_buf_free(&b);
	t_finish(&n);
}

/* A cancel and a claim of the same receive: one wins; what is cancelled is not
 * written to, what isn't is whole. */
static void cancel_race(void)
{
	struct t_node n;
	int cancelled = 0, claimed = 0;

	start(&n, NULL, true);
	for (uint64_t i = 0; i < (uint64_t)t_scaled(400); i++) {
		struct t_buf b = t_buf(i % 4 ? 65536 : 1000000, 0);
		struct t_op op = {0};

		t_barrier();
		if (t_rank == 0) {
			t_fill(b.p, b.len, i, 0);
			away();
			t_tsend(&n, 1, b.p, b.len, 5, &op);
			T_WAIT(&op);
		} else {
			t_blank(&b);
			post(&n, true, i % 2 ? n.peer[0] : FI_ADDR_UNSPEC, &b, 5, &op);
			away();
			for (volatile uint64_t k = 0; k < i % 37 * 400; k++)
				;
			fi_cancel(&n.ep->fid, &op);
			while (!op.done)
				t_idle();
			if (op.c.err) {
				T_EQ(op.c.err, FI_ECANCELED);
				T_GOT(&b, 0, 0);
				cancelled++;
				op.done = 0;
				post(&n, true, FI_ADDR_UNSPEC, &b, 5, &op);
				T_WAIT(&op);
			} else {
				claimed++;
			}
			T_GOT(&b, b.len, i);
		}
		t_buf_free(&b);
	}
	t_finish(&n);
}

/* --- in the middle ------------------------------------------------------ */

/* Memory of all three: the bytes of a receive, and how often its owner has read since. */
struct sight {
	_Alignas(4096) unsigned char bytes[16 * MIB];
	unsigned char behind[64]; /* stay as they are */
	_Atomic uint64_t reads;
};

static struct sight *sight_open(void)
{
	struct {
		pid_t pid;
		int fd;
	} mine = {getpid(), -1}, all[3];
	struct sight *sight;
	char path[64];
	int fd;

	if (t_rank == 0) {
		mine.fd = memfd_create("sight", MFD_CLOEXEC);
		T_CHECK(mine.fd >= 0 && !ftruncate(mine.fd, sizeof *sight), "memfd_create: %s",
			strerror(errno));
	}
	t_allgather(&mine, sizeof mine, all, t_progress);
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)all[0].pid, all[0].fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	T_CHECK(fd >= 0, "%s: %s", path, strerror(errno));
	sight = mmap(NULL, sizeof *sight, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	T_CHECK(sight != MAP_FAILED, "mmap: %s", strerror(errno));
	close(fd);
	t_barrier();
	if (t_rank == 0)
		close(mine.fd);
	return sight;
}

static void blank(struct sight *sight)
{
	memset(sight, T_BLANK, offsetof(struct sight, reads));
	atomic_store(&sight->reads, 0);
}

static void check_sight(const struct sight *sight, uint64_t seed)
{
	T_SAME(sight->bytes, sizeof sight->bytes, seed, 0);
	for (size_t i = 0; i < sizeof sight->behind; i++)
		T_EQ(sight->behind[i], T_BLANK);
}

static bool page_is_blank(const struct sight *sight, size_t page)
{
	const volatile unsigned char *p = sight->bytes + page * 4096;

	for (int i = 0; i < 8; i++)
		if (p[i] != T_BLANK)
			return false;
	return true;
}

static bool has_blank(const struct sight *sight)
{
	for (size_t page = 0; page < sizeof sight->bytes / 4096; page++)
		if (page_is_blank(sight, page))
			return true;
	return false;
}

/*
 * The receiver waits for a short message of a third, and goes away with it while it copies
 * a large one, whose sender has seen that it was taken and is away. That it goes away in
 * the middle is learnt from the first time. The sender sends when the receiver is seen
 * to wait, the third when the first bytes are seen there; who has no core just then does so
 * later, and then nobody is in the middle of anything. The receiver polls between its post
 * and the wait, or it would be known as one who goes away after posts. (The receives name their
 * senders: whom one from anybody is to be shown to would have to be learnt as well.)
 */
static void between(void)
{
	enum { ROUNDS = 30 };
	struct t_opts o = {.caps = FI_SOURCE | FI_DIRECTED_RECV};
	struct sight *sight;
	struct t_node n;
	int left = 0;

	start(&n, &o, true);
	sight = sight_open();
	struct t_buf sent = t_buf(sizeof sight->bytes, 0);
	struct t_buf got = {.p = sight->bytes, .len = sizeof sight->bytes};

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct t_op op = {0}, word = {0};
		uint64_t v = i;

		if (t_rank == 0)
			t_fill(sent.p, sent.len, i, 0);
		else if (t_rank == 1)
			blank(sight);
		t_barrier();
		if (t_rank == 1) {
			post(&n, true, n.peer[0], &got, 5, &op);
			post(&n, true, n.peer[2], &(struct t_buf){.p = (void *)&v, .len = 8}, 6,
			     &word);
		}
		t_barrier_with(t_rank == 1 ? t_progress : NULL); /* posted */
		if (t_rank == 0) {
			t_at("waiting for the receiver of round %d", (int)i);
			while (atomic_load(&sight->reads) < 3)
				sched_yield();
			t_tsend(&n, 1, sent.p, sent.len, 5, &op);
		} else if (t_rank == 1) {
			for (; !word.done; atomic_fetch_add(&sight->reads, 1))
				t_idle();
			T_WAIT(&word);
		} else {
			t_at("waiting for the first bytes of round %d", (int)i);
			while (page_is_blank(sight, 0))
				sched_yield();
			T_TRY(fi_tinject(n.ep, &v, 8, n.peer[1], 6));
		}
		t_at("away in round %d", (int)i);
		away(); /* all have returned */
		if (t_rank == 1)
			left += has_blank(sight);
		away(); /* and looked */
		if (t_rank != 2)
			T_WAIT(&op);
		if (t_rank == 1)
			check_sight(sight, i);
	}
	T_CHECK(left <= 1, "left in the middle %d times of %d", left, ROUNDS);
	t_buf_free(&sent);
	munmap(sight, sizeof *sight);
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"overlap_receiver_away", 2, receiver_away_tagged, "the sender completes it alone", 0},
	{"overlap_receiver_away_untagged", 2, receiver_away_untagged, "the same, untagged", 0},
	{"overlap_receiver_away_anybody", 2, receiver_away_anybody, "posted for any source", 0},
	{"overlap_sender_away", 2, sender_away, "the posting call brings the bytes", 0},
	{"overlap_stranger", 2, stranger_named, "a sender that was never heard from", 0},
	{"overlap_stranger_anybody", 2, stranger_anybody, "nobody to show it to", 0},
	{"overlap_many", 2, many, "more than a board or a ring holds", 0},
	{"overlap_over", 2, over, "more ends than the ring to a sender tells of", 0},
	{"overlap_order_small", 2, order_small, "a short receive and message first", 0},
	{"overlap_order_large", 2, order_large, "a short message takes a large receive", 0},
	{"overlap_order_other_tag", 2, order_other_tag, "another tag is no obstacle", 0},
	{"overlap_order_other_small", 2, order_other_tag_small, "nor for a short receive", 0},
	{"overlap_shown_later", 2, shown_later, "an obstacle that goes", 0},
	{"overlap_truncated", 2, truncated, "a message too long", 0},
	{"overlap_gathered", 2, gathered, "pieces, counters", 0},
	{"overlap_cancel_race", 2, cancel_race, "cancel against claim", 0},
	{"overlap_between", 3, between, "gone with another message in the middle", 120},
};

const struct t_group group_overlap = T_GROUP("overlap", cases);
