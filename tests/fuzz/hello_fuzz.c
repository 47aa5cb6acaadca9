/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hello_fuzz.c: a libFuzzer target: a stranger of the same user at the socket of
 * a real endpoint, with any hello and any descriptors; or one who answers the
 * endpoint's own call like that. What is accepted is adopted and polled: the
 * memory that came along is full of the input as well. The service thread is the
 * real one; this thread waits until it has answered or hung up.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENDPOINT_INPUTS 256 /* then a new endpoint: peers are remembered */
#define PATIENCE_MS	5000

/* As in local/hello.h; a mistake here is found by the corpus's good hello. */
struct hello {
	uint32_t magic;
	uint16_t version, size;
	struct bl_addr from;
	uint8_t to[16];
	uint64_t lane_at;
	uint32_t bell;
	int32_t status;
};
#define HELLO_MAGIC 0x6f6c6c68u
static_assert(sizeof(struct hello) == 104, "as in local/hello.h");

/* The first bytes of an input. */
struct plan {
	uint8_t mode;	    /* bits: see below */
	uint8_t descriptor; /* which, modulo the kinds */
	uint8_t length;	    /* of the hello, if SHORT */
	uint8_t patches;    /* bytes of the hello to change: pairs of place, value */
};
#define ANSWER	0x01u /* be called instead of calling */
#define SHORT	0x02u
#define TWO_FDS 0x04u
#define GARBAGE 0x08u /* the segment's header and lane are the input's */

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

/* A descriptor that may come along, good or not; -1: none. */
static int descriptor(const struct plan *plan, const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct bl_seg_header *header;
	size_t length = plan->descriptor % 6 == 1 ? 100 : 3 * BL_LANE_SIZE;

	require(fd >= 0 && !ftruncate(fd, (off_t)length));
	switch (plan->descriptor % 6) {
	case 2: /* may shrink later */
		return fd;
	case 3:
		close(fd);
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 4:
		close(fd);
		return -1;
	}
	require(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	if (length < BL_LANE_SIZE)
		return fd;
	uint8_t *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	require(map != MAP_FAILED);
	if (plan->mode & GARBAGE && size)
		for (size_t i = 0; i < length; i++)
			map[i] = data[i % size];
	header = (void *)map;
	header->magic = BL_SEG_MAGIC;
	header->version = BL_SEG_VERSION;
	munmap(map, length);
	return fd;
}

static void say_hello(int sock, const struct plan *plan, struct hello *hello, const uint8_t *data,
		      size_t size)
{
	struct iovec iov = {hello,
			    plan->mode & SHORT ? plan->length % sizeof *hello : sizeof *hello};
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int fd[2] = {-1, -1}, n = plan->mode & TWO_FDS ? 2 : 1;

	for (unsigned i = 0; i < plan->patches && size >= 2; i++, data += 2, size -= 2)
		((uint8_t *)hello)[data[0] % sizeof *hello] = data[1];
	fd[0] = descriptor(plan, data, size);
	if (fd[0] >= 0) {
		fd[1] = dup(fd[0]);
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
		memcpy(CMSG_DATA(c), fd, (size_t)n * sizeof(int));
	}
	require(sendmsg(sock, &msg, MSG_NOSIGNAL) >= 0 || errno == EPIPE);
	for (int i = 0; i < 2; i++)
		if (fd[i] >= 0)
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

/* It answers or hangs up; a descriptor of its own may come along. */
static void read_answer(int sock)
{
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control;
	char bytes[256];
	struct iovec iov = {bytes, sizeof bytes};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof control.bytes};

	wait_for(sock, POLLIN);
	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) <= 0)
		return;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		int fd;

		memcpy(&fd, CMSG_DATA(c), sizeof fd);
		close(fd);
	}
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

static void call_it(const struct plan *plan, struct hello *hello, const uint8_t *data, size_t size)
{
	struct sockaddr_un name;
	socklen_t len = name_of(&hello->from, &name);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	/* Whoever has a name listens under it. */
	require(listener >= 0 && !bind(listener, (struct sockaddr *)&name, len) &&
		!listen(listener, 4));
	len = name_of(&mine, &name);

	require(sock >= 0 && !connect(sock, (struct sockaddr *)&name, len));
	say_hello(sock, plan, hello, data, size);
	read_answer(sock);
	close(sock);
	close(listener);
}

static void be_called(const struct plan *plan, struct hello *hello, const uint8_t *data,
		      size_t size)
{
	struct sockaddr_un name;
	socklen_t len = name_of(&hello->from, &name);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), sock, err;
	uint64_t index;

	require(listener >= 0 && !bind(listener, (struct sockaddr *)&name, len) &&
		!listen(listener, 4));
	require(!bl_av_insert(av, &hello->from, &index));
	err = bl_inject(ep, "x", 1, index, 1, 0, BL_TAGGED);
	require(err == -EAGAIN);
	wait_for(listener, POLLIN);
	sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC); /* it is there: no wait */
	require(sock >= 0);
	read_answer(sock); /* its hello */
	say_hello(sock, plan, hello, data, size);
	wait_for(sock, POLLIN); /* it has decided: it hangs up in any case */
	close(sock);
	close(listener);
	bl_inject(ep, "x", 1, index, 1, 0, BL_TAGGED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hello hello = {.magic = HELLO_MAGIC,
			      .version = BL_SEG_VERSION,
			      .size = sizeof hello,
			      .lane_at = BL_LANE_SIZE};
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
