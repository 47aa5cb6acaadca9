/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * owned.c: memory that its owner can touch, and the kernel doesn't copy for another process:
 * write-only pages, memfd_secret(2), and pages that a SIGSEGV handler makes accessible, or
 * writable. Messages from there and to there, and one-sided operations on it, arrive as from any
 * other. (A device's mapping is of the kind: the kernel refuses it where it does secret memory.)
 */
#include "overlap.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096u
#define KEY  0xbee
#define TAG  9
#define BOTH (FI_REMOTE_READ | FI_REMOTE_WRITE)

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

enum kind { WRITE_ONLY, SECRET, MENDED, READ_ONLY };

/* How the bytes go: directly where they can, short one-sided operations by a target that is asked
 * each time, or all by the ring. */
enum way { DIRECT, SERVED, RING };

static enum kind kind;
static enum way way;

struct own {
	unsigned char *p;
	size_t len; /* whole pages */
};

/* --- such memory -------------------------------------------------------------- */

static struct own hidden; /* MENDED, READ_ONLY: at most one at a time */
static volatile sig_atomic_t mended;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)hidden.p;

	(void)context;
	if (at >= hidden.len ||
	    mprotect(hidden.p + at / PAGE * PAGE, PAGE, PROT_READ | PROT_WRITE)) {
		signal(sig, SIG_DFL);
		return;
	}
	mended++;
}

static struct own own_make(size_t len)
{
	struct own m = {.len = (len + PAGE - 1) / PAGE * PAGE};
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, fd = -1;

