/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rkey_test.c: large messages of a pair that may not use process_vm_*, by a module
 * that stands in for beeline.ko: open() of the device and ioctl() on it come here
 * (-Wl,--wrap; open64 is what open is called in a build with large files), exports are kept in a
 * table and copies are memcpy. So every way that the kernel may answer can be tried, on any
 * machine: tests/vm has the real one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/local/ways/rndv.h"
#include "uapi/beeline.h"
#include "unit/node.h"

#define LONGEST (1u << 20)
#define EXPORTS 4096

static struct {
	bool absent;
	unsigned opened;
	struct beeline_export export[EXPORTS];
	unsigned made, live;
	size_t from, to;  /* bytes copied */
	int copy_error;	  /* the next copies fail so */
	size_t interrupt; /* a copy ends after so many bytes, EINTR */
	int full;	  /* exports fail so */
	int device;
} module = {.device = -1};

static struct node node;
static uint8_t from[LONGEST], to[LONGEST + 64];

int __real_open64(const char *path, int flags, ...);
int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);

int __wrap_open64(const char *path, int flags, ...)
{
	va_list args;
	int mode;

	va_start(args, flags);
	mode = flags & O_CREAT ? va_arg(args, int) : 0;
	va_end(args);
	if (strcmp(path, "/dev/beeline"))
		return __real_open64(path, flags, mode);
	if (module.absent) {
		errno = ENOENT;
		return -1;
	}
	module.opened++;
	module.device = __real_open64("/dev/null", O_RDWR | O_CLOEXEC);
	return module.device;
}

static int refuse(int err)
{
	errno = err;
	return -1;
}

static int fake_export(struct beeline_export *e)
{
	if (module.full)
		return refuse(module.full);
	assert_true(e->len && (e->rights == BEELINE_READ || e->rights == BEELINE_WRITE));
	assert_int_equal(e->scope, BEELINE_SCOPE_UID);
	assert_int_equal(e->uid, geteuid());
	e->handle = (struct beeline_handle){{++module.made, 0x5eed}};
	assert_true(module.made < EXPORTS);
	module.export[module.made] = *e;
	module.live++;
	return 0;
}

static struct beeline_export *fake_find(const struct beeline_handle *h)
{
	struct beeline_export *e = &module.export[h->w[0] % EXPORTS];

	return e->len && !memcmp(&e->handle, h, sizeof *h) ? e : NULL;
}

static int fake_copy(struct beeline_copy *c)
{
	struct beeline_export *e = fake_find(&c->handle);
	struct iovec one = {(void *)(uintptr_t)c->local, c->len}, *iov = &one;
	bool write = c->flags & BEELINE_COPY_TO;
	size_t n = c->len, count = 1;

	c->copied = 0;
	if (module.copy_error)
		return refuse(module.copy_error);
	if (!e)
		return refuse(ENOENT);
	if (e->rights != (write ? BEELINE_WRITE : BEELINE_READ))
		return refuse(EACCES);
	assert_true(c->flags & BEELINE_COPY_ADDRESS);
	if (c->offset < e->addr || c->offset - e->addr > e->len ||
	    c->len > e->len - (c->offset - e->addr))
		return refuse(ERANGE);
	if (c->niov) {
		iov = (struct iovec *)(uintptr_t)c->local;
		count = c->niov;
		assert_in_range(count, 2, BL_IOV_MAX);
		assert_int_equal(bl_iov_len(iov, count), n);
	}
	if (module.interrupt && module.interrupt < n)
		n = module.interrupt;
	if (write)
		bl_iov_gather((void *)(uintptr_t)c->offset, iov, count, 0, n);
	else
		bl_iov_scatter(iov, count, 0, (void *)(uintptr_t)c->offset, n);
	*(write ? &module.to : &module.from) += n;
	c->copied = n;
	return n < c->len ? refuse(EINTR) : 0;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	struct beeline_export *e;
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (fd != module.device)
		return __real_ioctl(fd, request, arg);
	switch (request) {
	case BEELINE_IOC_INFO:
		*(struct beeline_info *)arg =
			(struct beeline_info){BEELINE_ABI, 1024, 1024, 1u << 20, 512, 0};
		return 0;
	case BEELINE_IOC_EXPORT:
		return fake_export(arg);
	case BEELINE_IOC_REVOKE:
		e = fake_find(&((struct beeline_revoke *)arg)->handle);
		if (!e)
			return refuse(ENOENT);
		e->len = 0;
		module.live--;
		return 0;
	case BEELINE_IOC_COPY:
		return fake_copy(arg);
	}
	return refuse(ENOTTY);
}

