/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * table.h: a hash table of what is in a queue anyway. Those of one hash follow each other
 * in the order in which they were added. Its memory is of its own; the nodes are members of
 * what is in it. Serialised by its owner.
 */
#ifndef BL_CORE_TABLE_H
#define BL_CORE_TABLE_H

#include <stdint.h>

struct bl_node {
	struct bl_node *next, **link; /* link: what points to it */
	uint64_t hash;
};

struct bl_bucket {
	struct bl_node *head, **tail;
};

struct bl_table {
	struct bl_bucket *bucket;
	uint32_t mask, count; /* mask + 1 buckets */
	uint64_t most;	      /* with more it grows */
};

/* Room for about so many. 0 or -ENOMEM. */
int bl_table_init(struct bl_table *t, uint32_t count);
void bl_table_fini(struct bl_table *t);
/* Behind those of its hash. Grows the table; without memory for that its chains grow. */
void bl_table_add(struct bl_table *t, struct bl_node *node, uint64_t hash);
void bl_table_remove(struct bl_table *t, struct bl_node *node);

/* The first of this hash at or behind a node; NULL: none. */
static inline struct bl_node *bl_table_next(struct bl_node *node, uint64_t hash)
{
	while (node && node->hash != hash)
		node = node->next;
	return node;
}

static inline struct bl_node *bl_table_first(const struct bl_table *t, uint64_t hash)
{
	return bl_table_next(t->bucket[hash & t->mask].head, hash);
}

#endif