	if (kind == SECRET) {
		fd = (int)syscall(SYS_memfd_secret, 0);
		if (fd < 0)
			t_skip("memfd_secret: %s", strerror(errno));
		T_OK(ftruncate(fd, (off_t)m.len));
		flags = MAP_SHARED;
	}
	m.p = mmap(NULL, m.len, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (m.p == MAP_FAILED && kind == SECRET)
		t_skip("memfd_secret may not be mapped: %s (RLIMIT_MEMLOCK)", strerror(errno));
	T_CHECK(m.p != MAP_FAILED, "mmap: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	memset(m.p, T_BLANK, m.len);
	return m;
}

static void own_hide(struct own m)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	if (kind == WRITE_ONLY)
		T_OK(mprotect(m.p, m.len, PROT_WRITE));
	if (kind != MENDED && kind != READ_ONLY)
		return;
	hidden = m;
	T_OK(sigaction(SIGSEGV, &action, NULL));
	T_OK(mprotect(m.p, m.len, kind == MENDED ? PROT_NONE : PROT_READ));
}

/* It has been touched, by its owner: `written`, or read. */
static void own_touched(bool written)
{
	T_CHECK(mended || !(kind == MENDED || (kind == READ_ONLY && written)),
		"no access was mended");
}

static void own_show(struct own m)
{
	T_OK(kind == SECRET ? 0 : mprotect(m.p, m.len, PROT_READ | PROT_WRITE));
}

static void own_free(struct own m)
{
	T_OK(munmap(m.p, m.len));
}

static void begin(struct t_node *n, struct t_opts *o)
{
	if (way == RING)
		setenv("FI_BEELINE_COPY", "ring", 1);
	else
		setenv("FI_BEELINE_RMA_DELEGATE", way == SERVED ? "always" : "never", 1);
	start(n, o, true);
}

/* --- messages ------------------------------------------------------------------ */

static const size_t lens[] = {9000, 65536, 100001, MIB};
#define NLENS (sizeof(lens) / sizeof(lens[0]))

/* One message; whose memory is such, by bits: 1 the sender's, 2 the receiver's. The receiver has
 * posted, and is away until the message has been sent; or it posts late. */
static void message(struct t_node *n, unsigned whose, size_t len, bool early, uint64_t seed)
{
	bool ours = whose >> t_rank & 1;
	struct own m = ours ? own_make(len) : (struct own){0};
	struct t_buf b = t_buf(len, seed);
	unsigned char *p = ours ? m.p : b.p;
	struct t_op op = {0};

	t_at("%zu bytes, whose memory: %u, %s", len, whose, early ? "early" : "late");
	if (t_rank == 0)
		t_fill(p, len, seed, 0);
	if (ours)
		own_hide(m);
	if (t_rank == 1 && early)
		t_trecv(n, n->peer[0], p, len, TAG, 0, &op);
	away();
	if (t_rank == 0)
		t_tsend(n, 1, p, len, TAG, &op);
	away();
	if (t_rank == 1 && !early)
		t_trecv(n, n->peer[0], p, len, TAG, 0, &op);
	T_WAIT(&op);
	if (ours)
		own_show(m);
	if (t_rank == 1)
		T_SAME(p, len, seed, 0);
	t_buf_free(&b);
	if (ours)
		own_free(m);
}

static void messages(void)
{
	struct t_opts o = {0};
	struct t_node n;

	begin(&n, &o);
	for (uint64_t i = 0; i < 6 * NLENS; i++)
		message(&n, 1 + i % 3, lens[i / 6], i % 6 < 3, i);
	own_touched(t_rank == 1);
	t_finish(&n);
}

/* Some pieces are such memory, some aren't: what was copied before the first one arrives too. */
static void pieces(void)
{
	enum { N = 4, LEN = 70000 };
	struct t_opts o = {.iov = N};
	struct t_node n;

	begin(&n, &o);
	for (uint64_t whose = 1; whose <= 3; whose++) {
		bool ours = whose >> t_rank & 1;
		struct own m = ours ? own_make(LEN) : (struct own){0};
		struct iovec iov[N];
		struct t_buf b[N];
		struct t_op op = {0};

		for (size_t i = 0; i < N; i++) {
			b[i] = t_buf(LEN, i);
			iov[i] = (struct iovec){ours && i == 2 ? m.p : b[i].p, LEN};
			if (t_rank == 0)
				t_fill(iov[i].iov_base, LEN, whose, i * LEN);
		}
		if (ours)
			own_hide(m);
		if (t_rank == 0)
			T_TRY(fi_tsendv(n.ep, iov, NULL, N, n.peer[1], TAG, &op));
		else
			T_TRY(fi_trecvv(n.ep, iov, NULL, N, n.peer[0], TAG, 0, &op));
		T_WAIT(&op);
		if (ours)
			own_show(m);
		for (size_t i = 0; i < N; i++) {
			if (t_rank == 1)
				T_SAME(iov[i].iov_base, LEN, whose, i * LEN);
			t_buf_free(&b[i]);
		}
		if (ours)
			own_free(m);
	}
	t_finish(&n);
}

/* A multi-receive's memory. */
static void place(struct t_op *op, const struct t_comp *c)
{
	size_t *at = op->arg;

	T_CHECK(!c->err, "error %d (%s)", c->err, fi_strerror(c->err));
	for (size_t i = 0; i < NLENS; i++)
		if (c->len == lens[i])
			at[i] = (size_t)c->buf;
}

static void multi(void)
{
	struct t_opts o = {.caps = FI_MULTI_RECV};
	struct t_node n;

	begin(&n, &o);
	if (t_rank == 0) {
		struct own m = own_make(MIB);
		struct t_op op = {0};

		away();
		for (size_t i = 0; i < NLENS; i++) {
			op.done = 0;
			own_show(m);
			t_fill(m.p, lens[i], i, 0);
			own_hide(m);
			T_TRY(fi_send(n.ep, m.p, lens[i], NULL, n.peer[1], &op));
			T_WAIT(&op);
		}
		own_free(m);
	} else {
		struct own m = own_make(2 * MIB);
		size_t at[NLENS] = {0};
		struct t_op op = {.each = place, .arg = at};
		struct iovec iov = {m.p, m.len};
		struct fi_msg msg = {
			.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &op};

		own_hide(m);
		T_TRY(fi_recvmsg(n.ep, &msg, FI_MULTI_RECV));
		away();
		for (size_t i = 0; i < NLENS; i++)
			while (!at[i])
				t_idle();
		own_show(m);
		for (size_t i = 0; i < NLENS; i++)
			T_SAME((void *)at[i], lens[i], i, 0);
		T_OK(fi_cancel(&n.ep->fid, &op) == -FI_ENOENT ? -FI_ENOENT : 0);
		op.each = NULL;
		while (!op.c.err)
			t_idle();
		own_free(m);
	}
	t_finish(&n);
}

/* --- one-sided operations --------------------------------------------------------- */

static struct fid_mr *reg(struct t_node *n, void *buf, size_t len)
{
	struct fid_mr *mr;

