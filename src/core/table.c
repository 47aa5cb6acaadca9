/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * table.c: see table.h. Serialised by its owner.
 */
#include "core/table.h"

#include <errno.h>
#include <stdlib.h>

#define FEWEST	   64u	      /* buckets */
#define MOST	   (1u << 24) /* buckets: 256 MiB */
#define CHAIN_MOST 2u	      /* on average, before the table grows */

static struct bl_bucket *buckets(uint32_t n)
{
	struct bl_bucket *b = malloc(n * sizeof *b);

	for (uint32_t i = 0; b && i < n; i++)
		b[i] = (struct bl_bucket){NULL, &b[i].head};
	return b;
}

int bl_table_init(struct bl_table *t, uint32_t count)
{
	uint32_t n = FEWEST;

	while (n < count && n < MOST)
		n *= 2;
	*t = (struct bl_table){
		.bucket = buckets(n), .mask = n - 1, .most = (uint64_t)CHAIN_MOST * n};
	return t->bucket ? 0 : -ENOMEM;
}

void bl_table_fini(struct bl_table *t)
{
	free(t->bucket);
}

static void append(struct bl_table *t, struct bl_node *node)
{
	struct bl_bucket *b = &t->bucket[node->hash & t->mask];

	node->next = NULL;
	node->link = b->tail;
	*b->tail = node;
	b->tail = &node->next;
}

static void grow(struct bl_table *t)
{
	struct bl_table old = *t;
	uint32_t n = 2 * (old.mask + 1);

	t->most *= 2; /* if there is no memory now, perhaps then */
	t->bucket = n > MOST ? NULL : buckets(n);
	if (!t->bucket) {
		t->bucket = old.bucket;
		return;
	}
	t->mask = n - 1;
	for (uint32_t i = 0; i <= old.mask; i++)
		for (struct bl_node *node = old.bucket[i].head, *next; node; node = next) {
			next = node->next;
			append(t, node);
		}
	free(old.bucket);
}

void bl_table_add(struct bl_table *t, struct bl_node *node, uint64_t hash)
{
	node->hash = hash;
	append(t, node);
	if (++t->count > t->most)
		grow(t);
}

void bl_table_remove(struct bl_table *t, struct bl_node *node)
{
	*node->link = node->next;
	if (node->next)
		node->next->link = node->link;
	else
		t->bucket[node->hash & t->mask].tail = node->link;
	t->count--;
}
