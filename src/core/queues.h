/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * queues.h: a posted receive, an unexpected message, and what queues of them consist of; match.h
 * has what they are searched by. They belong to their endpoint (endpoint.h).
 */
#ifndef BL_CORE_QUEUES_H
#define BL_CORE_QUEUES_H

#include "core/table.h"
#include "transport/local/local.h"

/* A posted receive. */
struct bl_post {
	struct bl_post *next;
	uint64_t tag, ignore;
	struct bl_peer *src; /* NULL: anybody */
	char *buf;	     /* niov > 1: the first piece */
	size_t len;	     /* all bytes */
	void *context;
	uint32_t flags; /* BL_POST_* */
	uint32_t niov;
	struct iovec *iov; /* niov > 1; pooled */
	uint32_t users;	   /* BL_POST_MULTI: messages being copied into it; 0 in the pool */
	uint32_t advert;   /* BL_POST_PUBLISHED: which */
	struct bl_own_adverts *board; /* on this board */
	struct bl_work *work;	      /* BL_POST_WORK */
	/* While its queue has an index (match.h): */
	struct bl_post **link; /* what points to it */
	struct bl_node node;
	uint64_t place; /* in the queue */
	uint32_t kind;
};
#define BL_POST_QUIET	  0x1u	/* no completion unless it fails */
#define BL_POST_MULTI	  0x2u	/* many messages into one buffer */
#define BL_POST_SPENT	  0x4u	/* of these: it takes no more */
#define BL_POST_PUBLISHED 0x8u	/* a sender can see it; whoever takes it asks proxy.h first */
#define BL_POST_WORK	  0x10u /* it counts in `work` */
#define BL_POST_BEGUN	  0x20u /* written to by a message that has yet to come; copybuf_rx.c */

struct bl_post_index;
struct bl_unexpected_index;

struct bl_post_queue {
	struct bl_post *head, **tail;
	struct bl_post_index *index; /* it is deep */
};

#define BL_VIEWS 4 /* of a deep queue of early messages */

/* A message that came before its receive: bytes, or a large one's description. */
struct bl_unexpected {
	struct bl_unexpected *next, **link; /* link: what points to it in its queue */
	struct bl_peer *peer;
	uint64_t tag, data;
	size_t len;
	void *claimed_by;
	uint64_t request; /* large, or BL_SLOT_ACK */
	uint32_t npiece;  /* large: pieces in `piece` */
	uint8_t flags;	  /* BL_SLOT_* */
	bool large;
	uint8_t pool; /* BL_UNEXPECTED_*: where its memory goes */
	struct bl_node node[BL_VIEWS];
	union {
		struct {
			struct iovec piece[BL_IOV_MAX];
			struct bl_rkey key[BL_RKEYS]; /* BL_SLOT_RKEYS: of the pieces */
		};
		uint8_t bytes[BL_SLOT_INLINE]; /* or more, by its pool */
	};
};

struct bl_unexpected_queue {
	struct bl_unexpected *head, **tail;
	struct bl_unexpected_index *index;
};

/* Receives posted and messages that have come before theirs. */
struct bl_queues {
	struct bl_post_queue posted;
	struct bl_unexpected_queue unexpected;
};

/*
 * Memory for early messages: of the description of one, or one of a slot's bytes, from slabs; of
 * longer ones, up to the longest that is eager, in a few sizes, as it was last used, so that none
 * is allocated for what comes early again and again. unexpected_pool.c
 */
#define BL_UNEXPECTED_SIZES 20u /* 512 bytes, and from there on four for each power of two */
#define BL_UNEXPECTED_SLOT  BL_UNEXPECTED_SIZES
#define BL_UNEXPECTED_ALONE (BL_UNEXPECTED_SIZES + 1) /* allocated and freed by itself */
#define BL_UNEXPECTED_FREE  (256u << 10)	      /* bytes: more than that isn't kept unused */

struct bl_unexpected_pool {
	struct bl_unexpected *slot, *sized[BL_UNEXPECTED_SIZES];
	uint32_t unused; /* bytes in `sized` */
};

#endif
