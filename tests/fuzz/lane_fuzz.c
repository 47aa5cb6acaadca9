/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lane_fuzz.c: a libFuzzer target: a neighbour that writes anything into the
 * memory it shares with a real endpoint. The endpoint, its matcher and its large
 * messages are the real ones, its large receives are shown and some of its memory is
 * registered; the lanes are ordinary memory with red zones, so that AddressSanitizer
 * sees any access outside. What the neighbour says of
 * addresses is looked up in a child process, as process_vm_readv does it: it is there that
 * the neighbour's registrations are, some of which make no sense.
 *
 * The input is a list of steps: packets, writes to any place of either lane, of the
 * neighbour's header and of the lock of its memory, and what the endpoint's user does in
 * between, one-sided operations among it. One thread; everything is opened anew for each input.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "endpoint/api.h"
#include "transport/local/adapt/dirty.h"
#include "transport/local/ways/rndv.h"
#include "endpoint/rma.h"
#include "transport/local/link/atomics_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define USER_BUFFERS 64
#define LARGE	     (1u << 17)
#define LONGEST	     400000u /* of what was just written */
#define REGION	     4096u
#define KEY	     7u

static struct {
	struct bl_domain *domain;
	struct bl_av *av;
	struct bl_cq *cq;
	struct bl_ep *ep;
	struct bl_peer *peer;
	struct bl_lane *theirs, *ours; /* the neighbour writes into either */
	struct bl_seg_header *header, *own;
	bool written;
	struct bl_doorbells *doorbells;	      /* ours, which it may write as well */
	struct bl_atomics_page *atomics_page; /* its own */
	uint8_t *region;		      /* registered */
	struct bl_mr *mr;
	void *buffer[USER_BUFFERS]; /* of receives, each of exactly its length */
	size_t buffers;
} w;

static uint8_t outgoing[LONGEST], incoming[LARGE];
static pid_t child;

/* The neighbour's table: these are in the child's memory. */
#define TABLE_MASK 15u
static struct bl_mr_entry table[TABLE_MASK + BL_MR_WINDOW + 1];

static void fill_table(void)
{
	static const struct {
		uint32_t flags, npiece;
		struct bl_piece piece[2];
	} kinds[] = {
		{BL_MR_USED | BL_MR_READ | BL_MR_WRITE, 1, {{0, LARGE}}},
		{BL_MR_USED | BL_MR_READ, 2, {{0, 100}, {4096, 60000}}},
		{BL_MR_USED | BL_MR_WRITE | BL_MR_VIRTUAL, 1, {{0, 1000}}},
		{BL_MR_USED | BL_MR_WRITE | BL_MR_EVENT_WRITE, 1, {{0, 0}}},
		{BL_MR_USED | BL_MR_READ, 0xffffff, {{0, 1}}},
		{BL_MR_USED | BL_MR_READ | BL_MR_WRITE, 2, {{0, 1ull << 63}, {0, 1ull << 63}}},
		{~0u, 1, {{-4096ull, 8192}}},
		{BL_MR_READ, 1, {{0, 10}}},
	};

	for (uint64_t key = 0; key < bl_countof(kinds); key++) {
		struct bl_mr_entry *e = &table[bl_mr_place(key, TABLE_MASK)];

		while (e->flags)
			e++;
		*e = (struct bl_mr_entry){key, kinds[key].flags, kinds[key].npiece, {{0, 0}}};
		for (int i = 0; i < 2; i++) {
			e->piece[i] = kinds[key].piece[i];
			e->piece[i].base += (uintptr_t)incoming;
		}
	}
}

struct input {
	const uint8_t *at, *end;
};

/* The next bytes of the input, zeros behind its end. */
static void take(struct input *in, void *out, size_t len)
{
	size_t n = bl_min(len, (size_t)(in->end - in->at));

	memset(out, 0, len);
	memcpy(out, in->at, n);
	in->at += n;
}

static uint64_t number(struct input *in, size_t bytes)
{
	uint64_t v = 0;

	take(in, &v, bytes);
	return v;
}

