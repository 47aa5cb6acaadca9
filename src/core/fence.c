/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fence.c: see fence.h. Serialised by the domain.
 */
#include "core/again.h"
#include "core/fence.h"

#include <stdlib.h>
#include <string.h>

#include "core/large.h"
#include "core/shared.h"
#include "core/work.h"

/* What waits for one peer, and the bytes that its owner has back already. */
struct fenced {
	struct fenced *next;
	struct bl_work work;
	char copy[];
};

struct bl_fence {
	struct bl_peer *peer;
	struct fenced *head, **tail;
	uint32_t n;
	struct bl_fence *next;
};

/* --- queueing ------------------------------------------------------------------- */

static struct bl_fence *fence_of(struct bl_ep *ep, struct bl_peer *peer)
{
	struct bl_fence *fence = peer->fence;

	if (fence)
		return fence;
	fence = calloc(1, sizeof *fence);
	if (!fence)
		return NULL;
	fence->peer = peer;
	fence->tail = &fence->head;
	fence->next = ep->fences;
	ep->fences = fence;
	ep->nfence++;
	ep->work++;
	peer->fence = fence;
	bl_ep_unname(ep, peer);
	return fence;
}

/* Keep the bytes: where they were is free again. */
static char *keep(char *to, const struct iovec *own, size_t *niov)
{
	struct iovec *iov = (struct iovec *)(uintptr_t)own; /* the record's; bl_work_own() */
	size_t len = bl_iov_len(iov, *niov);

	bl_iov_gather(to, iov, *niov, 0, len);
	iov[0] = (struct iovec){to, len};
	*niov = 1;
	return to + len;
}

static void keep_injected(struct fenced *f)
{
	struct bl_work *w = &f->work;

	if (w->what != BL_WORK_RMA)
		keep(f->copy, w->iov[0], &w->send.niov);
	else if (w->rma.ncompare)
		keep(keep(f->copy, w->rma.iov, &w->rma.niov), w->rma.compare, &w->rma.ncompare);
	else
		keep(f->copy, w->rma.iov, &w->rma.niov);
}

/* copied: so many bytes are to be kept. */
static int queue(struct bl_ep *ep, const struct bl_work *work, uint64_t dest, size_t copied)
{
	struct bl_fence *fence;
	struct bl_peer *peer;
	struct fenced *f;
	int err = bl_ep_resolve(ep, dest, &peer);

	if (err)
		return err;
	if (peer->fence && peer->fence->n == BL_FENCE_MOST)
		return bl_refused(ep);
	f = malloc(sizeof *f + copied);
	if (!f)
		return bl_no_memory(ep);
	f->next = NULL;
	f->work = *work;
	f->work.ep = ep;
	if (!bl_work_own(&f->work)) {
		err = -EINVAL;
		goto undo;
	}
	fence = fence_of(ep, peer);
	if (!fence) {
		err = bl_no_memory(ep);
		goto undo;
	}
	if (copied)
		keep_injected(f);
	*fence->tail = f;
	fence->tail = &f->next;
	fence->n++;
	return 0;

undo:
	bl_work_disown(&f->work);
	free(f);
	return err;
}

bl_cold int bl_fence_send(struct bl_ep *ep, const struct bl_send *send, int err)
{
	/* Deferred: another, which has begun with this, hears of its end. */
	const struct bl_work work = {
		.what = BL_WORK_SEND, .deferred = send->work != NULL, .send = *send};
	size_t len;

	if (err != BL_FENCED)
		return err;
	if (send->niov > BL_IOV_MAX)
		return -EINVAL;
	len = send->flags & BL_INJECT ? bl_iov_len(send->iov, send->niov) : 0;
	return len > ep->inject_max ? -EMSGSIZE : queue(ep, &work, send->dest, len);
}

bl_cold int bl_fence_rma(struct bl_ep *ep, const struct bl_rma *rma, int err)
{
	const struct bl_work work = {
		.what = BL_WORK_RMA, .deferred = rma->work != NULL, .rma = *rma};
	bool inject = rma->flags & BL_INJECT && rma->what != BL_RMA_READ;

	if (err != BL_FENCED)
		return err;
	return queue(ep, &work, rma->dest,
		     inject ? bl_iov_len(rma->iov, rma->niov) +
				      bl_iov_len(rma->compare, rma->ncompare)
			    : 0);
}

