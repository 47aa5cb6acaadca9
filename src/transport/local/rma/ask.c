/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * ask.c: one-sided operations that their target does, asked by message; see endpoint/rma.h. The
 * origin's side; target.c is the target's. Serialised by the domain.
 */
#include <stdlib.h>
#include <string.h>

#include "core/retry.h"
#include "core/stat.h"
#include "transport/local/lane/ctrl.h"
#include "transport/local/rma/rma.h"

/* One that the target does for us. */
struct bl_rma_op {
	struct bl_rma_op *next;
	uint64_t number;
	struct bl_rma rma;    /* with copies of what it points to, */
	struct iovec kept[2]; /* and of what is injected */
	/* Places that are asked for with one packet: the next BL_IOV_MAX, or what is left. */
	struct bl_rma_ask ask;
	size_t base;   /* bytes of those before them, */
	size_t window; /* and of theirs */
	uint32_t at;   /* rma.place[at] is the first that is asked for now, */
	uint32_t from; /* and place[from] the first that was at all */
	size_t len;
	/* of the part that is asked for: ask.off, ask.len */
	size_t in_len, out_len, sent, got;
	bool asked;
};

/* From `off` on in the places that are asked for: the rest, or as much of an atomic operation as
 * its target has memory for. */
static void begin_part(struct bl_rma_op *op, size_t off)
{
	bool splits = op->ask.what >= BL_RMA_ATOMIC;

	op->ask.off = off;
	op->ask.len = splits ? bl_min(op->window - off, (size_t)BL_RMA_PART) : op->window;
	op->in_len = bl_rma_goes(op->ask.what, op->ask.op, op->ask.len);
	op->out_len = bl_rma_comes(op->ask.what, op->ask.len);
	op->sent = op->got = 0;
	op->asked = false;
}

/* Places from `at` on. */
static void begin_places(struct bl_rma_op *op, uint32_t at)
{
	const struct bl_rma_place *place = op->rma.place;
	uint32_t n = (uint32_t)bl_min(op->rma.nplace - at, BL_IOV_MAX);

	op->base += op->window;
	op->window = 0;
	op->at = at;
	op->ask.nplace = (uint8_t)n;
	op->ask.more = at + n < op->rma.nplace;
	op->ask.first = 0;
	op->ask.before = op->base;
	for (uint32_t i = 0; i < n; i++) {
		op->ask.place[i] = place[at + i];
		op->window += place[at + i].len;
		if (bl_rma_first_of(place + op->from, at + i - op->from))
			op->ask.first |= (uint8_t)(1u << i);
	}
	begin_part(op, 0);
}

/* From byte `off` on: the places before it are done, and aren't asked for. */
static void begin_at(struct bl_rma_op *op, size_t off)
{
	size_t base = 0, next = 0;

	for (uint32_t i = 0; i < op->rma.nplace && off; i++) {
		next += op->rma.place[i].len;
		if ((i + 1) % BL_IOV_MAX || next > off || i + 1 == op->rma.nplace)
			continue;
		op->from = i + 1;
		base = next;
	}
	op->base = base;
	begin_places(op, op->from);
	if (unlikely(off > base))
		begin_part(op, off - base);
}

/* The part is done; false: it was the last one. */
static bool begin_next(struct bl_rma_op *op)
{
	if (op->ask.off + op->ask.len < op->window)
		begin_part(op, op->ask.off + op->ask.len);
	else if (op->ask.more)
		begin_places(op, op->at + op->ask.nplace);
	else
		return false;
	return true;
}

static struct bl_rma_op *make_op(const struct bl_rma *rma, size_t len, size_t off)
{
	size_t room = bl_rma_pieces_size(rma);
	size_t copied = rma->flags & BL_INJECT ? bl_rma_goes(rma->what, rma->op, len) : 0;
	struct bl_rma_op *op = calloc(1, sizeof *op + room + copied);

	if (!op)
		return NULL;
	op->rma = bl_rma_with_pieces(rma, op + 1);
	bl_rma_keep_bytes(&op->rma, len, op->kept, (char *)(op + 1) + room);
	op->len = len;
	op->ask.what = (uint8_t)rma->what;
	op->ask.type = rma->type;
	op->ask.op = rma->op;
	begin_at(op, off);
	return op;
}

/* And why the target does it. why: -EFAULT, or another that can be seen. */
static bl_cold void count_asked(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma,
				size_t len, int why)
{
	const struct bl_copy_pair *pair = &rp->peer->copy;

	bl_stat_add(ep, BL_STAT_rma_by_proxy, 1);
	bl_stat_add(ep, BL_STAT_rma_by_proxy_bytes, len);
	if (why == -EFAULT)
		bl_stats_fault(rp->peer);
	else if (pair->pull == BL_COPY_NOTHING || pair->push == BL_COPY_NOTHING)
		bl_stats_fallback(rp->peer, pair->pull != BL_COPY_NOTHING);
	else if (rp->head)
		bl_stat_add(ep, BL_STAT_fallback_behind, 1);
	else if (rma->what >= BL_RMA_ATOMIC && !rp->peer->access.atomics_page)
		bl_stat_add(ep, BL_STAT_fallback_lock, 1);
	else if (rma->nplace > 1)
		bl_stat_add(ep, BL_STAT_fallback_regions, 1);
	else
		bl_stats_fallback(rp->peer, rma->what == BL_RMA_WRITE);
}

int bl_rma_ask(struct bl_ep *ep, struct bl_rma_peer *rp, const struct bl_rma *rma, size_t len,
	       size_t off, int why)
{
	struct bl_rma_op *op = make_op(rma, len, off);

	if (!op)
		return bl_no_memory(ep);
	count_asked(ep, rp, rma, len, why);
	op->number = ++ep->rma.number;
	*rp->tail = op;
	rp->tail = &op->next;
	if (rp->head == op && bl_rma_pump(ep, rp))
		bl_rma_activate(ep, rp);
	return 0;
}