static void require(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	setenv("FI_BEELINE_SPLIT_MIN", "8192", 1);
	setenv("FI_BEELINE_CHUNK_MAX", "4096", 1);
	setenv("FI_BEELINE_EAGER_MAX", "4096", 1);
	setenv("FI_BEELINE_EAGER_LONG_MAX", "131072", 1);
	setenv("FI_BEELINE_SPIN", "0", 1);
	fill_table();
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	require(!bl_atomics_page_get()); /* the lock of this memory, for atomic operations */
	return 0;
}

static void *zeroed(size_t len)
{
	void *p = aligned_alloc(BL_PAIR, len);

	require(p);
	memset(p, 0, len);
	return p;
}

/* Messages are carried; or (`written`) they aren't, and what was just written goes in turn. */
static void plan(bool written)
{
	struct bl_copy_plan *plan = (struct bl_copy_plan *)(uintptr_t)bl_copy_plan();
	struct bl_limits *limits = (struct bl_limits *)(uintptr_t)bl_limits();
	static struct bl_copy_plan carries;
	static struct bl_limits carried;

	if (!carried.eager_max) {
		carries = *plan;
		carried = *limits;
	}
	*plan = carries;
	*limits = carried;
	if (!written)
		return;
	plan->by_stream = plan->copybuf = plan->exchange_only = true;
	limits->pingpong_max = 8192;
	bl_limits_by_stream(limits, 32768);
	limits->dirty[false] = BL_COPYBUF_MOST;
}

/* An endpoint with one neighbour, as if they had exchanged segments. */
static void begin(pid_t pid, bool written)
{
	struct bl_addr addr;
	uint64_t index;

	plan(written);
	require(!bl_domain_open(&w.domain));
	require(!bl_av_open(w.domain, &w.av));
	require(!bl_cq_open(w.domain, 0, &w.cq));
	require(!bl_ep_open(w.domain, &w.ep));
	require(!bl_ep_bind_av(w.ep, w.av));
	require(!bl_ep_bind_cq(w.ep, w.cq, BL_SEND | BL_RECV));
	require(!bl_addr_make(&addr));
	require(!bl_av_insert(w.av, &addr, &index));
	require(!bl_ep_resolve(w.ep, index, &w.peer));
	w.theirs = zeroed(sizeof *w.theirs);
	w.ours = zeroed(sizeof *w.ours);
	w.header = zeroed(sizeof *w.header);
	w.own = zeroed(sizeof *w.own);
	w.doorbells = zeroed(sizeof *w.doorbells);
	w.ep->local.seg.doorbells = w.doorbells;
	w.ep->local.seg.header = w.own; /* as if it were enabled: receives are shown there */
	w.region = malloc(REGION);
	require(w.region);
	memset(w.region, 0x55, REGION);
	struct iovec all = {w.region, REGION};
	struct bl_mr_attr attr = {&all, 1, BL_MR_READ | BL_MR_WRITE, false, KEY};

	require(!bl_mr_open(w.domain, &attr, &w.mr));
	bl_mr_publish(w.ep);
	w.peer->tx.lane = w.ours;
	w.peer->rx.lane = w.theirs;
	w.peer->rx.slot = w.theirs->slot;
	w.peer->rx.span = 21; /* BL_LANE_MOST */
	w.peer->mapped.header = w.header;
	w.atomics_page = zeroed(sizeof *w.atomics_page);
	w.peer->access.atomics_page = w.atomics_page;
	atomic_store(&w.header->mr.table, (uintptr_t)table);
	atomic_store(&w.header->mr.mask, TABLE_MASK);
	bl_copy_pair_init(&w.peer->copy, pid);
	w.peer->next.arrived = w.ep->local.peers.arrived;
	w.ep->local.peers.arrived = w.peer;
	atomic_store(&w.peer->state, BL_PEER_READY);
	bl_ep_adopt(w.ep);
	require(w.peer->adopted);
	bl_tx_lengthen(&w.peer->tx, BL_PAYLOAD_MOST, BL_COPYBUF_MOST);
	w.peer->tx.turns = BL_PINGPONG_AFTER; /* it offers after one answer */
	w.written = written;
	if (written) {
		w.peer->tx.dirty = BL_DIRTY_AFTER;
		w.peer->tx.dirty_left = BL_DIRTY_MOST;
		atomic_store(&w.header->stays, 1);
	}
	w.buffers = 0;
}

