/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * endpoint.c: an endpoint's beginning and end, its peers, its pool of requests;
 * the library's version and its words for errors. See lib.h for who owns what
 * and beeline.h for who may enter.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

#define REQUESTS_AT_ONCE 256

static_assert(BEELINE_VERSION_MAJOR == BL_PROJECT_MAJOR &&
		      BEELINE_VERSION_MINOR == BL_PROJECT_MINOR &&
		      BEELINE_VERSION_PATCH == BL_PROJECT_PATCH,
	      "beeline.h and meson.build disagree about the version");
static_assert(BEELINE_ADDRESS_SIZE == sizeof(struct bl_addr), "part of the library's interface");

uint32_t beeline_version(void)
{
	return BEELINE_VERSION;
}

/* --- errors ---------------------------------------------------------------- */

static const struct {
	int error;
	const char *text;
} words[] = {
	{0, "Success"},
	{EMSGSIZE, "The message is longer than the receive's buffer"},
	{ECANCELED, "The operation was cancelled"},
	{EALREADY, "Too late to cancel: the operation has begun or is complete"},
	{EHOSTUNREACH, "The peer is on another host"},
	{ENETUNREACH, "The peer is in another network namespace"},
	{ECONNREFUSED, "The peer is not there any more"},
	{ECONNRESET, "The peer has died"},
	{ENOTCONN, "The peer has closed its endpoint"},
	{EPROTO, "The peer does not follow the protocol"},
	{EPERM, "The peer belongs to another user"},
	{EUSERS, "Too many neighbours of one endpoint"},
};

const char *beeline_strerror(int error)
{
	const char *text;

	for (size_t i = 0; i < bl_countof(words); i++)
		if (error == words[i].error || error == -words[i].error)
			return words[i].text;
	if (error == INT_MIN)
		return "Unknown error";
	text = strerrordesc_np(error < 0 ? -error : error);
	return text ? text : "Unknown error";
}

/* --- requests ---------------------------------------------------------------- */

struct bl_send_op_slab {
	struct bl_send_op_slab *next;
	alignas(BL_LINE) struct beeline_request request[REQUESTS_AT_ONCE];
};
static_assert(sizeof(struct beeline_request) <= BL_LINE, "one line each");

bl_cold bool bl_lib_more_requests(struct beeline_endpoint *ep)
{
	struct bl_send_op_slab *slab = aligned_alloc(BL_LINE, sizeof *slab);

	if (!slab)
		return false;
	memset(slab, 0, sizeof *slab);
	slab->next = ep->slabs;
	ep->slabs = slab;
	for (int i = REQUESTS_AT_ONCE - 1; i >= 0; i--) {
		slab->request[i].ep = ep;
		slab->request[i].next = ep->pool;
		ep->pool = &slab->request[i];
	}
	return true;
}

static void free_requests(struct beeline_endpoint *ep)
{
	for (struct bl_send_op_slab *slab = ep->slabs, *next; slab; slab = next) {
		next = slab->next;
		free(slab);
	}
}

/* --- endpoints ---------------------------------------------------------------- */

static int open_core(struct beeline_endpoint *ep)
{
	int err = bl_domain_open(&ep->domain);

	if (err)
		return err;
	bl_domain_nonblocking(ep->domain); /* sends wait in their peer's queue */
	if (ep->safe)
		bl_domain_locks(ep->domain);
	err = bl_av_open(ep->domain, &ep->av);
	if (err)
		goto close_domain;
	err = bl_cq_open(ep->domain, 0, &ep->cq);
	if (err)
		goto close_av;
	err = bl_ep_open(ep->domain, &ep->core);
	if (err)
		goto close_cq;
	err = bl_ep_bind_av(ep->core, ep->av);
	if (!err)
		err = bl_ep_bind_cq(ep->core, ep->cq, BL_SEND | BL_RECV);
	if (!err)
		err = bl_ep_enable(ep->core);
	if (!err)
		return 0;
	bl_ep_close(ep->core);
close_cq:
	bl_cq_close(ep->cq);
close_av:
	bl_av_close(ep->av);
close_domain:
	bl_domain_close(ep->domain);
	return err;
}

int beeline_open(struct beeline_endpoint **out, unsigned flags)
{
	struct beeline_endpoint *ep;
	int err;

	if (flags & ~BEELINE_THREAD_SAFE)
		return -EINVAL;
	ep = calloc(1, sizeof *ep);
	if (!ep)
		return -ENOMEM;
	ep->safe = flags & BEELINE_THREAD_SAFE;
	if (!bl_lib_more_requests(ep)) {
		err = -ENOMEM;
		goto free_ep;
	}
	err = open_core(ep);
	if (err)
		goto free_pool;
	*out = ep;
	return 0;

free_pool:
	free_requests(ep);
free_ep:
	free(ep);
	return err;
}

void beeline_close(struct beeline_endpoint *ep)
{
	if (!ep)
		return;
	bl_ep_close(ep->core);
	bl_cq_close(ep->cq);
	bl_av_close(ep->av);
	bl_domain_close(ep->domain);
	free_requests(ep);
	free(ep);
}

void beeline_get_address(struct beeline_endpoint *ep, struct beeline_address *address)
{
	struct bl_addr own;

	bl_ep_getname(ep->core, &own);
	memcpy(address, &own, sizeof own);
}

/* --- peers ---------------------------------------------------------------- */

static int add_peer(struct beeline_endpoint *ep, const struct beeline_address *address, int *peer)
{
	struct bl_addr addr;
	uint64_t index;
	int err;

	if (ep->npeer == INT_MAX / 2)
		return -ENOMEM;
	memcpy(&addr, address, sizeof addr);
	err = bl_av_insert(ep->av, &addr, &index);
	if (err)
		return err;
	/* Nobody else inserts, and nothing is removed: the index is the count. */
	*peer = ep->npeer++;
	return 0;
}

int beeline_add_peer(struct beeline_endpoint *ep, const struct beeline_address *address, int *peer)
{
	bl_lib_enter(ep);
	int err = add_peer(ep, address, peer);
	bl_lib_leave(ep);
	return err;
}
