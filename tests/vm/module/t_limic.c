// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * liblimic2, by its own header only. The same program runs with beeline.ko and without it; what
 * it sees must not differ. Also runs outside a guest, on process_vm_readv().
 */
#include <pthread.h>

#include "limic.h"
#include "vmtest.h"

#define LEN (40 * PAGE)

static int fd;

/* The announcing side: a process that does as it is told, one order at a time. */
struct order {
	enum { ANNOUNCE, FILL, CHECK_IS, PROTECT, UNMAP, CLOSE, FORK_ANNOUNCE } what;
	size_t at, len;
	unsigned int arg;
};

struct answer {
	limic_user lu;
	size_t n;
};

/* The child of the announcer: has the same addresses, other bytes, and answers in its place. */
static void announce_forked(int sock, int its_fd, char *p, const struct order *o)
{
	struct answer a = {0};
	pid_t child = fork();
	int status;

	if (!child) {
		memset(p, 0x5C, LEN);
		a.n = limic_tx_init(its_fd, p + o->at, o->len, &a.lu);
		vt_send(sock, &a, sizeof(a));
		vt_await(sock);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	EQ(status, 0);
}

static void announce_by(int sock, int its_fd)
{
	char *p = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct order o;

	CHECK(its_fd >= 0);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	while (recv(sock, &o, sizeof(o), 0) == sizeof(o)) {
		struct answer a = {0};

		switch (o.what) {
		case ANNOUNCE:
			a.n = limic_tx_init(its_fd, p + o.at, o.len, &a.lu);
			break;
		case FILL:
			mem_fill(p + o.at, o.len, o.arg);
			break;
		case CHECK_IS:
			a.n = mem_is(p + o.at, o.len, o.arg);
			break;
		case PROTECT:
			mprotect(p + o.at, o.len, (int)o.arg);
			break;
		case UNMAP:
			munmap(p + o.at, o.len);
			break;
		case CLOSE:
			limic_close(its_fd);
			break;
		case FORK_ANNOUNCE:
			announce_forked(sock, its_fd, p, &o);
			continue;
		}
		vt_send(sock, &a, sizeof(a));
	}
}

static void announcer(int sock, void *arg)
{
	(void)arg;
	announce_by(sock, limic_open());
}

/* One that may not open the device. */
static void announcer_without(int sock, void *arg)
{
	(void)arg;
	announce_by(sock, open("/dev/null", O_RDWR | O_CLOEXEC));
}

static struct peer peer;

static struct answer tell(int what, size_t at, size_t len, unsigned int arg)
{
	struct order o = {what, at, len, arg};
	struct answer a;

	vt_send(peer.sock, &o, sizeof(o));
	vt_recv(peer.sock, &a, sizeof(a));
	return a;
}

static limic_user announce(size_t at, size_t len)
{
	struct answer a = tell(ANNOUNCE, at, len, 0);

	EQ(a.n, len);
	EQ(a.lu.length, len);
	EQ(a.lu.offset, a.lu.va % PAGE);
	return a.lu;
}

static void begin(void)
{
	fd = limic_open();
	CHECK(fd >= 0);
	peer = peer_start(announcer, NULL);
}

static void end(void)
{
	close(peer.sock);
	CHECK(waitpid(peer.pid, NULL, 0) == peer.pid);
	limic_close(fd);
}

/* Field by field: copies of the struct need not keep its padding. */
static bool same(const limic_user *a, const limic_user *b)
{
	return a->nr_pages == b->nr_pages && a->offset == b->offset && a->length == b->length &&
	       a->va == b->va && a->mm == b->mm && a->tsk == b->tsk;
}

static void sizes_both_ways(void)
{
	static const size_t sizes[] = {1,	 7,	    PAGE - 1,	   PAGE,	 PAGE + 1,
				       3 * PAGE, 31 * PAGE, 31 * PAGE + 1, 33 * PAGE + 5};
	static const size_t ats[] = {0, 1, 100, PAGE - 1, PAGE, 2 * PAGE + 33};
	char *buf = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	unsigned int seed = 0;

	begin();
	for (size_t s = 0; s < NELEM(sizes); s++)
		for (size_t a = 0; a < NELEM(ats); a++) {
			limic_user lu = announce(ats[a], sizes[s]);

			tell(FILL, ats[a], sizes[s], ++seed);
			memset(buf, 0xA5, LEN);
			EQ(limic_rx_comp(fd, buf + 9, sizes[s], &lu), sizes[s]);
			EQ(lu.length, sizes[s]);
			CHECK(mem_is(buf + 9, sizes[s], seed) && mem_all(buf, 9, 0xA5) &&
			      mem_all(buf + 9 + sizes[s], 64, 0xA5));
			mem_fill(buf, sizes[s], ++seed);
			EQ(limic_tx_comp(fd, buf, sizes[s], &lu), sizes[s]);
			EQ(tell(CHECK_IS, ats[a], sizes[s], seed).n, 1);
		}
	end();
}

/* The shorter of the two lengths counts. */
static void lengths_differ(void)
{
	char buf[3 * PAGE];
	limic_user lu;

	begin();
	tell(FILL, 0, LEN, 1);
	lu = announce(0, 2 * PAGE);
	memset(buf, 0, sizeof(buf));
	EQ(limic_rx_comp(fd, buf, sizeof(buf), &lu), 2 * PAGE);
	CHECK(mem_is(buf, 2 * PAGE, 1) && mem_all(buf + 2 * PAGE, PAGE, 0));
	memset(buf, 0, sizeof(buf));
	EQ(limic_rx_comp(fd, buf, 100, &lu), 100);
	EQ(lu.length, 100);
	CHECK(mem_all(buf + 100, PAGE, 0));
	errno = 0;
	EQ(limic_rx_comp(fd, buf, 0, &lu), 0);
	EQ(errno, EINVAL);
	EQ(tell(ANNOUNCE, 0, 0, 0).n, 0);
	end();
}

/* A message received into several buffers: after each, the receiver moves on, as MVAPICH2 does. */
static void receive_in_parts(void)
{
	static const size_t parts[] = {100, PAGE, 1, 2 * PAGE + 7, 5000};
	char *buf = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	size_t left = 0, at = 0;
	limic_user lu;

	begin();
	for (size_t i = 0; i < NELEM(parts); i++)
		left += parts[i];
	tell(FILL, 50, left, 3);
	lu = announce(50, left);
	for (size_t i = 0; i < NELEM(parts); i++) {
		EQ(limic_rx_comp(fd, buf + at, parts[i], &lu), parts[i]);
		at += parts[i];
		left -= parts[i];
		lu.va += parts[i];
		lu.offset = lu.va % PAGE;
		lu.length = left;
		lu.nr_pages = (int)((lu.va + left + PAGE - 1) / PAGE - lu.va / PAGE);
	}
	CHECK(mem_is(buf, at, 3));
	end();
}

/* A window: put and get at displacements, by moving the offset alone. */
static void window_by_offset(void)
{
	static const size_t at[] = {0, 8, PAGE - 30, 3 * PAGE + 11, 20 * PAGE - 64};
	char buf[64], back[64];
	limic_user win, lu;

	begin();
	win = announce(30, 20 * PAGE);
	for (size_t i = 0; i < NELEM(at); i++) {
		mem_fill(buf, sizeof(buf), i);
		lu = win;
		lu.offset += at[i];
		EQ(limic_tx_comp(fd, buf, sizeof(buf), &lu), sizeof(buf));
		EQ(tell(CHECK_IS, 30 + at[i], sizeof(buf), i).n, 1);
		lu = win;
		lu.offset += at[i];
		EQ(limic_rx_comp(fd, back, sizeof(back), &lu), sizeof(back));
		CHECK(!memcmp(buf, back, sizeof(buf)));
	}
	lu = win;
	lu.offset += 20 * PAGE - 63;
	EQ(limic_rx_comp(fd, back, sizeof(back), &lu), 0);
	EQ(errno, ERANGE);
	end();
}

static void refused(limic_user lu, size_t len, int error)
{
	char buf[PAGE];
	limic_user before = lu;

	memset(buf, 0x33, sizeof(buf));
	errno = 0;
	EQ(limic_rx_comp(fd, buf, len, &lu), 0);
	if (error)
		EQ(errno, error);
	CHECK(errno && mem_all(buf, sizeof(buf), 0x33));
	CHECK(same(&lu, &before));
	EQ(limic_tx_comp(fd, buf, len, &lu), 0);
}

static void tampering(void)
{
	limic_user lu, t;
	char buf[200];

	begin();
	tell(FILL, 0, LEN, 1);
	lu = announce(2 * PAGE + 100, 200);
	/* Every bit of the two words that name the announcement. */
	for (int bit = 0; bit < 128; bit++) {
		t = lu;
		((unsigned char *)&t.mm)[bit / 8] ^= 1 << bit % 8;
		refused(t, 200, 0);
	}
	/* Leaving the announced range, in either direction and by each field. */
	for (int i = 0; i < 8; i++) {
		t = lu;
		switch (i) {
		case 0:
			t.va -= PAGE;
			break;
		case 1:
			t.va += PAGE;
			break;
		case 2:
			t.offset--;
			break;
		case 3:
			t.offset++;
			break;
		case 4:
			t.length = 201;
			break;
		case 5:
			t.offset = (size_t)-1;
			break;
		case 6:
			t.va = 0;
			break;
		case 7:
			t.va = ~0ul;
			t.length = 1;
			break;
		}
		refused(t, i == 4 ? 201 : 200, ERANGE);
	}
	memset(&t, 0, sizeof(t));
	refused(t, 100, 0);
	t.length = 100;
	refused(t, 100, ENOENT);
	memset(&t, 0xff, sizeof(t));
	refused(t, 100, 0);
	t = lu;
	t.mm = NULL;
	refused(t, 100, 0);
	t = lu;
	t.tsk = NULL;
	refused(t, 100, 0);
	/* And as it came, it works. */
	EQ(limic_rx_comp(fd, buf, 200, &lu), 200);
	end();
}

static void memory_ends(void)
{
	char *buf = mem_map(LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	limic_user lu;

	begin();
	tell(FILL, 0, LEN, 1);
	lu = announce(10, 10 * PAGE);
	tell(PROTECT, 0, LEN, PROT_READ);
	EQ(limic_rx_comp(fd, buf, 10 * PAGE, &lu), 10 * PAGE);
	EQ(limic_tx_comp(fd, buf, 10 * PAGE, &lu), 0);
	EQ(errno, EFAULT);
	EQ(tell(CHECK_IS, 0, LEN, 1).n, 1);
	tell(UNMAP, 5 * PAGE, PAGE, 0);
	memset(buf, 0x77, LEN);
	EQ(limic_rx_comp(fd, buf, 10 * PAGE, &lu), 5 * PAGE - 10);
	EQ(lu.length, 5 * PAGE - 10);
	CHECK(mem_all(buf + lu.length, LEN - lu.length, 0x77));
	lu = announce(5 * PAGE, PAGE);
	EQ(limic_rx_comp(fd, buf, PAGE, &lu), 0);
	EQ(errno, EFAULT);
	/* Our own memory. */
	lu = announce(0, PAGE);
	EQ(limic_rx_comp(fd, NULL, PAGE, &lu), 0);
	EQ(errno, EFAULT);
	end();
}

static void announcements_end(void)
{
	char buf[100];
	limic_user lu, other;

	begin();
	lu = announce(0, 100);
	other = announce(0, 100);
	CHECK(same(&lu, &other));
	EQ(limic_rx_comp(fd, buf, 100, &lu), 100);
	tell(CLOSE, 0, 0, 0);
	EQ(limic_rx_comp(fd, buf, 100, &lu), 0);
	EQ(errno, ENOENT);
	end();
	begin();
	lu = announce(0, 100);
	kill(peer.pid, SIGKILL);
	EQ(WTERMSIG(peer_wait(&peer)), SIGKILL);
	EQ(limic_rx_comp(fd, buf, 100, &lu), 0);
	CHECK(errno == ENOENT || errno == ESRCH);
	limic_close(fd);
}

/* What a child announces is its own memory, even what its parent had announced before. */
static void announced_after_fork(void)
{
	struct order o = {FORK_ANNOUNCE, 0, 1000, 0};
	struct answer a;
	char buf[1000];
	limic_user parent;

	begin();
	tell(FILL, 0, LEN, 1);
	parent = announce(0, 1000);
	vt_send(peer.sock, &o, sizeof(o));
	vt_recv(peer.sock, &a, sizeof(a));
	EQ(a.n, 1000);
	EQ(limic_rx_comp(fd, buf, 1000, &a.lu), 1000);
	CHECK(mem_all(buf, 1000, 0x5C));
	EQ(limic_rx_comp(fd, buf, 1000, &parent), 1000);
	CHECK(mem_is(buf, 1000, 1));
	vt_tell(peer.sock);
	end();
}

/* More than 2 GiB that occupy 16 MiB: the same file, mapped over and over. */
static char *map_over(size_t len)
{
	const size_t each = 16ul << 20;
	char *p = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int file = memfd_create("t", MFD_CLOEXEC);

	CHECK(p != MAP_FAILED && file >= 0 && !ftruncate(file, each));
	for (size_t at = 0; at < len; at += each)
		CHECK(mmap(p + at, len - at < each ? len - at : each, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED);
	return p;
}

static void more_than_2_gib(void)
{
	const size_t len = (2ul << 30) + 3 * PAGE;
	char *from = map_over(len), *to = map_over(len);
	limic_user lu;

	fd = limic_open();
	memset(from, 0x42, 16ul << 20);
	memset(to, 0, 16ul << 20);
	EQ(limic_tx_init(fd, from, len, &lu), len);
	EQ(limic_rx_comp(fd, to, len, &lu), len);
	EQ(lu.length, len);
	CHECK(mem_all(to, 16ul << 20, 0x42));
}

static void oldest_is_retired(void)
{
	char *p = mem_map(LIMIC_MOST + 2, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	limic_user first, lu, second;
	char c;

	fd = limic_open();
	EQ(limic_tx_init(fd, p, 1, &first), 1);
	EQ(limic_tx_init(fd, p + 1, 1, &second), 1);
	for (size_t i = 2; i < LIMIC_MOST; i++)
		EQ(limic_tx_init(fd, p + i, 1, &lu), 1);
	EQ(limic_rx_comp(fd, &c, 1, &first), 1);
	EQ(limic_tx_init(fd, p + LIMIC_MOST, 1, &lu), 1);
	EQ(limic_rx_comp(fd, &c, 1, &first), 0);
	EQ(errno, ENOENT);
	EQ(limic_rx_comp(fd, &c, 1, &second), 1);
	EQ(limic_rx_comp(fd, &c, 1, &lu), 1);
	limic_close(fd);
}

/* Of two processes one may open the device, the other may not: either way the bytes arrive. */
static void module_on_one_side(void)
{
	int with, without = open("/dev/null", O_RDWR | O_CLOEXEC);
	char buf[3 * PAGE];
	limic_user lu, t;

	begin();
	with = fd;
	tell(FILL, 100, 2 * PAGE, 9);
	lu = announce(100, 2 * PAGE);
	EQ(limic_rx_comp(without, buf, sizeof(buf), &lu), 2 * PAGE);
	EQ(lu.length, 2 * PAGE);
	CHECK(mem_is(buf, 2 * PAGE, 9));
	mem_fill(buf, 2 * PAGE, 10);
	EQ(limic_tx_comp(without, buf, 2 * PAGE, &lu), 2 * PAGE);
	EQ(tell(CHECK_IS, 100, 2 * PAGE, 10).n, 1);

	/* Received in parts, with nr_pages computed anew. */
	tell(FILL, 100, PAGE, 12);
	t = lu;
	for (size_t at = 0; at < PAGE; at += PAGE / 4) {
		EQ(limic_rx_comp(without, buf + at, PAGE / 4, &t), PAGE / 4);
		t.va += PAGE / 4;
		t.offset = t.va % PAGE;
		t.length = 2 * PAGE - at - PAGE / 4;
		t.nr_pages = (int)((t.va + t.length + PAGE - 1) / PAGE - t.va / PAGE);
	}
	CHECK(mem_is(buf, PAGE, 12));

	fd = without;
	for (int bit = 0; bit < 128; bit++) {
		t = lu;
		((unsigned char *)&t.mm)[bit / 8] ^= 1 << bit % 8;
		refused(t, 200, 0);
	}
	t = lu;
	t.offset--;
	refused(t, 200, ERANGE);
	t = lu;
	t.offset++;
	refused(t, 2 * PAGE, ERANGE);
	tell(CLOSE, 0, 0, 0);
	/* Copied from before: the buffer may be cleared, once. */
	t = lu;
	EQ(limic_rx_comp(fd, buf, 200, &t), 0);
	EQ(errno, ENOENT);
	refused(lu, 200, ENOENT);
	fd = with;
	end();

	peer = peer_start(announcer_without, NULL);
	fd = limic_open();
	tell(FILL, 100, 2 * PAGE, 11);
	lu = announce(100, 2 * PAGE);
	EQ(limic_rx_comp(fd, buf, 2 * PAGE, &lu), 2 * PAGE);
	CHECK(mem_is(buf, 2 * PAGE, 11));
	end();
	close(without);
}

static void *one_thread(void *arg)
{
	char *p = mem_map(64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE), buf[PAGE];
	int me = (int)(intptr_t)arg;

	for (unsigned int i = 0; i < 3000; i++) {
		size_t at = i * 1777 % (60 * PAGE);
		limic_user lu;

		memset(p + at, me + (int)i, 100);
		EQ(limic_tx_init(fd, p + at, 100, &lu), 100);
		EQ(limic_rx_comp(fd, buf, 100, &lu), 100);
		CHECK(mem_all(buf, 100, me + i));
	}
	return NULL;
}

static void threads(void)
{
	pthread_t t[4];

	fd = limic_open();
	for (long i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, one_thread, (void *)(i * 64));
	for (long i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	limic_close(fd);
}

static const struct test tests[] = {
	{"limic_sizes_both_ways", sizes_both_ways, 0},
	{"limic_lengths_differ", lengths_differ, 0},
	{"limic_receive_in_parts", receive_in_parts, 0},
	{"limic_window_by_offset", window_by_offset, 0},
	{"limic_tampering", tampering, 0},
	{"limic_memory_ends", memory_ends, 0},
	{"limic_announcements_end", announcements_end, 0},
	{"limic_announced_after_fork", announced_after_fork, 0},
	{"limic_more_than_2_gib", more_than_2_gib, 600},
	{"limic_oldest_is_retired", oldest_is_retired, 600},
	{"limic_module_on_one_side", module_on_one_side, 0},
	{"limic_threads", threads, 300},
};

int main(int argc, char **argv)
{
	return vt_main(tests, NELEM(tests), argc, argv);
}
