/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * data.c: buffers with guards, message patterns and the table of sizes (see
 * fab.h). A pattern depends on its seed and on each byte's place, so a message
 * that is shifted, mixed up with another or taken twice is found.
 */
#include "fab.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD	   64
#define GUARD_BYTE 0xa5

struct t_buf t_buf(size_t len, size_t skew)
{
	struct t_buf b = {.len = len};
	size_t total = GUARD + skew % 64 + len + GUARD;

	if (posix_memalign((void **)&b.mem, 64, total))
		T_FAIL("no memory for %zu bytes", total);
	memset(b.mem, GUARD_BYTE, total);
	b.p = b.mem + GUARD + skew % 64;
	t_blank(&b);
	return b;
}

static struct t_buf mapped(size_t len, bool at_end)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t body = (len + page - 1) / page * page;
	struct t_buf b = {.len = len, .mapped = body + 2 * page};

	if (!body) {
		body = page;
		b.mapped += page;
	}
	b.mem = mmap(NULL, b.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	T_CHECK(b.mem != MAP_FAILED, "mmap of %zu bytes", b.mapped);
	T_CHECK(!mprotect(b.mem + page, body, PROT_READ | PROT_WRITE), "mprotect");
	memset(b.mem + page, GUARD_BYTE, body);
	b.p = b.mem + page + (at_end ? body - len : 0);
	t_blank(&b);
	return b;
}

struct t_buf t_buf_at_end(size_t len)
{
	return mapped(len, true);
}

struct t_buf t_buf_at_start(size_t len)
{
	return mapped(len, false);
}

static bool guards_whole(const struct t_buf *b)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const unsigned char *from = b->mapped ? b->mem + page : b->mem;
	const unsigned char *to = b->mapped ? b->mem + b->mapped - page : b->p + b->len + GUARD;

	for (const unsigned char *q = from; q < b->p; q++)
		if (*q != GUARD_BYTE)
			return false;
	for (const unsigned char *q = b->p + b->len; q < to; q++)
		if (*q != GUARD_BYTE)
			return false;
	return true;
}

void t_buf_free(struct t_buf *b)
{
	T_CHECK(guards_whole(b), "bytes around a buffer of %zu were written", b->len);
	if (b->mapped)
		munmap(b->mem, b->mapped);
	else
		free(b->mem);
	memset(b, 0, sizeof(*b));
}

static uint64_t word(uint64_t seed, size_t index)
{
	uint64_t z = seed * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u + 0x94d049bb133111ebu;

	z ^= z >> 32;
	z *= 0xd6e8feb86659fd93u;
	return z ^ z >> 32;
}

static unsigned char byte_at(uint64_t seed, size_t i)
{
	return (unsigned char)(word(seed, i / 8) >> (i % 8 * 8));
}

void t_fill(void *p, size_t n, uint64_t seed, size_t offset)
{
	unsigned char *q = p;
	size_t i = 0;

	for (; i < n && (offset + i) % 8; i++)
		q[i] = byte_at(seed, offset + i);
	for (; i + 8 <= n; i += 8) {
		uint64_t w = word(seed, (offset + i) / 8);

		memcpy(q + i, &w, 8);
	}
	for (; i < n; i++)
		q[i] = byte_at(seed, offset + i);
}

void t_same(const char *file, int line, const void *p, size_t n, uint64_t seed, size_t offset)
{
	const unsigned char *q = p;
	size_t i = 0;

	while (i < n) {
		uint64_t w = word(seed, (offset + i) / 8);

		if ((offset + i) % 8 == 0 && i + 8 <= n && !memcmp(q + i, &w, 8)) {
			i += 8;
			continue;
		}
		if (q[i] != byte_at(seed, offset + i)) {
			size_t bad = 0;

			for (size_t j = i; j < n; j++)
				bad += q[j] != byte_at(seed, offset + j);
			t_fail(file, line,
			       "byte %zu of %zu is 0x%02x, not 0x%02x; %zu bytes differ", i, n,
			       q[i], byte_at(seed, offset + i), bad);
		}
		i++;
	}
}

void t_blank(struct t_buf *b)
{
	if (b->len)
		memset(b->p, T_BLANK, b->len);
}

void t_got(const char *file, int line, const struct t_buf *b, size_t n, uint64_t seed)
{
	t_same(file, line, b->p, n, seed, 0);
	for (size_t i = n; i < b->len; i++)
		if (b->p[i] != T_BLANK)
			t_fail(file, line, "byte %zu, beyond the message of %zu, was written", i,
			       n);
	if (!guards_whole(b))
		t_fail(file, line, "bytes around the buffer of %zu were written", b->len);
}

/*
 * Where a protocol may change: a word, a cache line and what remains of it and of
 * its neighbours beside a header (40, 104, 168, 232, 296), inline and eager limits,
 * pages, and the powers of two up to where large messages are cut into pieces.
 */
#define AROUND(n) (n) - 1, (n), (n) + 1
static const size_t sizes[] = {
	0,
	1,
	2,
	3,
	4,
	5,
	AROUND(8),
	AROUND(16),
	24,
	AROUND(32),
	AROUND(40),
	48,
	AROUND(56),
	AROUND(64),
	AROUND(104),
	AROUND(128),
	AROUND(168),
	AROUND(192),
	AROUND(232),
	AROUND(256),
	AROUND(288),
	AROUND(296),
	AROUND(512),
	AROUND(1024),
	AROUND(2048),
	AROUND(4096),
	AROUND(8192),
	AROUND(12288),
	AROUND(14336),
	AROUND(32768),
	AROUND(65536),
	AROUND(131072),
	AROUND(262144),
	AROUND(524288),
	AROUND(1048576),
	AROUND(2097152),
	AROUND(4194304),
	AROUND(16777216),
};

size_t t_sizes(size_t max, const size_t **table)
{
	size_t n = sizeof(sizes) / sizeof(sizes[0]);

	*table = sizes;
	while (n && sizes[n - 1] > max)
		n--;
	return n;
}

size_t t_rand_size(struct t_rng *rng, size_t max)
{
	const size_t *table;
	size_t n = t_sizes(max, &table), bits = 1;

	if (t_rand(rng) & 1)
		return table[t_rand_below(rng, n)];
	while (max >> bits)
		bits++;
	/* Each order of magnitude is as likely as any other. */
	n = (size_t)1 << t_rand_below(rng, bits);
	n += t_rand_below(rng, n);
	return n > max ? max : n;
}