/* --- flows ------------------------------------------------------------------ */

static void open_pair(bool needs_rkeys)
{
	node_open(&node, 2);
	for (size_t a = 0; a < 2; a++)
		for (size_t b = 0; b < 2; b++) {
			struct bl_copy_pair *pair = &node.ep[a]->dest[b]->copy;

			pair->pull = pair->push = BL_COPY_NOTHING;
			pair->needs_rkeys = needs_rkeys;
		}
	module.from = module.to = 0;
	module.made = module.live = 0;
	module.copy_error = module.full = 0;
	module.interrupt = 0;
	memset(module.export, 0, sizeof module.export);
	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 2654435761u >> 13);
}

static void send_one(size_t len, bool early)
{
	memset(to, 0xee, len + 64);
	if (!early)
		assert_int_equal(bl_recv_buf(node.ep[0], to, len, 1, 9, 0, to, NODE_FLAGS), 0);
	node_send(&node, 1, 0, from, len, 9, from, NODE_FLAGS);
	if (early) {
		node_settle(&node, 0);
		assert_int_equal(bl_recv_buf(node.ep[0], to, len, 1, 9, 0, to, NODE_FLAGS), 0);
	}
	assert_int_equal(node_completion(&node, 0, NULL).len, len);
	assert_ptr_equal(node_completion(&node, 1, NULL).context, from);
	/* Both buffers are the application's again. */
	assert_int_equal(module.live, 0);
	assert_memory_equal(to, from, len);
	for (size_t i = len; i < len + 64; i++)
		assert_int_equal(to[i], 0xee);
}

static const size_t lengths[] = {16385, 20000, 65536, 131072, 131073, 300001, LONGEST};

/* Copied once, by one or by both, and nothing through the ring. */
static void copied_once(void **state)
{
	open_pair(true);
	for (size_t i = 0; i < bl_countof(lengths); i++)
		for (int early = 0; early < 2; early++) {
			module.from = module.to = 0;
			send_one(lengths[i], early);
			assert_int_equal(module.from + module.to, lengths[i]);
		}
	assert_true(module.made);
	node_close(&node);
}

static void both_hands(void **state)
{
	size_t by_sender = 0;

	open_pair(true);
	for (int i = 0; i < 50; i++) {
		module.to = 0;
		send_one(LONGEST, false);
		by_sender += module.to;
	}
	assert_true(by_sender);
	node_close(&node);
}

/* Nobody lends before it is needed; then the sender's hand, then either. */
static void learns(void **state)
{
	open_pair(false);
	send_one(300000, false);
	assert_true(node.ep[1]->dest[0]->copy.needs_rkeys);
	module.from = module.to = 0;
	send_one(300000, false);
	assert_int_equal(module.from + module.to, 300000);
	node_close(&node);
}

static void interrupted(void **state)
{
	open_pair(true);
	module.interrupt = 4097;
	for (size_t i = 0; i < bl_countof(lengths); i++)
		send_one(lengths[i], i & 1);
	assert_true(module.from + module.to >= LONGEST);
	node_close(&node);
}

struct error_row {
	struct row row;
	int error;
};

