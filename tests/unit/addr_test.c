/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * addr_test.c: core/addr.h: what makes a valid address, and which of them can
 * be reached through memory.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "core/addr.h"
#include "unit/table.h"

struct valid_row {
	struct row row;
	size_t offset, size; /* bytes of a good address to set */
	uint8_t value;
	bool valid;
};

#define FIELD(field) offsetof(struct bl_addr, field), sizeof(((struct bl_addr *)0)->field)

static const struct valid_row valids[] = {
	{{"as made", "nothing is changed"}, 0, 0, 0, true},
	{{"magic", "an address of another provider"}, FIELD(magic), 0x41, false},
	{{"magic's last byte", "all four bytes count"},
	 offsetof(struct bl_addr, magic) + 3,
	 1,
	 0,
	 false},
	{{"version 0", "older than the first"}, FIELD(version), 0, false},
	{{"another version", "we can't know what it means"}, FIELD(version), 0x7f, false},
	{{"flags", "whoever sets one means something that we don't know"}, FIELD(flags), 1, false},
	{{"id of zeros", "any id is a name"}, FIELD(id), 0, true},
	{{"pid 0", "for people only"}, FIELD(pid), 0, true},
	{{"empty host name", "for people only"}, FIELD(hostname), 0, true},
	{{"endless host name", "would be printed past its end"}, FIELD(hostname), 'x', false},
	{{"all zeros", "an address that nobody filled in"}, 0, sizeof(struct bl_addr), 0, false},
	{{"all ones", "-1 as an address"}, 0, sizeof(struct bl_addr), 0xff, false},
};

static void valid(void **state)
{
	const struct valid_row *row = TABLE_ROW(struct valid_row, state);
	struct bl_addr addr;

	assert_int_equal(bl_addr_make(&addr), 0);
	memset((char *)&addr + row->offset, row->value, row->size);
	assert_int_equal(bl_addr_valid(&addr), row->valid);
}

struct reach_row {
	struct row row;
	size_t offset, size;
	int result;
};

static const struct reach_row reaches[] = {
	{{"itself", "sends to self are allowed"}, 0, 0, 0},
	{{"another endpoint", "another id"}, FIELD(id), 0},
	{{"another process", "another pid"}, FIELD(pid), 0},
	{{"another host name", "a container with its own UTS namespace on this node"},
	 FIELD(hostname),
	 0},
	{{"another host", "another boot id"}, FIELD(host), -EHOSTUNREACH},
	{{"one bit of the host", "all 64 bits count"},
	 offsetof(struct bl_addr, host) + 7,
	 1,
	 -EHOSTUNREACH},
	{{"another network namespace", "abstract sockets end there"}, FIELD(netns), -ENETUNREACH},
	{{"another host and namespace", "the host is what matters to the user"},
	 offsetof(struct bl_addr, host),
	 12,
	 -EHOSTUNREACH},
};

static void reach(void **state)
{
	const struct reach_row *row = TABLE_ROW(struct reach_row, state);
	struct bl_addr from, to;

	assert_int_equal(bl_addr_make(&from), 0);
	to = from;
	for (size_t i = 0; i < row->size; i++)
		((uint8_t *)&to)[row->offset + i] ^= 0x5a;
	assert_int_equal(bl_addr_reachable(&from, &to), row->result);
	assert_int_equal(bl_addr_reachable(&to, &from), row->result);
}

static void made_addresses_differ_in_id_alone(void **state)
{
	struct bl_addr a, b;

	assert_int_equal(bl_addr_make(&a), 0);
	assert_int_equal(bl_addr_make(&b), 0);
	assert_true(memcmp(a.id, b.id, sizeof a.id));
	memcpy(b.id, a.id, sizeof a.id);
	assert_memory_equal(&a, &b, sizeof a);
	assert_int_equal(a.pid, getpid());
	assert_true(a.host && a.netns);
}

int main(void)
{
	TABLE_ROWS("valid", valid, valids);
	TABLE_ROWS("reach", reach, reaches);
	TABLE_TEST(made_addresses_differ_in_id_alone);
	return table_run("addr");
}