	T_OK(fi_mr_reg(n->domain, buf, len, BOTH, 0, KEY, 0, &mr, NULL));
	return mr;
}

static void rma(struct t_node *n, bool write, void *buf, size_t len, uint64_t at, int err)
{
	fi_addr_t to = n->peer[t_nproc - 1];
	struct t_op op = {0};

	if (write)
		T_TRY(fi_write(n->ep, buf, len, NULL, to, at, KEY, &op));
	else
		T_TRY(fi_read(n->ep, buf, len, NULL, to, at, KEY, &op));
	t_wait(__FILE__, __LINE__, &op, err);
}

/* The target's memory, an ordinary page first; of one process, itself. Elements lie across pages:
 * each is changed once. */
static void region(void)
{
	enum { LEN = 20 * PAGE, SKEW = 4, COUNT = (LEN - 8) / 8 };
	static const size_t parts[] = {8, 288, PAGE, 9000, LEN - PAGE};
	static uint64_t one[COUNT], old[COUNT], now[COUNT];
	bool target = t_rank == t_nproc - 1;
	struct t_opts o = {.caps = FI_RMA | FI_ATOMIC};
	struct own m = {0};
	struct fid_mr *mr = NULL;
	struct t_node n;

	begin(&n, &o);
	if (target) {
		m = own_make(LEN);
		mr = reg(&n, m.p, LEN);
		own_hide((struct own){m.p + PAGE, LEN - PAGE});
	}
	t_barrier();
	for (uint64_t i = 0; i < 5 && t_rank == 0; i++) {
		struct t_buf b = t_buf(parts[i], i);
		uint64_t at = i % 2 ? PAGE - 100 : PAGE;

		t_at("%zu bytes", parts[i]);
		t_fill(b.p, b.len, i, 0);
		rma(&n, true, b.p, b.len, at, 0);
		t_blank(&b);
		rma(&n, false, b.p, b.len, at, 0);
		T_GOT(&b, b.len, i);
		t_buf_free(&b);
	}
	t_barrier();
	if (target) {
		own_show(m);
		memset(m.p, 0, LEN);
		own_hide((struct own){m.p + PAGE, LEN - PAGE});
	}
	t_barrier();
	if (t_rank == 0) {
		fi_addr_t to = n.peer[t_nproc - 1];
		uint64_t two = 2, was = 99, three = 3;
		struct t_op op[5] = {0};

		t_at("atomic operations");
		for (uint64_t i = 0; i < COUNT; i++)
			one[i] = i + 1;
		T_TRY(fi_atomic(n.ep, one, COUNT, NULL, to, SKEW, KEY, FI_UINT64, FI_SUM, &op[0]));
		T_WAIT(&op[0]);
		T_TRY(fi_fetch_atomic(n.ep, one, COUNT, NULL, old, NULL, to, SKEW, KEY, FI_UINT64,
				      FI_SUM, &op[1]));
		T_WAIT(&op[1]);
		T_TRY(fi_fetch_atomic(n.ep, NULL, COUNT, NULL, now, NULL, to, SKEW, KEY, FI_UINT64,
				      FI_ATOMIC_READ, &op[2]));
		T_WAIT(&op[2]);
		for (uint64_t i = 0; i < COUNT; i++) {
			T_EQ(old[i], i + 1);
			T_EQ(now[i], 2 * (i + 1));
		}
		T_TRY(fi_compare_atomic(n.ep, &three, 1, NULL, &two, NULL, &was, NULL, to, SKEW,
					KEY, FI_UINT64, FI_CSWAP, &op[3]));
		T_WAIT(&op[3]);
		T_EQ(was, 2);
		T_TRY(fi_atomic(n.ep, one, COUNT, NULL, to, SKEW, KEY, FI_UINT64, FI_ATOMIC_WRITE,
				&op[4]));
		T_WAIT(&op[4]);
	}
	t_barrier();
	if (target) {
		own_show(m);
		for (uint64_t i = 0, value; i < COUNT; i++) {
			memcpy(&value, m.p + SKEW + 8 * i, 8);
			T_EQ(value, i + 1);
		}
		own_touched(true);
		T_OK(fi_close(&mr->fid));
		own_free(m);
	}
	t_finish(&n);
}

/* The origin's own buffers. */
static void buffers(void)
{
	enum { LEN = 50000 };
	struct t_opts o = {.caps = FI_RMA};
	struct t_buf there = t_buf(LEN, 0);
	struct fid_mr *mr;
	struct t_node n;

	begin(&n, &o);
	mr = reg(&n, there.p, LEN);
	t_barrier();
	if (t_rank == 0) {
		struct own m = own_make(LEN);

		for (uint64_t i = 0; i < 4; i++) {
			size_t len = i % 2 ? LEN : 8;

			t_fill(m.p, len, i, 0);
			own_hide(m);
			rma(&n, true, m.p, len, 0, 0);
			own_show(m);
			memset(m.p, T_BLANK, len);
			own_hide(m);
			rma(&n, false, m.p, len, 0, 0);
			own_show(m);
			T_SAME(m.p, len, i, 0);
		}
		own_free(m);
	}
	t_barrier();
	if (t_rank == 1)
		T_SAME(there.p, LEN, 3, 0);
	T_OK(fi_close(&mr->fid));
	t_buf_free(&there);
	t_finish(&n);
}

/* Short ones that are kept and done together, on such memory and on other, in turn. */
static void together(void)
{
	enum { COUNT = 200 };
	struct t_opts o = {.caps = FI_RMA};
	static uint64_t value[COUNT], got[COUNT];
	static struct t_op op[COUNT];
	struct fid_mr *mr = NULL;
	struct own m = {0};
	struct t_node n;

	setenv("FI_BEELINE_RMA_BATCH", "always", 1);
	begin(&n, &o);
	if (t_rank == 1) {
		m = own_make(2 * PAGE);
		mr = reg(&n, m.p, m.len);
		own_hide((struct own){m.p + PAGE, PAGE});
	}
	t_barrier();
	for (int read = 0; read < 2 && t_rank == 0; read++) {
		memset(op, 0, sizeof(op));
		for (uint64_t i = 0; i < COUNT; i++) {
			uint64_t at = 16 * (i / 3) + (i % 3 ? 0 : PAGE) + i % 3 / 2 * 8;

			value[i] = i + 77;
			if (read)
				T_TRY(fi_read(n.ep, &got[i], 8, NULL, n.peer[1], at, KEY, &op[i]));
			else
				T_TRY(fi_write(n.ep, &value[i], 8, NULL, n.peer[1], at, KEY,
					       &op[i]));
		}
		for (int i = 0; i < COUNT; i++)
			T_WAIT(&op[i]);
	}
	for (uint64_t i = 0; i < COUNT && t_rank == 0; i++)
		T_EQ(got[i], i + 77);
	t_barrier();
	if (t_rank == 1) {
		T_OK(fi_close(&mr->fid));
		own_free(m);
	}
	t_finish(&n);
}

/* Memory that is gone, at the target or at the origin: the operation's error, in nobody's death. */
static void gone(void)
{
	struct t_opts o = {.caps = FI_RMA | FI_ATOMIC};
	struct fid_mr *mr = NULL;
	struct t_buf b = t_buf(2 * PAGE, 0);
	uint64_t one[2] = {1, 1};
	struct own m, hole;
	struct t_node n;

	begin(&n, &o);
	m = own_make(3 * PAGE);
	hole = own_make(2 * PAGE);
	mr = reg(&n, m.p, m.len);
	T_OK(munmap(m.p + PAGE, PAGE));
	T_OK(munmap(hole.p + PAGE, PAGE));
	t_barrier();
	if (t_rank == 0) {
		struct t_op op = {0};

		rma(&n, true, b.p, 8, PAGE, FI_EFAULT);
		rma(&n, false, b.p, 8, PAGE, FI_EFAULT);
		rma(&n, true, b.p, 2 * PAGE, 0, FI_EFAULT);
		rma(&n, false, b.p, 2 * PAGE, 0, FI_EFAULT);
		T_TRY(fi_atomic(n.ep, one, 2, NULL, n.peer[1], PAGE - 8, KEY, FI_UINT64, FI_SUM,
				&op));
		T_WAIT_ERR(&op, FI_EFAULT);
		if (way != RING)
			rma(&n, false, hole.p, 2 * PAGE, 0, FI_EFAULT);
		rma(&n, true, b.p, 8, 0, 0);
		rma(&n, true, b.p, 8, 2 * PAGE, 0);
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	T_OK(munmap(m.p, PAGE));
	T_OK(munmap(m.p + 2 * PAGE, PAGE));
	T_OK(munmap(hole.p, PAGE));
	t_buf_free(&b);
	t_finish(&n);
}

/* --- all of these, in each kind of memory and each way ----------------------------- */

#define AS(name, k, w)                                                                             \
	static void name##_##k##_##w(void)                                                         \
	{                                                                                          \
		kind = k;                                                                          \
		way = w;                                                                           \
		name();                                                                            \
	}
#define KINDS(name, w)                                                                             \
	AS(name, WRITE_ONLY, w) AS(name, SECRET, w) AS(name, MENDED, w) AS(name, READ_ONLY, w)
KINDS(messages, DIRECT)
KINDS(messages, RING)
KINDS(pieces, DIRECT)
KINDS(multi, DIRECT)
KINDS(multi, RING)
KINDS(region, DIRECT)
KINDS(region, SERVED)
KINDS(region, RING)
KINDS(buffers, DIRECT)
KINDS(buffers, RING)
KINDS(together, DIRECT)
KINDS(together, SERVED)
AS(gone, WRITE_ONLY, DIRECT)
AS(gone, WRITE_ONLY, SERVED)
AS(gone, WRITE_ONLY, RING)

#define CASES(name, w, suffix, nproc, why)                                                         \
	{"owned_" #name "_write_only" suffix, nproc, name##_WRITE_ONLY_##w, why, 0},               \
		{"owned_" #name "_secret" suffix, nproc, name##_SECRET_##w, why, 0},               \
		{"owned_" #name "_read_only" suffix, nproc, name##_READ_ONLY_##w, why, 0},         \
	{                                                                                          \
		"owned_" #name "_mended" suffix, nproc, name##_MENDED_##w, why, 0                  \
	}

static const struct t_case cases[] = {
	CASES(messages, DIRECT, "", 2, "the owner copies"),
	CASES(messages, RING, "_ring", 2, "by hand anyway"),
	CASES(pieces, DIRECT, "", 2, "a part was copied before"),
	CASES(multi, DIRECT, "", 2, "a multi-receive's memory"),
	CASES(multi, RING, "_ring", 2, "by hand anyway"),
	CASES(region, DIRECT, "", 2, "the target does it"),
	CASES(region, SERVED, "_served", 2, "the target is asked anyway"),
	CASES(region, RING, "_ring", 2, "by the target's hand, not the kernel's"),
	CASES(region, DIRECT, "_self", 1, "its own target"),
	CASES(buffers, DIRECT, "", 2, "the origin touches its own"),
	CASES(buffers, RING, "_ring", 2, "by hand anyway"),
	CASES(together, DIRECT, "", 2, "some of those done together"),
	CASES(together, SERVED, "_served", 2, "the same in packets"),
	{"owned_gone", 2, gone_WRITE_ONLY_DIRECT, "an error, no death", 0},
	{"owned_gone_served", 2, gone_WRITE_ONLY_SERVED, "the same by a target that waits", 0},
	{"owned_gone_ring", 2, gone_WRITE_ONLY_RING, "the same where all is the target's", 0},
};

const struct t_group group_owned = T_GROUP("owned", cases);