bl_cold int bl_fence_inject(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest,
			    uint64_t tag, uint64_t data, uint64_t flags)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	const struct bl_work work = {.what = BL_WORK_INJECT,
				     .send = {&iov, 1, dest, tag, data, NULL, flags, NULL}};

	return queue(ep, &work, dest, len);
}

bl_cold int bl_fence_buf(struct bl_ep *ep, const void *buf, size_t len, uint64_t dest, uint64_t tag,
			 uint64_t data, void *context, uint64_t flags)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	const struct bl_send send = {&iov, 1, dest, tag, data, context, flags, NULL};

	return bl_fence_send(ep, &send, BL_FENCED);
}

/* --- beginning ------------------------------------------------------------------- */

static bool waits(const struct bl_ep *ep, const struct bl_fence *fence)
{
	const struct bl_work *w = &fence->head->work;
	uint64_t flags = w->what == BL_WORK_RMA ? w->rma.flags : w->send.flags;

	return flags & BL_FENCE && bl_rma_pending(ep, fence->peer);
}

static void unlink_fenced(struct bl_fence *fence, struct fenced **at)
{
	struct fenced *f = *at;

	*at = f->next;
	if (!f->next)
		fence->tail = at;
	fence->n--;
	bl_work_disown(&f->work);
	free(f);
	bl_ep_unrefused(bl_ep_of(fence->peer));
}

static void pop(struct bl_fence *fence)
{
	unlink_fenced(fence, &fence->head);
}

/* It is no more, and has said why. */
static void fail(const struct bl_work *w, int err)
{
	struct bl_work *told = w->what == BL_WORK_RMA	 ? w->rma.work
			       : w->what == BL_WORK_SEND ? w->send.work
							 : NULL;

	bl_work_fail(w, err, true);
	if (told)
		bl_work_over(told, err);
}

/* True: nothing is left. */
static bool open_fence(struct bl_ep *ep, struct bl_fence *fence)
{
	while (fence->head && !waits(ep, fence)) {
		struct bl_work *w = &fence->head->work;
		int err;

		ep->opening = fence->peer;
		err = bl_work_perform(w);
		ep->opening = NULL;
		if (err == -EAGAIN)
			return false;
		if (err)
			fail(w, -err);
		pop(fence);
	}
	return !fence->head;
}

static void remove_fence(struct bl_ep *ep, struct bl_fence **at)
{
	struct bl_fence *fence = *at;

	*at = fence->next;
	fence->peer->fence = NULL;
	ep->nfence--;
	ep->work--;
	free(fence);
}

bl_cold void bl_fence_progress(struct bl_ep *ep)
{
	struct bl_fence **at = &ep->fences;

	while (*at)
		if (open_fence(ep, *at))
			remove_fence(ep, at);
		else
			at = &(*at)->next;
}

bool bl_fence_may_open(const struct bl_ep *ep)
{
	for (const struct bl_fence *fence = ep->fences; fence; fence = fence->next)
		if (!fence->head || !waits(ep, fence))
			return true;
	return false;
}

/* Deferred work is cancelled by its name, an inject not at all. */
static bool is_meant(const struct bl_work *w, const void *context)
{
	return !w->deferred && w->what != BL_WORK_INJECT && bl_work_context(w) == context;
}

bool bl_fence_cancel(struct bl_ep *ep, const void *context)
{
	for (struct bl_fence *fence = ep->fences; context && fence; fence = fence->next)
		for (struct fenced **at = &fence->head; *at; at = &(*at)->next) {
			if (!is_meant(&(*at)->work, context))
				continue;
			bl_work_fail(&(*at)->work, ECANCELED, false);
			unlink_fenced(fence, at); /* what is behind it begins with progress */
			return true;
		}
	return false;
}

void bl_fence_drop(struct bl_ep *ep)
{
	while (ep->fences) {
		while (ep->fences->head)
			pop(ep->fences);
		remove_fence(ep, &ep->fences);
	}
}
