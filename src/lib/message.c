/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * message.c: sends, receives, their completion, and probes. See lib.h for who
 * owns what and beeline.h for who may enter.
 *
 *   isend ─► the core ─► done at once (it was copied), or by a completion
 *   irecv ─► the core ─► by a completion
 *   wait, test ─► progress() ─► completions: request DONE ─► finish(): pool
 */
#include <errno.h>
#include <sched.h>

#include "lib/lib.h"

#define BATCH 8 /* completions taken at once */

/* A wait polls so often (tens of microseconds) before it lets others have the
 * processor after each poll. */
#define POLLS_BEFORE_YIELD 64

/* --- requests ----------------------------------------------------------------- */

bl_always_inline struct beeline_request *request_new(struct beeline_endpoint *ep)
{
	struct beeline_request *req = ep->pool;

	if (unlikely(!req)) {
		if (!bl_lib_more_requests(ep))
			return NULL;
		req = ep->pool;
	}
	ep->pool = req->next;
	req->error = 0;
	return req;
}

bl_always_inline void request_free(struct beeline_request *req)
{
	req->state = BL_SEND_OP_FREE;
	req->next = req->ep->pool;
	req->ep->pool = req;
}

static void fill_status(const struct beeline_request *req, struct beeline_status *status)
{
	status->source = req->peer;
	status->error = req->error;
	status->tag = (uint32_t)req->tag;
	status->context = (uint32_t)(req->tag >> 32);
	status->length = req->length;
	status->sent = req->sent;
}

static const struct beeline_status nothing = {.source = BEELINE_UNKNOWN_SOURCE};

/* Give the result of a request that is done, and the request back. */
bl_always_inline int finish(struct beeline_request **request, struct beeline_status *status)
{
	struct beeline_request *req = *request;
	int err = req->error;

	if (status)
		fill_status(req, status);
	request_free(req);
	*request = NULL;
	return err;
}

/* --- progress ----------------------------------------------------------------- */

static int peer_number(uint64_t source)
{
	return source == BL_ADDR_ANY ? BEELINE_UNKNOWN_SOURCE : (int)source;
}

static bl_cold void take_error(struct beeline_endpoint *ep)
{
	struct beeline_request *req;
	struct bl_comp_err err;

	if (bl_cq_readerr(ep->cq, &err) != 1)
		return;
	req = err.comp.context;
	req->error = err.err == BL_ETRUNC ? -EMSGSIZE : -err.err;
	if (req->state == BL_SEND_OP_POSTED) {
		req->tag = err.comp.tag;
		req->peer = peer_number(err.src);
		req->length = err.comp.len;
		req->sent = err.comp.len + err.olen;
	} else {
		req->length = 0;
	}
	req->state = BL_SEND_OP_DONE;
}

/* 0, or why the message can't be sent. */
bl_always_inline int start_send(struct beeline_request *req, size_t length, uint64_t tag)
{
	struct bl_ep *core = req->ep->core;
	uint64_t dest = (uint64_t)req->peer;
	int err;

	if (unlikely(req->synchronous)) {
		struct iovec iov = {(void *)(uintptr_t)req->buf, length};
		struct bl_send send = {
			.iov = &iov,
			.niov = 1,
			.dest = dest,
			.tag = tag,
			.context = req,
			.flags = BL_TAGGED | BL_COMPLETION | BL_DELIVERY_COMPLETE,
		};

		req->state = BL_SEND_OP_SENDING;
		return bl_send(core, &send);
	}
	if (length <= core->limit.eager_max) {
		err = bl_put_flags(core, dest, req->buf, length, tag, 0, BL_TAGGED);
		req->state = BL_SEND_OP_DONE;
		if (likely(err != BL_QUEUE))
			return err;
		req->state = BL_SEND_OP_SENDING;
		return bl_txq_buf(core, req->buf, length, dest, tag, 0, req,
				  BL_TAGGED | BL_COMPLETION);
	}
	req->state = BL_SEND_OP_SENDING;
	return bl_send_buf(core, req->buf, length, dest, tag, 0, req, BL_TAGGED | BL_COMPLETION);
}