static void finish(void)
{
	atomic_store(&w.header->closed, 1); /* nobody waits for it to read */
	bl_ep_progress(w.ep);
	memset(w.theirs->slot, 0, sizeof w.theirs->slot); /* nothing more: closing polls, too */
	w.peer->mapped.header = NULL; /* not mapped: free_peer() must not unmap it */
	w.peer->access.atomics_page = NULL;
	w.peer->rx.lane = NULL;
	w.peer->adopted = false;
	bl_mr_close(w.mr);
	require(!bl_ep_close(w.ep));
	require(!bl_cq_close(w.cq));
	require(!bl_av_close(w.av));
	require(!bl_domain_close(w.domain));
	free(w.theirs);
	free(w.ours);
	free(w.header);
	free(w.atomics_page);
	free(w.own);
	free(w.doorbells);
	free(w.region);
	for (size_t i = 0; i < w.buffers; i++)
		free(w.buffer[i]);
}

/* Length, operation and flags of 16, 5 and 8 bits, as the corpus has them, whatever a head looks
 * like; 3 more bits of the length between them. The operations from 16 on are those of one-sided
 * operations, and the last few of 5 bits make the length the longest that a head can say. */
static uint32_t any_head(uint32_t x)
{
	uint32_t op = x >> 16 & 0x1f, len = (x & 0xffff) | (x >> 21 & 7) << 16;

	if (op >= 16)
		op += BL_OP_RMA_EVENT - 16;
	if (op > 15) {
		op -= 15;
		len |= 1u << 19;
	}
	return BL_HEAD(len, op, x >> 24);
}

/* --- steps ------------------------------------------------------------------ */

static void packet(struct input *in, uint64_t tag)
{
	struct bl_rx *rx = &w.peer->rx;
	struct bl_slot *slot = &rx->slot[rx->next % BL_SLOTS];

	slot->head = any_head((uint32_t)number(in, 4));
	slot->tag = tag;
	slot->data = number(in, 8);
	take(in, slot->bytes, number(in, 1) % (BL_SLOT_INLINE + 1));
	atomic_store(&slot->seq, rx->next + 1);
}

/* A number that the endpoint has given out, for a packet that refers to it. */
static uint64_t request_number(size_t which)
{
	const struct bl_send_op *r =
		w.ep->rndv.nrequest ? w.ep->rndv.request[which % w.ep->rndv.nrequest] : NULL;

	return r ? (uint64_t)r->generation << 32 | r->index : 0;
}

static uint64_t transfer_number(size_t which)
{
	return w.ep->rndv.ntransfer
		       ? (uint64_t)w.ep->rndv.transfer[which % w.ep->rndv.ntransfer]->generation
				 << 32
		       : 0;
}

/* Its own number of a message that we are receiving. */
static uint64_t theirs(size_t which)
{
	return w.ep->rndv.ntransfer ? w.ep->rndv.transfer[which % w.ep->rndv.ntransfer]->request
				    : 0;
}

static void scribble(struct input *in, void *memory, size_t size)
{
	size_t at = number(in, 2) % size, len = number(in, 1);

	take(in, (uint8_t *)memory + at, bl_min(len, size - at));
}

/* A request for the registered memory, well formed but for what the input says. */
static void ask(struct input *in)
{
	struct bl_slot *slot = &w.peer->rx.slot[w.peer->rx.next % BL_SLOTS];
	struct bl_rma_ask rma = {
		.nplace = (uint8_t)(number(in, 1) % (BL_IOV_MAX + 1)),
		.what = (uint8_t)number(in, 1) % (BL_RMA_WHATS + 1),
		.type = (uint8_t)number(in, 1),
		.op = (uint8_t)number(in, 1),
	};

	for (uint32_t i = 0; i < rma.nplace && i < bl_countof(rma.place); i++) {
		rma.place[i] = (struct bl_rma_place){number(in, 2), number(in, 2),
						     KEY + (number(in, 1) & 0x80)};
		rma.len += rma.place[i].len;
	}
	slot->head = BL_HEAD(offsetof(struct bl_rma_ask, place) + rma.nplace * sizeof rma.place[0],
			     BL_OP_RMA_ASK, number(in, 1) & BL_SLOT_DATA);
	slot->tag = number(in, 1);
	if (rma.what >= BL_RMA_ATOMIC) {
		rma.off = bl_min(number(in, 1) * BL_RMA_PART, rma.len / BL_RMA_PART * BL_RMA_PART);
		rma.len = bl_min(rma.len - rma.off, (uint64_t)BL_RMA_PART);
	}
	if (slot->tag & 0x80) { /* a part that is none */
		rma.off += number(in, 2);
		rma.len = number(in, 8);
	}
	slot->data = 0;
	memcpy(slot->bytes, &rma, sizeof rma);
	atomic_store(&slot->seq, w.peer->rx.next + 1);
}

