/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * node.h: for unit tests: several endpoints in this process, of one domain or more, each
 * with its own address vector and completion queue, all knowing each other by
 * the same indices. One thread drives them all, so that a test decides what has
 * arrived before what. Everything waits with a deadline and fails the test by
 * cmocka when it passes.
 */
#ifndef BL_TESTS_UNIT_NODE_H
#define BL_TESTS_UNIT_NODE_H

#include "endpoint/api.h"
#include "endpoint/txq.h"
#include "unit/table.h"

#define NODE_MOST 4

struct node {
	struct bl_domain *domain; /* the first one's */
	struct bl_domain *of[NODE_MOST];
	size_t count;
	struct bl_ep *ep[NODE_MOST];
	struct bl_av *av[NODE_MOST];
	struct bl_cq *cq[NODE_MOST];
	struct bl_peer *peer[NODE_MOST][NODE_MOST]; /* of one, as it knows another */
};

/* Open `count` endpoints and connect each to each, itself included. */
void node_open(struct node *node, size_t count);
/* The same, each in a domain by itself. */
void node_open_apart(struct node *node, size_t count);
void node_close(struct node *node);

/* Progress on all, and nothing else. */
void node_progress(struct node *node);
/* Progress until endpoint `at` has seen all that was sent to it. */
void node_settle(struct node *node, size_t at);

/* Send and repeat while there is no room. */
void node_send(struct node *node, size_t from, size_t to, const void *buf, size_t len, uint64_t tag,
	       void *context, uint64_t flags);
/* The next completion of `at`; an error completion fails the test. */
struct bl_comp node_completion(struct node *node, size_t at, uint64_t *src);
/* The next of `at` must be an error. */
struct bl_comp_err node_error(struct node *node, size_t at);
/* Nothing waits for `at`. */
void node_expect_nothing(struct node *node, size_t at);

#define NODE_FLAGS (BL_TAGGED | BL_COMPLETION)

#endif