bl_always_inline void progress(struct beeline_endpoint *ep)
{
	struct bl_comp comp[BATCH];
	uint64_t source[BATCH];
	ssize_t n = bl_cq_read(ep->cq, comp, BATCH, sizeof comp[0], source);

	for (ssize_t i = 0; i < n; i++) {
		struct beeline_request *req = comp[i].context;

		if (likely(req->state == BL_SEND_OP_POSTED)) {
			req->tag = comp[i].tag;
			req->peer = peer_number(source[i]);
			req->length = req->sent = comp[i].len;
		}
		req->state = BL_SEND_OP_DONE;
	}
	if (unlikely(n == -BL_EAVAIL))
		take_error(ep);
}

/* Before each poll of a wait but the first: let in whoever else wants the
 * processor, or the endpoint, whose lock would never seem free to others. */
static void pause_outside(unsigned polls)
{
	if (polls >= POLLS_BEFORE_YIELD)
		sched_yield();
	else if (polls)
		bl_cpu_relax();
}

static void pause_inside(struct beeline_endpoint *ep, unsigned polls)
{
	if (likely(polls < POLLS_BEFORE_YIELD && !ep->safe))
		return;
	bl_lib_leave(ep);
	pause_outside(polls);
	bl_lib_enter(ep);
}

static void wait_inside(const struct beeline_request *req)
{
	struct beeline_endpoint *ep = req->ep;

	for (unsigned polls = 0; req->state != BL_SEND_OP_DONE; polls++) {
		if (polls)
			pause_inside(ep, polls);
		if (likely(req->state != BL_SEND_OP_DONE)) /* nobody else did it meanwhile */
			progress(ep);
	}
}

int beeline_progress(struct beeline_endpoint *ep)
{
	bl_lib_enter(ep);
	progress(ep);
	bl_lib_leave(ep);
	return 0;
}

/* --- sending ------------------------------------------------------------------ */

static bool no_such_peer(const struct beeline_endpoint *ep, int peer)
{
	return (unsigned)peer >= (unsigned)ep->npeer;
}

bl_always_inline int send_inside(struct beeline_endpoint *ep, const void *buf, size_t length,
				 int peer, uint32_t tag, uint32_t context, bool synchronous,
				 struct beeline_request **request)
{
	struct beeline_request *req;
	int err;

	if (unlikely(no_such_peer(ep, peer)))
		return -EINVAL;
	req = request_new(ep);
	if (unlikely(!req))
		return -ENOMEM;
	req->buf = buf;
	req->length = req->sent = length;
	req->tag = (uint64_t)context << 32 | tag;
	req->peer = peer;
	req->synchronous = synchronous;
	err = start_send(req, length, req->tag);
	if (unlikely(err)) {
		request_free(req);
		return err == -EAGAIN ? -ENOMEM : err; /* nothing but memory can be short */
	}
	*request = req;
	return 0;
}

int beeline_isend(struct beeline_endpoint *ep, const void *buf, size_t length, int peer,
		  uint32_t tag, uint32_t context, struct beeline_request **request)
{
	bl_lib_enter(ep);
	int err = send_inside(ep, buf, length, peer, tag, context, false, request);
	bl_lib_leave(ep);
	return err;
}

int beeline_issend(struct beeline_endpoint *ep, const void *buf, size_t length, int peer,
		   uint32_t tag, uint32_t context, struct beeline_request **request)
{
	bl_lib_enter(ep);
	int err = send_inside(ep, buf, length, peer, tag, context, true, request);
	bl_lib_leave(ep);
	return err;
}

int beeline_send(struct beeline_endpoint *ep, const void *buf, size_t length, int peer,
		 uint32_t tag, uint32_t context)
{
	struct beeline_request *req;

	bl_lib_enter(ep);
	int err = send_inside(ep, buf, length, peer, tag, context, false, &req);
	if (likely(!err)) {
		wait_inside(req);
		err = finish(&req, NULL);
	}
	bl_lib_leave(ep);
	return err;
}

/* --- receiving ---------------------------------------------------------------- */

bl_always_inline bool no_such_source(const struct beeline_endpoint *ep, int source)
{
	return source != BEELINE_ANY_SOURCE && no_such_peer(ep, source);
}

/* (uint64_t)-1 is the core's word for any source, too. */
static_assert((uint64_t)BEELINE_ANY_SOURCE == BL_ADDR_ANY, "passed on as it is");

bl_always_inline uint64_t match_tag(struct beeline_match match)
{
	return (uint64_t)match.context << 32 | match.tag;
}

bl_always_inline uint64_t match_ignore(struct beeline_match match)
{
	return (uint32_t)~match.tag_mask;
}