static const struct error_row errors[] = {
	{{"ENOENT", "the handle is gone"}, ENOENT},
	{{"EACCES", "another user's"}, EACCES},
	{{"ESRCH", "the owner has exec'ed"}, ESRCH},
	{{"ENXIO", "memory that only its owner reaches"}, ENXIO},
	{{"ERANGE", "not in what was lent"}, ERANGE},
	{{"ENOMEM", "the kernel has none"}, ENOMEM},
};

/* The same bytes, by the ring; and after a while nobody lends in vain. */
static void refused_copies(void **state)
{
	const struct error_row *row = TABLE_ROW(struct error_row, state);

	open_pair(true);
	module.copy_error = row->error;
	for (int i = 0; i < 20; i++)
		send_one(lengths[(size_t)i % bl_countof(lengths)], i & 1);
	assert_int_equal(module.from + module.to, 0);
	assert_false(node.ep[1]->dest[0]->copy.needs_rkeys);
	assert_false(node.ep[0]->dest[1]->copy.needs_rkeys);
	node_close(&node);
}

/* An error of the moment: the next message is copied once again. */
static void refused_once(void **state)
{
	open_pair(true);
	module.copy_error = ENXIO;
	send_one(300000, false);
	module.copy_error = 0;
	module.from = module.to = 0;
	send_one(300000, false);
	assert_int_equal(module.from + module.to, 300000);
	node_close(&node);
}

static void no_export(void **state)
{
	open_pair(true);
	module.full = ENOSPC;
	for (size_t i = 0; i < bl_countof(lengths); i++)
		send_one(lengths[i], i & 1);
	assert_int_equal(module.made, 0);
	node_close(&node);
}

/* Each piece has a key of its own. */
static void in_pieces(void **state)
{
	open_pair(true);
	for (size_t n = 1; n <= BL_IOV_MAX; n++)
		for (size_t m = 1; m <= BL_IOV_MAX; m++) {
			struct iovec s[BL_IOV_MAX], r[BL_IOV_MAX];
			struct bl_send send = {s, n, 0, 9, 0, NULL, NODE_FLAGS, NULL};
			struct bl_recv recv = {r, m, BL_ADDR_ANY, 9, 0, to, NODE_FLAGS, NULL};
			const size_t len = 210000;

			for (size_t i = 0; i < n; i++)
				s[i] = (struct iovec){from + len / n * i,
						      i == n - 1 ? len - len / n * i : len / n};
			for (size_t i = 0; i < m; i++)
				r[i] = (struct iovec){to + len / m * i,
						      i == m - 1 ? len - len / m * i : len / m};
			memset(to, 0xee, len + 64);
			module.from = module.to = 0;
			node.ep[0]->dest[1]->copy.needs_rkeys =
				node.ep[1]->dest[0]->copy.needs_rkeys = true;
			assert_int_equal(bl_recv(node.ep[0], &recv), 0);
			assert_int_equal(bl_send(node.ep[1], &send), 0);
			assert_int_equal(node_completion(&node, 0, NULL).len, len);
			node_completion(&node, 1, NULL);
			assert_memory_equal(to, from, len);
			assert_int_equal(to[len], 0xee);
			assert_int_equal(module.live, 0);
			assert_int_equal(module.from + module.to, len);
		}
	node_close(&node);
}

static void truncated(void **state)
{
	struct bl_comp_err err;

	open_pair(true);
	memset(to, 0xee, sizeof to);
	assert_int_equal(bl_recv_buf(node.ep[0], to, 100000, 1, 9, 0, to, NODE_FLAGS), 0);
	node_send(&node, 1, 0, from, 200000, 9, from, NODE_FLAGS);
	err = node_error(&node, 0);
	assert_int_equal(err.err, BL_ETRUNC);
	node_completion(&node, 1, NULL);
	assert_memory_equal(to, from, 100000);
	assert_int_equal(to[100000], 0xee);
	assert_int_equal(module.live, 0);
	node_close(&node);
}

