/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hello_fuzz.c: a libFuzzer target: a stranger of the same user at the socket of
 * a real endpoint, with any hello and any descriptors; or one who answers the
 * endpoint's own call like that. It says what comes next, says something else, or
 * hangs up. What is accepted is adopted and polled: the memory that came
 * along is full of the input as well. The service thread is the
 * real one; this thread waits until it has answered or hung up.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "endpoint/api.h"
#include "transport/local/ways/rndv.h"
#include "transport/local/link/atomics_page.h"
#include "transport/local/link/prove_access.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENDPOINT_INPUTS 256 /* then a new endpoint: peers are remembered */
#define PATIENCE_MS	5000

/* As in transport/local/link/hello.h; a mistake here is found by the corpus's good hello. */
struct hello {
	uint32_t magic;
	uint16_t version, size;
	struct bl_addr from;
	uint8_t to[16];
	uint32_t doorbell;
	int32_t status;
	uint32_t step;
	uint32_t unused;
	uint64_t seen;
};
enum { CALL = 1, SAY_ANSWER, GIVE, READY, PROVE, COMMONS };
#define HELLO_MAGIC 0x6f6c6c68u
static_assert(sizeof(struct hello) == 112, "as in transport/local/link/hello.h");

/* The first bytes of an input. */
struct plan {
	uint8_t mode;	    /* bits: see below */
	uint8_t descriptor; /* KINDS times the place of the odd one, plus what it is */
	uint8_t length;	    /* of the hello, if SHORT */
	uint8_t patches;    /* bytes of the hello to change: pairs of place, value */
};
#define ANSWER	   0x01u /* be called instead of calling */
#define SHORT	   0x02u
#define FEW_FDS	   0x04u /* only so many as come before the odd one */
#define GARBAGE	   0x08u /* all that is shared is the input's */
#define HANG_UP	   0x10u /* in the middle of it */
#define PATCH_LAST 0x20u /* the changes are to what is said without memory */
#define BRINGS	   0x40u /* memory comes along with the call; its own call: READY */
#define PROOF                                                                                      \
	0x80u /* it proves instead of calling; when called, it is asked for the atomics_page */

enum kind { GOOD, TOO_SHORT, MAY_SHRINK, NO_MEMFD, HUGE_PAGES, READ_ONLY, KINDS };

static const uint64_t secret = 1;
static struct bl_domain *domain;
static struct bl_av *av;
static struct bl_cq *cq;
static struct bl_ep *ep;
static struct bl_addr mine;
static unsigned inputs;

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void reopen(void)
{
	if (ep) {
		require(!bl_ep_close(ep));
		require(!bl_cq_close(cq));
		require(!bl_av_close(av));
		require(!bl_domain_close(domain));
	}
	require(!bl_domain_open(&domain));
	require(!bl_av_open(domain, &av));
	require(!bl_cq_open(domain, 0, &cq));
	require(!bl_ep_open(domain, &ep));
	require(!bl_ep_bind_av(ep, av));
	require(!bl_ep_bind_cq(ep, cq, BL_SEND | BL_RECV));
	require(!bl_ep_enable(ep));
	bl_ep_getname(ep, &mine);
}