/* The same for one that we are asked to serve: state, places and operands as it comes. */
static void ask_to_serve(struct input *in)
{
	struct bl_slot *slot = &w.peer->rx.slot[w.peer->rx.next % BL_SLOTS];
	union {
		struct bl_rma_delegated serve;
		uint8_t bytes[BL_SLOT_INLINE];
	} out = {0};
	uint32_t len, nplace = (uint32_t)number(in, 1) % (BL_IOV_MAX + 2);

	atomic_init(&out.serve.ours, number(in, 1) & 1);
	out.serve.what = (uint8_t)number(in, 1) % (BL_RMA_WHATS + 1);
	out.serve.type = (uint8_t)number(in, 1);
	out.serve.op = (uint8_t)number(in, 1) % BL_ATOMIC_OPS;
	out.serve.nplace = (uint8_t)nplace;
	for (uint32_t i = 0; i < nplace && i < bl_countof(out.serve.place); i++)
		out.serve.place[i] = (struct bl_rma_place){number(in, 2), number(in, 1),
							   KEY + (number(in, 1) & 0x80)};
	len = (uint32_t)bl_min(BL_DELEGATED_HEAD(nplace) + (number(in, 1) & 0xff),
			       (size_t)BL_SLOT_INLINE);
	if (len > BL_DELEGATED_HEAD(nplace))
		take(in, out.bytes + BL_DELEGATED_HEAD(nplace), len - BL_DELEGATED_HEAD(nplace));
	slot->head = BL_HEAD(len, BL_OP_RMA_DELEGATED, number(in, 1) & BL_SLOT_DATA);
	slot->tag = number(in, 1);
	slot->data = 0;
	memcpy(slot->bytes, &out, sizeof out);
	atomic_store(&slot->seq, w.peer->rx.next + 1);
}

/* The same for places in runs (runs.h). */
static void ask_for_runs(struct input *in)
{
	enum { MOST = (BL_SLOT_INLINE - BL_RUNS_HEAD(0)) / sizeof(struct bl_rma_run) };
	struct bl_slot *slot = &w.peer->rx.slot[w.peer->rx.next % BL_SLOTS];
	struct bl_rma_runs head = {.what = (uint8_t)(number(in, 1) % (BL_RMA_WRITE + 2))};
	uint32_t how = (uint32_t)number(in, 1), n = how % (MOST + 1), len = BL_RUNS_HEAD(n);
	struct bl_rma_run run[MOST];

	head.nrun = n;
	head.key = KEY + (how & 0x80);
	for (uint32_t i = 0; i < n; i++) {
		run[i] = (struct bl_rma_run){.addr = number(in, 2), .step = (int16_t)number(in, 2)};
		run[i].len = (uint32_t)number(in, 1);
		run[i].n = (uint32_t)number(in, 1);
		if (head.what == BL_RMA_WRITE)
			len += run[i].len * run[i].n;
	}
	if (how & 0x40) { /* a packet that is none */
		len = (uint32_t)number(in, 2);
		head.nrun = (uint32_t)number(in, 4);
		if (n)
			run[n - 1].step = (int64_t)number(in, 8);
	}
	len = bl_min(len, (uint32_t)BL_SLOT_INLINE);
	memcpy(slot->bytes, &head, sizeof head);
	memcpy(slot->bytes + BL_RUNS_HEAD(0), run, n * sizeof run[0]);
	if (len > BL_RUNS_HEAD(n))
		take(in, slot->bytes + BL_RUNS_HEAD(n), len - BL_RUNS_HEAD(n));
	slot->head = BL_HEAD(len, BL_OP_RMA_DELEGATED, number(in, 1) & BL_SLOT_DATA);
	slot->tag = number(in, 1);
	slot->data = 0;
	atomic_store(&slot->seq, w.peer->rx.next + 1);
}