/* What a closed endpoint had lent is taken back. */
static void closed(void **state)
{
	open_pair(true);
	for (int i = 0; i < 10; i++)
		node_send(&node, 1, 0, from, 300000, 9, from, NODE_FLAGS);
	assert_int_equal(module.live, 10);
	node_close(&node);
	assert_int_equal(module.live, 0);
}

/* A child has a file of its own, and takes nothing back that is its parent's. */
static void forked(void **state)
{
	struct bl_rkey key;
	unsigned opened;
	int status;
	pid_t pid;

	open_pair(true);
	assert_true(bl_kmod_register(&(struct iovec){from, 10}, 1, false, &key));
	opened = module.opened;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(!(bl_kmod_there() && module.opened == opened + 1));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	bl_kmod_deregister(&key, 1);
	assert_int_equal(module.live, 0);
	node_close(&node);
}

static unsigned said;

static void count_warning(enum bl_log_level level, const char *text)
{
	said += level == BL_LOG_WARN && strstr(text, "FI_BEELINE_COPY=module") &&
		strstr(text, "/dev/beeline");
}

/* Who asks for the module and hasn't got it hears so, once. */
static void asked_for(void **state)
{
	struct bl_copy_plan *plan = (struct bl_copy_plan *)(uintptr_t)bl_copy_plan();
	struct bl_copy_pair pair;
	int status;
	pid_t pid = fork(); /* which hasn't opened the device yet */

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		bl_log_redirect(count_warning);
		module.absent = true;
		for (int i = 0; i < 2; i++)
			bl_copy_pair_init(&pair, getppid());
		if (said || pair.needs_rkeys)
			_exit(1);
		plan->module_first = true;
		for (int i = 0; i < 2; i++)
			bl_copy_pair_init(&pair, getppid());
		_exit(said != 1 || pair.needs_rkeys || pair.pull != BL_COPY_VM);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Descriptions that make no sense are told from those that do. */
static void described(void **state)
{
	struct bl_piece piece[BL_PLACES] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
	struct iovec iov[BL_IOV_MAX];
	struct bl_rkeys rkeys;
	uint32_t n;

	assert_true(bl_described(piece, 64, true, iov, &n, &rkeys));
	assert_true(n == 2 && rkeys.n == 2 && rkeys.key[1].w[0] == 7 && iov[1].iov_len == 4);
	assert_true(bl_described(piece, 64, false, iov, &n, &rkeys));
	assert_true(n == 4 && !rkeys.n);
	assert_true(bl_described(piece, sizeof piece, true, iov, &n, &rkeys));
	assert_true(n == BL_RKEYS && rkeys.n == BL_RKEYS);
	assert_true(bl_described(piece, 0, true, iov, &n, &rkeys));
	assert_true(n == 0 && rkeys.n == 0);
	assert_false(bl_described(piece, 48, true, iov, &n, &rkeys));
	assert_false(bl_described(piece, 40, false, iov, &n, &rkeys));
	assert_false(bl_described(piece, 9 * sizeof piece[0], false, iov, &n, &rkeys));
	assert_false(bl_described(piece, 17 * sizeof piece[0], false, iov, &n, &rkeys));
	assert_false(bl_described(piece, 18 * sizeof piece[0], true, iov, &n, &rkeys));
}

int main(void)
{
	setenv("FI_BEELINE_CHUNK_MAX", "262144", 1); /* more than two pieces */
	/* Both ends belong to one thread: a read that polls would keep the other from its turn. */
	setenv("FI_BEELINE_SPIN", "0", 1);
	TABLE_TEST(copied_once);
	TABLE_TEST(both_hands);
	TABLE_TEST(learns);
	TABLE_TEST(interrupted);
	TABLE_ROWS("refused", refused_copies, errors);
	TABLE_TEST(refused_once);
	TABLE_TEST(no_export);
	TABLE_TEST(in_pieces);
	TABLE_TEST(truncated);
	TABLE_TEST(closed);
	TABLE_TEST(forked);
	TABLE_TEST(asked_for);
	TABLE_TEST(described);
	return table_run("rkey");
}