static socklen_t name_of(const struct bl_addr *addr, struct sockaddr_un *name)
{
	int n;

	memset(name, 0, sizeof *name);
	name->sun_family = AF_UNIX;
	n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "beeline-");
	for (int i = 0; i < 16; i++)
		n += snprintf(name->sun_path + 1 + n, sizeof name->sun_path - 1 - (size_t)n, "%02x",
			      addr->id[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* One of the descriptors that come along, good or not. */
static int descriptor(enum kind kind, unsigned step, bool garbage, const uint8_t *data, size_t size)
{
	/* of a lane; the short ones take less time */
	static const size_t lengths[] = {BL_LANE_SIZE, BL_LANE_SIZE,	100000,
					 BL_LANE_LONG, BL_LANE_SIZE,	BL_LANE_MOST,
					 BL_LANE_SIZE, 2 * BL_LANE_MOST};
	size_t length = kind == TOO_SHORT ? 100 : lengths[size ? data[0] % 8 : 0];
	struct bl_seg_header *header;
	int fd;

	if (kind == NO_MEMFD)
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	if (kind == HUGE_PAGES) {
		fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
		if (fd >= 0 && !ftruncate(fd, 2 << 20) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	require(fd >= 0 && !ftruncate(fd, (off_t)length));
	if (kind == TOO_SHORT) {
		require(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
		return fd;
	}
	uint8_t *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	require(map != MAP_FAILED);
	if (garbage && size)
		for (size_t i = 0; i < length; i++)
			map[i] = data[i % size];
	header = (void *)map;
	header->magic = BL_SEG_MAGIC;
	header->version = BL_SEG_VERSION;
	if (!garbage)
		header->secret_at = (uintptr_t)&secret;
	if (step == COMMONS) {
		((struct bl_atomics_page *)map)->magic = BL_ATOMICS_PAGE_MAGIC;
		((struct bl_atomics_page *)map)->version = BL_ATOMICS_PAGE_VERSION;
	}
	munmap(map, length);
	if (kind != MAY_SHRINK)
		require(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	if (kind == READ_ONLY)
		require(!fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	return fd;
}

static void patch(struct hello *hello, const struct plan *plan, const uint8_t *data, size_t size)
{
	for (unsigned i = 0; i < plan->patches && size >= 2; i++, data += 2, size -= 2)
		((uint8_t *)hello)[data[0] % sizeof *hello] = data[1];
}

static void say_hello(int sock, const struct plan *plan, struct hello *hello, const uint8_t *data,
		      size_t size)
{
	struct iovec iov = {hello,
			    plan->mode & SHORT ? plan->length % sizeof *hello : sizeof *hello};
	union {
		char bytes[CMSG_SPACE(BL_FDS * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	unsigned odd = plan->descriptor / KINDS % BL_FDS;
	unsigned n = plan->mode & FEW_FDS ? odd : BL_FDS;
	int fd[BL_FDS];

	if (!(plan->mode & PATCH_LAST))
		patch(hello, plan, data, size);
	for (unsigned i = 0; i < n; i++)
		fd[i] = descriptor(i == odd ? plan->descriptor % KINDS : GOOD, hello->step,
				   plan->mode & GARBAGE, data, size);
	if (n) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fd, n * sizeof(int));
	}
	require(sendmsg(sock, &msg, MSG_NOSIGNAL) >= 0 || errno == EPIPE);
	for (unsigned i = 0; i < n; i++)
		close(fd[i]);
}

static void wait_for(int fd, short events)
{
	struct pollfd p = {fd, events, 0};
	int n;

	do /* libFuzzer's timer interrupts the call now and then */
		n = poll(&p, 1, PATIENCE_MS);
	while (n < 0 && errno == EINTR);
	require(n == 1); /* the service thread must not wedge */
}

/* It says something, and its memory may come along, or it hangs up. */
static bool heard(int sock, struct hello *hello)
{
	union {
		char bytes[CMSG_SPACE(BL_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {hello, sizeof *hello};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof control.bytes};

	wait_for(sock, POLLIN);
	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != sizeof *hello)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			close(fd);
		}
	return true;
}

static void progress(void)
{
	struct bl_comp comp;
	struct bl_comp_err err;

	for (int i = 0; i < 3; i++) {
		bl_ep_progress(ep);
		if (bl_cq_read(cq, &comp, 1, sizeof comp, NULL) == -BL_EAVAIL)
			bl_cq_readerr(cq, &err);
	}
}

/* One hello without memory. It has gone, or hung up already. */
static void say(int sock, const struct plan *plan, struct hello hello, unsigned step,
		const uint8_t *data, size_t size)
{
	hello.step = step;
	if (plan->mode & PATCH_LAST)
		patch(&hello, plan, data, size);
	require(send(sock, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello || errno == EPIPE ||
		errno == ECONNRESET);
}

static void call_it(const struct plan *plan, struct hello *hello, const uint8_t *data, size_t size)
{
	struct sockaddr_un name;
	socklen_t len = name_of(&hello->from, &name);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct hello answer;

	/* Whoever has a name listens under it. */
	require(listener >= 0 && !bind(listener, (struct sockaddr *)&name, len) &&
		!listen(listener, 4));
	len = name_of(&mine, &name);

	require(sock >= 0 && !connect(sock, (struct sockaddr *)&name, len));
	hello->step = plan->mode & PROOF ? PROVE : CALL;
	hello->seen = *(const uint64_t *)(uintptr_t)bl_atomics_page_secret_at();
	if (plan->mode & BRINGS)
		say_hello(sock, plan, hello, data, size);
	else
		say(sock, plan, *hello, hello->step, data, size);
	if (heard(sock, &answer) && !answer.status && !(plan->mode & HANG_UP)) {
		hello->step = GIVE;
		say_hello(sock, plan, hello, data, size);
		wait_for(sock, POLLIN); /* it has decided: it answers or hangs up */
	}
	close(sock);
	close(listener);
}

/* The endpoint wants the lock of our memory: as another process's, which we aren't. */
static void be_asked(struct bl_peer *peer, int listener, const struct plan *plan,
		     struct hello *hello, const uint8_t *data, size_t size)
{
	struct bl_atomics_page_wait wait = {0};
	struct bl_atomics_page *atomics_page;
	struct hello proof;
	int sock;

	peer->copy.pull = BL_COPY_VM;
	if (bl_peer_atomics_page(peer, &atomics_page) != -EAGAIN)
		return; /* there is no secret where it was told to read */
	wait_for(listener, POLLIN);
	sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	require(sock >= 0 && heard(sock, &proof));
	hello->step = COMMONS;
	if (!(plan->mode & HANG_UP))
		say_hello(sock, plan, hello, data, size);
	close(sock);
	for (int i = 0; i < 1000000 && bl_peer_atomics_page(peer, &atomics_page) == -EAGAIN; i++)
		sched_yield();
	require(bl_peer_atomics_page(peer, &atomics_page) !=
		-EAGAIN); /* it has heard, or that we hung up */
	if (atomics_page && !bl_atomics_page_lock(atomics_page, &wait))
		bl_atomics_page_unlock(atomics_page);
}

static void be_called(const struct plan *plan, struct hello *hello, const uint8_t *data,
		      size_t size)
{
	struct sockaddr_un name;
	socklen_t len = name_of(&hello->from, &name);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), sock, err;
	struct bl_peer *peer;
	struct hello call;
	uint64_t index;

	require(listener >= 0 && !bind(listener, (struct sockaddr *)&name, len) &&
		!listen(listener, 4));
	require(!bl_av_insert(av, &hello->from, &index));
	require(!bl_ep_resolve(ep, index, &peer));
	err = bl_peer_connect(peer);
	require(err == -EAGAIN);
	wait_for(listener, POLLIN);
	sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC); /* it is there: no wait */
	require(sock >= 0);
	require(heard(sock, &call)); /* its hello */
	hello->step = SAY_ANSWER;
	say_hello(sock, plan, hello, data, size);
	if (heard(sock, &call) && !(plan->mode & HANG_UP)) { /* what it gives */
		hello->step = READY;
		if (plan->mode & BRINGS)
			say_hello(sock, plan, hello, data, size);
		else
			say(sock, plan, *hello, READY, data, size);
		wait_for(sock, POLLIN); /* it has decided: it hangs up in any case */
	}
	close(sock);
	for (int i = 0; i < 1000 && atomic_load(&peer->state) == BL_PEER_CONNECTING; i++)
		sched_yield(); /* it calls again if it was told to */
	bl_ep_adopt(ep);
	if (peer->adopted)
		bl_inject(ep, "x", 1, index, 1, 0, BL_TAGGED);
	if (peer->adopted && plan->mode & PROOF)
		be_asked(peer, listener, plan, hello, data, size);
	close(listener);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hello hello = {
		.magic = HELLO_MAGIC, .version = BL_SEG_VERSION, .size = sizeof hello};
	struct plan plan;

	if (size < sizeof plan)
		return 0;
	memcpy(&plan, data, sizeof plan);
	data += sizeof plan;
	size -= sizeof plan;
	if (inputs++ % ENDPOINT_INPUTS == 0)
		reopen();
	hello.from = mine;
	memcpy(hello.from.id, &inputs, sizeof inputs); /* somebody new each time */
	memcpy(hello.to, mine.id, sizeof hello.to);
	(plan.mode & ANSWER ? be_called : call_it)(&plan, &hello, data, size);
	progress();
	return 0;
}