/* What it is to write there, or operands. */
static void ask_bytes(struct input *in)
{
	struct bl_slot *slot = &w.peer->rx.slot[w.peer->rx.next % BL_SLOTS];
	size_t len = number(in, 2) % (BL_SLOT_INLINE + 1);

	slot->head = BL_HEAD(len, BL_OP_RMA_BYTES, 0);
	slot->tag = number(in, 1);
	slot->data = number(in, 2);
	take(in, slot->bytes, len);
	atomic_store(&slot->seq, w.peer->rx.next + 1);
}

/* What the neighbour says of an operation that it does for us. */
static void answer(struct input *in)
{
	struct bl_slot *slot = &w.peer->rx.slot[w.peer->rx.next % BL_SLOTS];
	unsigned how = (unsigned)number(in, 1);
	size_t len = how & 1 ? number(in, 2) % (BL_SLOT_INLINE + 1) : 0;

	slot->head = BL_HEAD(len, how & 1 ? BL_OP_RMA_RESULT : BL_OP_RMA_DONE, 0);
	slot->tag = w.ep->rma.number - (how >> 1 & 3);
	slot->data = number(in, how & 0x10 ? 8 : 1);
	take(in, slot->bytes, len);
	atomic_store(&slot->seq, w.peer->rx.next + 1);
}

/* An operation on the neighbour's memory. */
static void operate(struct input *in)
{
	static const size_t lengths[] = {0, 1, 8, 16, 256, 4096, 70000, LARGE};
	unsigned how = (unsigned)number(in, 1);
	size_t len = lengths[how & 7];
	struct iovec mine = {outgoing, len}, other = {incoming, len}, result = {incoming, len};
	struct bl_rma_place place = {number(in, 2), len, number(in, 1) % 10};
	struct bl_rma rma = {
		.what = (enum bl_rma_what)(number(in, 1) % BL_RMA_WHATS),
		.type = (uint8_t)(number(in, 1) % BL_ATOMIC_TYPES),
		.op = (uint8_t)(number(in, 1) % BL_ATOMIC_OPS),
		.iov = &mine,
		.niov = 1,
		.place = &place,
		.nplace = 1,
		.data = 5,
		.context = &w,
		.flags = BL_COMPLETION | (how & 8 ? BL_REMOTE_CQ_DATA : 0) |
			 (how & 16 ? BL_FENCE : 0),
	};

	if (rma.what == BL_RMA_READ)
		mine.iov_base = incoming;
	if (rma.what >= BL_RMA_ATOMIC && !bl_atomic_fits(rma.what, rma.type, rma.op, len))
		return; /* refused before it comes here */
	if (rma.what >= BL_RMA_FETCH) {
		rma.result = &result;
		rma.nresult = 1;
	}
	if (rma.what == BL_RMA_COMPARE) {
		rma.compare = &other;
		rma.ncompare = 1;
	}
	bl_rma(w.ep, &rma);
}

static void receive(struct input *in)
{
	static const size_t lengths[] = {0, 1, 40, 288, 8192, 30000, 65536, LARGE};
	unsigned how = (unsigned)number(in, 1);
	struct bl_recv recv = {
		.src = BL_ADDR_ANY,
		.tag = number(in, 1),
		.ignore = how & 0x20 ? ~0ull : 0,
		.context = &w,
		.flags = (how & 8 ? BL_TAGGED : BL_MSG) | (how & 0x10 ? BL_COMPLETION : 0),
	};
	struct iovec iov[2];

	if (recv.tag & 0x40)
		recv.src = 0; /* shown to this neighbour alone */
	if (w.buffers + 2 > USER_BUFFERS)
		return;
	if ((how & 0xc0) == 0xc0 && recv.flags & BL_MSG)
		recv.flags |= BL_MULTI_RECV;
	recv.niov = how & 0x40 && !(recv.flags & BL_MULTI_RECV) ? 2 : 1;
	recv.iov = iov;
	for (size_t i = 0; i < recv.niov; i++) {
		size_t len = lengths[(how + i) & 7];

		iov[i] = (struct iovec){malloc(len ? len : 1), len};
		w.buffer[w.buffers++] = iov[i].iov_base;
	}
	bl_recv(w.ep, &recv);
}