uint8_t *bl_rma_packet_room(struct bl_peer *peer, size_t len)
{
	struct bl_tx *tx = &peer->tx;

	if (!bl_tx_room(tx) && !bl_tx_refresh(tx))
		return NULL;
	return len > BL_SLOT_INLINE ? bl_tx_payload(tx, (uint32_t)len) : bl_tx_slot(tx)->bytes;
}

void bl_rma_packet_send(struct bl_peer *peer, const uint8_t *bytes, uint32_t head, uint64_t tag,
			uint64_t data)
{
	struct bl_tx *tx = &peer->tx;
	struct bl_slot *slot = bl_tx_slot(tx);
	uint32_t len = BL_HEAD_LEN(head);

	if (len > BL_SLOT_INLINE) {
		slot->at = (uint32_t)(bytes - tx->lane->payload);
		bl_tx_payload_take(tx, len);
	}
	slot->head = head;
	slot->tag = tag;
	slot->data = data;
	bl_tx_publish(tx, slot, len);
	bl_stats_packet_out(peer, len);
	bl_peer_notify(peer);
}

bool bl_rma_put_bytes(struct bl_peer *peer, uint32_t op, uint64_t number, uint64_t at,
		      const struct iovec *iov, size_t niov, size_t off, size_t len)
{
	uint8_t *to = bl_rma_packet_room(peer, len);

	if (!to)
		return false;
	bl_iov_gather(to, iov, niov, off, len);
	bl_rma_packet_send(peer, to, BL_HEAD(len, op, 0), number, at);
	return true;
}

/* The next bytes of the part: its operands, then what they are compared with, whose pieces
 * follow theirs. */
static bool put_part(struct bl_peer *peer, struct bl_rma_op *op)
{
	size_t between = op->len - op->ask.len;
	bool compared = op->sent >= op->ask.len;
	size_t left = (compared || !between ? op->in_len : op->ask.len) - op->sent;
	size_t at = op->base + op->ask.off + op->sent + (compared ? between : 0);
	size_t len = bl_min(left, (size_t)BL_RMA_FRAGMENT);

	if (!bl_rma_put_bytes(peer, BL_OP_RMA_BYTES, op->number, op->sent, op->rma.iov,
			      op->rma.niov + op->rma.ncompare, at, len))
		return false;
	op->sent += len;
	return true;
}

bool bl_rma_pump(struct bl_ep *ep, struct bl_rma_peer *rp)
{
	struct bl_rma_op *op = rp->head;
	struct bl_peer *peer = rp->peer;

	if (!op)
		return false;
	if (!op->asked) {
		if (!bl_tx_room(&peer->tx) && !bl_tx_refresh(&peer->tx))
			return true;
		bl_put_packet(peer, BL_OP_RMA_ASK,
			      op->rma.flags & BL_REMOTE_CQ_DATA ? BL_SLOT_DATA : 0, op->number,
			      op->rma.data, &op->ask,
			      offsetof(struct bl_rma_ask, place) +
				      op->ask.nplace * sizeof op->ask.place[0]);
		op->asked = true;
	}
	while (op->sent < op->in_len)
		if (!put_part(peer, op))
			return true;
	return false;
}

static struct bl_rma_op *pop(struct bl_rma_peer *rp)
{
	struct bl_rma_op *op = rp->head;

	rp->head = op->next;
	if (!rp->head)
		rp->tail = &rp->head;
	return op;
}

/* The operation that a target speaks of; NULL: nonsense. */
static struct bl_rma_op *asked(const struct bl_rma_peer *rp, uint64_t number)
{
	return rp && rp->head && rp->head->asked && rp->head->number == number ? rp->head : NULL;
}

void bl_rma_on_result(struct bl_rma_peer *rp, uint64_t number, uint64_t off, const void *bytes,
		      uint32_t len)
{
	struct bl_rma_op *op = asked(rp, number);
	size_t at;

	if (!op || off != op->got || len > op->out_len - op->got)
		return;
	at = op->base + op->ask.off + off;
	if (op->rma.what == BL_RMA_READ)
		bl_iov_scatter(op->rma.iov, op->rma.niov, at, bytes, len);
	else
		bl_iov_scatter(op->rma.result, op->rma.nresult, at, bytes, len);
	op->got += len;
}

void bl_rma_on_done(struct bl_ep *ep, struct bl_sink *sink, struct bl_rma_peer *rp, uint64_t number,
		    uint64_t error)
{
	struct bl_rma_op *op = asked(rp, number);
	int err = error < 4096 ? (int)error : EIO;

	if (!op || op->sent < op->in_len)
		return;
	if (!err && op->got < op->out_len)
		err = EIO;
	if (err || !begin_next(op)) {
		pop(rp);
		if (unlikely(err))
			bl_rma_tell_error(rp->peer, op->ask.what, op->len, BL_RMA_BY_TARGET, err);
		bl_rma_complete(ep, sink, &op->rma, op->len, err);
		free(op);
	}
	if (bl_rma_pump(ep, rp))
		bl_rma_activate(ep, rp);
}

bl_cold void bl_rma_ask_abandon(struct bl_ep *ep, struct bl_sink *sink, struct bl_rma_peer *rp,
				int err)
{
	while (rp->head) {
		struct bl_rma_op *op = pop(rp);

		bl_rma_complete(ep, sink, &op->rma, op->len, err);
		free(op);
	}
}

void bl_rma_ask_drop(struct bl_rma_peer *rp)
{
	while (rp->head)
		free(pop(rp));
}