bl_always_inline int recv_inside(struct beeline_endpoint *ep, void *buf, size_t length,
				 struct beeline_match match, struct beeline_request **request)
{
	struct beeline_request *req;
	int err;

	if (unlikely(no_such_source(ep, match.source)))
		return -EINVAL;
	req = request_new(ep);
	if (unlikely(!req))
		return -ENOMEM;
	req->state = BL_SEND_OP_POSTED;
	err = bl_recv_buf(ep->core, buf, length, (uint64_t)match.source, match_tag(match),
			  match_ignore(match), req, BL_TAGGED | BL_COMPLETION);
	if (unlikely(err)) {
		request_free(req);
		return err == -EAGAIN ? -ENOMEM : err; /* nothing but memory can be short */
	}
	*request = req;
	return 0;
}

int beeline_irecv(struct beeline_endpoint *ep, void *buf, size_t length, struct beeline_match match,
		  struct beeline_request **request)
{
	bl_lib_enter(ep);
	int err = recv_inside(ep, buf, length, match, request);
	bl_lib_leave(ep);
	return err;
}

int beeline_recv(struct beeline_endpoint *ep, void *buf, size_t length, struct beeline_match match,
		 struct beeline_status *status)
{
	struct beeline_request *req;

	bl_lib_enter(ep);
	int err = recv_inside(ep, buf, length, match, &req);
	if (likely(!err)) {
		wait_inside(req);
		err = finish(&req, status);
	}
	bl_lib_leave(ep);
	return err;
}

/* --- completion --------------------------------------------------------------- */

int beeline_wait(struct beeline_request **request, struct beeline_status *status)
{
	struct beeline_request *req = *request;

	if (unlikely(!req)) {
		if (status)
			*status = nothing;
		return 0;
	}

	struct beeline_endpoint *ep = req->ep;

	bl_lib_enter(ep);
	wait_inside(req);
	int err = finish(request, status);
	bl_lib_leave(ep);
	return err;
}

/* Progress unless it is done; 1, 0 or its error, as beeline_test(). */
static int test_inside(struct beeline_request **request, struct beeline_status *status)
{
	int err;

	if ((*request)->state != BL_SEND_OP_DONE)
		progress((*request)->ep);
	if ((*request)->state != BL_SEND_OP_DONE)
		return 0;
	err = finish(request, status);
	return err ? err : 1;
}

int beeline_test(struct beeline_request **request, struct beeline_status *status)
{
	if (unlikely(!*request)) {
		if (status)
			*status = nothing;
		return 1;
	}

	struct beeline_endpoint *ep = (*request)->ep;

	bl_lib_enter(ep);
	int ret = test_inside(request, status);
	bl_lib_leave(ep);
	return ret;
}

/*
 * A pass over requests, of one endpoint or of several: completes those that are
 * done, with one round of progress for each run of the same endpoint. Returns
 * the first that is still under way (count: none is).
 */
static size_t pass(size_t first, size_t count, struct beeline_request **requests,
		   struct beeline_status *statuses, int *errors, size_t *error_at)
{
	struct beeline_endpoint *inside = NULL;
	size_t pending = count;

	for (size_t i = first; i < count; i++) {
		struct beeline_request *req = requests[i];
		int err;

		if (!req)
			continue;
		if (req->ep != inside) {
			if (inside)
				bl_lib_leave(inside);
			inside = req->ep;
			bl_lib_enter(inside);
			if (req->state != BL_SEND_OP_DONE)
				progress(inside);
		}
		if (req->state != BL_SEND_OP_DONE) {
			if (pending == count)
				pending = i;
			continue;
		}
		err = finish(&requests[i], statuses ? &statuses[i] : NULL);
		if (err && i <= *error_at) {
			*errors = err;
			*error_at = i;
		}
	}
	if (inside)
		bl_lib_leave(inside);
	return pending;
}

int beeline_waitall(size_t count, struct beeline_request **requests,
		    struct beeline_status *statuses)
{
	size_t first = 0, error_at = count;
	int err = 0;

	for (size_t i = 0; statuses && i < count; i++)
		if (!requests[i])
			statuses[i] = nothing;
	for (unsigned polls = 0; first < count; polls++) {
		pause_outside(polls);
		first = pass(first, count, requests, statuses, &err, &error_at);
	}
	return err;
}

int beeline_testany(size_t count, struct beeline_request **requests, size_t *index,
		    struct beeline_status *status)
{
	struct beeline_endpoint *moved = NULL;
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		struct beeline_endpoint *ep;
		int ret = 0;