static void look(struct input *in)
{
	unsigned how = (unsigned)number(in, 1);
	struct bl_recv recv = {
		.src = how & 1 ? 0 : BL_ADDR_ANY,
		.tag = number(in, 1),
		.ignore = how & 2 ? ~0ull : 0,
		.context = &recv,
		.flags = (how & 4 ? BL_TAGGED : BL_MSG) | BL_PEEK | BL_COMPLETION |
			 (how & 8    ? BL_CLAIM
			  : how & 16 ? BL_DISCARD
				     : 0),
	};

	bl_recv(w.ep, &recv);
	if (how & 8) {
		recv.flags = (how & 4 ? BL_TAGGED : BL_MSG) | BL_CLAIM | BL_DISCARD;
		bl_recv(w.ep, &recv);
	}
}

static void send(struct input *in)
{
	static const size_t lengths[] = {0, 8, 289, 4096, 20000, 65536, 100000, LARGE};
	unsigned how = (unsigned)number(in, 1);
	size_t len = w.written && (how & 7) == 3 ? LONGEST : lengths[how & 7];
	struct iovec iov[2] = {{outgoing, len}, {outgoing, 100}};
	struct bl_send send = {iov,
			       how & 8 ? 2 : 1,
			       0,
			       1,
			       2,
			       NULL,
			       (how & 16 ? BL_TAGGED : BL_MSG) | BL_COMPLETION |
				       (how & 32 ? BL_DELIVERY_COMPLETE : 0),
			       NULL};

	if (iov[0].iov_len == LARGE)
		send.niov = 1;
	if (w.written) { /* both are at it */
		w.ep->ways.habit.leaves = 0;
		atomic_store(&w.header->here, bl_ticks());
	}
	bl_send(w.ep, &send);
}

static void progress(void)
{
	struct bl_comp comp[4];
	struct bl_comp_err err;

	for (int i = 0; i < 4; i++)
		if (bl_cq_read(w.cq, comp, 4, sizeof comp[0], NULL) == -BL_EAVAIL)
			bl_cq_readerr(w.cq, &err);
}

static void step(struct input *in)
{
	uint8_t what = (uint8_t)number(in, 1);

	if (what >= 240) { /* the others keep their numbers, for the corpus */
		if (what == 255)
			scribble(in, w.header, sizeof *w.header);
		else if (what == 254)
			scribble(in, w.atomics_page, sizeof *w.atomics_page);
		else if (what == 253)
			answer(in);
		else if (what == 252)
			packet(in, theirs(number(in, 1)));
		else if (what >= 250)
			operate(in);
		else if (what == 249)
			ask_to_serve(in);
		else if (what == 248)
			ask_for_runs(in);
		else if (what % 3 == 0)
			ask(in);
		else if (what % 3 == 1)
			ask_bytes(in);
		else
			scribble(in, w.doorbells, sizeof *w.doorbells);
		progress();
		return;
	}
	switch (what % 12) {
	case 0:
	case 1:
		packet(in, number(in, 8));
		break;
	case 2:
	case 3:
		packet(in, request_number(what / 12));
		break;
	case 4:
		packet(in, transfer_number(what / 12));
		break;
	case 5:
		receive(in);
		break;
	case 6:
		send(in);
		break;
	case 7:
		scribble(in, w.theirs, sizeof *w.theirs);
		break;
	case 8:
		scribble(in, w.ours, sizeof *w.ours);
		break;
	case 9:
		atomic_store(&w.ours->consumed, (uint32_t)number(in, 4));
		break;
	case 10:
		bl_cancel(w.ep, &w);
		break;
	case 11:
		look(in);
		break;
	}
	progress();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};

	uint64_t first = number(&in, 1);

	begin(first & 1 ? child : 0, first & 2);
	while (in.at < in.end)
		step(&in);
	finish();
	return 0;
}