		if (!requests[i])
			continue;
		any = true;
		ep = requests[i]->ep;
		bl_lib_enter(ep);
		if (requests[i]->state == BL_SEND_OP_DONE || ep != moved)
			ret = test_inside(&requests[i], status);
		bl_lib_leave(ep);
		moved = ep;
		if (ret) {
			*index = i;
			return ret;
		}
	}
	if (any)
		return 0;
	*index = count;
	if (status)
		*status = nothing;
	return 1;
}

int beeline_waitany(size_t count, struct beeline_request **requests, size_t *index,
		    struct beeline_status *status)
{
	for (unsigned polls = 0;; polls++) {
		pause_outside(polls);
		int ret = beeline_testany(count, requests, index, status);

		if (ret)
			return ret < 0 ? ret : 0;
	}
}

/* --- cancelling --------------------------------------------------------------- */

static int cancel_inside(struct beeline_request *req)
{
	switch (req->state) {
	case BL_SEND_OP_SENDING:
	case BL_SEND_OP_POSTED: /* its completion says so */
		return bl_cancel(req->ep->core, req) ? -EALREADY : 0;
	default:
		return -EALREADY;
	}
}

int beeline_cancel(struct beeline_request *req)
{
	if (!req)
		return -EALREADY;
	bl_lib_enter(req->ep);
	int err = cancel_inside(req);
	bl_lib_leave(req->ep);
	return err;
}

/* --- probing ------------------------------------------------------------------ */

/* Ask the core, which answers through the completion queue. 1: *answer is done
 * and describes the message; 0: there is none; negative: an error. */
static int peek(struct beeline_endpoint *ep, struct beeline_match match, uint64_t flags,
		struct beeline_request **answer)
{
	struct bl_recv recv = {
		.src = (uint64_t)match.source,
		.tag = match_tag(match),
		.ignore = match_ignore(match),
		.flags = BL_TAGGED | BL_COMPLETION | BL_PEEK | flags,
	};
	struct beeline_request *req;
	int err;

	if (unlikely(no_such_source(ep, match.source)))
		return -EINVAL;
	req = request_new(ep);
	if (unlikely(!req))
		return -ENOMEM;
	req->state = BL_SEND_OP_POSTED;
	recv.context = req;
	err = bl_recv(ep->core, &recv);
	if (unlikely(err)) {
		request_free(req);
		return err == -EAGAIN ? -ENOMEM : err;
	}
	while (req->state != BL_SEND_OP_DONE) /* behind those that came before it */
		progress(ep);
	err = req->error;
	if (err) {
		request_free(req);
		return err == -ENOMSG ? 0 : err;
	}
	*answer = req;
	return 1;
}

int beeline_iprobe(struct beeline_endpoint *ep, struct beeline_match match,
		   struct beeline_status *status)
{
	struct beeline_request *answer;

	bl_lib_enter(ep);
	int ret = peek(ep, match, 0, &answer);
	if (ret == 1)
		finish(&answer, status);
	bl_lib_leave(ep);
	return ret;
}

int beeline_improbe(struct beeline_endpoint *ep, struct beeline_match match,
		    struct beeline_message **message, struct beeline_status *status)
{
	struct beeline_request *answer;

	bl_lib_enter(ep);
	int ret = peek(ep, match, BL_CLAIM, &answer);
	if (ret == 1) {
		if (status)
			fill_status(answer, status);
		answer->state = BL_SEND_OP_CLAIMED;
		*message = (struct beeline_message *)answer;
	}
	bl_lib_leave(ep);
	return ret;
}

int beeline_imrecv(void *buf, size_t length, struct beeline_message **message,
		   struct beeline_request **request)
{
	struct beeline_request *req = (struct beeline_request *)*message;
	struct beeline_endpoint *ep = req->ep;
	struct iovec iov = {buf, length};
	struct bl_recv recv = {
		.iov = &iov,
		.niov = 1,
		.context = req,
		.flags = BL_TAGGED | BL_COMPLETION | BL_CLAIM,
	};

	bl_lib_enter(ep);
	req->state = BL_SEND_OP_POSTED;
	int err = bl_recv(ep->core, &recv);
	if (likely(!err)) {
		*request = req;
		*message = NULL;
	} else {
		req->state = BL_SEND_OP_CLAIMED;
		err = err == -EAGAIN ? -ENOMEM : err;
	}
	bl_lib_leave(ep);
	return err;
}
