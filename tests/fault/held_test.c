/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * held_test.c: somebody sends a victim what keeps whoever ends its last use (a TCP socket
 * that lingers for an hour), or tells it to read where the kernel waits without end (a
 * page of userfaultfd). Meanwhile the victim connects with a friend, forks, and closes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/world.h"
#include "transport/local/link/hello.h"
#include "transport/local/local.h"

#define LINGER_S    3600
#define TOLERATED_S 10
#define NOTHING	    0u /* no step: a message of no bytes */
#define SOME	    24 /* more than threads may be kept */

enum { VICTIM, FRIEND, HOLDER };

/* What the holder does, until the victim has answered it or hung up. */
enum act {
	WITH_CALL,    /* its call brings it */
	WITH_NOTHING, /* so does a message of no bytes, in which nothing can be read */
	BEHIND_CALL,  /* something it says behind its call */
	AS_STRANGER,  /* another user's call, before anybody looked who calls */
	AS_MEMORY,    /* what it gives is that, and no memory */
	WITH_PROOF,   /* what says that it may have the lock of the victim's memory */
	SECRET_WAITS, /* its own secret lies where the kernel waits */
};

struct held_row {
	struct row row;
	enum act act;
	int times;
};

static const struct held_row rows[] = {
	{{"a call", "brings a socket that lingers"}, WITH_CALL, SOME},
	{{"a message of no bytes", "brings a socket that lingers"}, WITH_NOTHING, SOME},
	{{"behind a call", "comes a socket that lingers"}, BEHIND_CALL, SOME},
	{{"another user's call", "brings a socket that lingers"}, AS_STRANGER, SOME},
	{{"a proof", "brings a socket that lingers"}, WITH_PROOF, SOME},
	{{"instead of memory", "come sockets that linger"}, AS_MEMORY, SOME},
	{{"a secret", "lies where the kernel waits"}, SECRET_WAITS, 1},
};

struct line_row {
	struct row row;
	bool strangers, served;
};

static const struct line_row lines[] = {
	{{"neighbours", "the endpoint closes"}, false, false},
	{{"neighbours", "it is enabled"}, false, true},
	{{"strangers", "the endpoint closes"}, true, false},
	{{"strangers", "it is enabled"}, true, true},
};

static const struct line_row *line_row;
static const struct held_row *row;

/* --- what keeps others --------------------------------------------------------------- */

static int tcp_listener(struct sockaddr_in *at)
{
	socklen_t len = sizeof *at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	RANK_CHECK(HOLDER, fd >= 0 && !bind(fd, (struct sockaddr *)at, len) &&
				   !listen(fd, 2 * SOME) &&
				   !getsockname(fd, (struct sockaddr *)at, &len));
	return fd;
}

/* Full of bytes that nobody reads. */
static int lingering(const struct sockaddr_in *to)
{
	static const char bytes[65536];
	struct linger linger = {1, LINGER_S};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	RANK_CHECK(HOLDER, fd >= 0 && !connect(fd, (const struct sockaddr *)to, sizeof *to));
	while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
		;
	RANK_CHECK(HOLDER, !setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
	return fd;
}

/* A page that isn't there until somebody brings it, and nobody does, as long as this
 * descriptor is open; or -1. */
static int make_waiting_page(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	range.range.start = (uintptr_t)page;
	range.range.len = 4096;
	if (fd < 0)
		return -1;
	RANK_CHECK(HOLDER, !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &range));
	ep->local.seg.header->secret_at = (uintptr_t)page;
	return fd;
}

/* --- the holder ---------------------------------------------------------------------- */

static struct bl_hello hello_of(unsigned step)
{
	struct bl_hello hello = {
		.magic = HELLO_MAGIC,
		.version = BL_SEG_VERSION,
		.size = sizeof hello,
		.from = ep->local.addr,
		.step = step,
	};

	memcpy(hello.to, world->addr[VICTIM].id, sizeof hello.to);
	return hello;
}

/* False: it has hung up already. */
static bool send_hello(int sock, unsigned step, const int fd[2])
{
	struct bl_hello hello = hello_of(step);
	struct iovec iov = {&hello, sizeof hello};
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = step != NOTHING};

	if (fd) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof control.bytes;
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(2 * sizeof(int));
		memcpy(CMSG_DATA(c), fd, 2 * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) >= 0;
}

/*
 * With sockets that linger, if so. A child sends them and ends, for whom they don't linger:
 * the last use is the victim's, unless that is quicker still.
 */
static void say(int sock, unsigned step, const struct sockaddr_in *linger)
{
	int fd[2], status = 1;
	pid_t pid;

	if (!linger) {
		RANK_CHECK(HOLDER, send_hello(sock, step, NULL));
		return;
	}
	pid = fork();
	if (!pid) {
		fd[0] = lingering(linger);
		fd[1] = lingering(linger);
		_exit(!send_hello(sock, step, fd) && errno != EPIPE && errno != ECONNRESET);
	}
	RANK_CHECK(HOLDER, pid > 0 && waitpid(pid, &status, 0) == pid && !status);
}

/* It has answered, or hung up (false). */
static bool hears(int sock)
{
	char bytes[256];

	return recv(sock, bytes, sizeof bytes, 0) > 0;
}

static void hold_once(const struct sockaddr_in *linger)
{
	struct sockaddr_un name;
	socklen_t len = bl_socket_name(&name, world->addr[VICTIM].id);
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	RANK_CHECK(HOLDER, sock >= 0 && !connect(sock, (struct sockaddr *)&name, len));
	switch (row->act) {
	case WITH_CALL:
	case AS_STRANGER:
		say(sock, BL_HELLO_CALL, linger);
		break;
	case WITH_NOTHING:
		say(sock, NOTHING, linger);
		break;
	case WITH_PROOF:
		say(sock, BL_HELLO_PROVE, linger);
		break;
	case BEHIND_CALL:
		say(sock, BL_HELLO_CALL, NULL);
		say(sock, BL_HELLO_PROVE, linger);
		break;
	case AS_MEMORY:
		say(sock, BL_HELLO_CALL, NULL);
		RANK_CHECK(HOLDER, hears(sock));
		say(sock, BL_HELLO_GIVE, linger);
		break;
	case SECRET_WAITS:
		break;
	}
	while (hears(sock))
		; /* until it hangs up */
	close(sock);
}

static void reach(int rank, int to, uint64_t tag)
{
	struct deadline late = deadline_in(TOLERATED_S * 1000000000ull);
	int err;

	while ((err = bl_inject(ep, "x", 1, world_index[to], tag, 0, BL_TAGGED)) == -EAGAIN) {
		bl_ep_progress(ep);
		if (deadline_over(&late))
			rank_fail(rank, "no connection to rank %d", to);
	}
	RANK_CHECK(rank, !err);
}

static void hold(void)
{
	struct sockaddr_in at;
	int listener = tcp_listener(&at), status = 1;
	pid_t pid = -1;

	if (row->act == SECRET_WAITS) {
		int pages = make_waiting_page();

		RANK_CHECK(HOLDER, pages >= 0);
		reach(HOLDER, VICTIM, HOLDER);
		atomic_store(&world->mark[HOLDER], 1);
		rank_await(HOLDER, &world->mark[VICTIM], 1);
		close(pages);
		close(listener);
		return;
	}
	if (row->act == AS_STRANGER) {
		pid = fork();
		RANK_CHECK(HOLDER, pid >= 0 && (pid || (!setgid(65534) && !setuid(65534))));
		if (!pid)
			prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten with the user */
	}
	for (int i = 0; pid <= 0 && i < row->times; i++)
		hold_once(&at);
	if (!pid)
		_exit(0);
	RANK_CHECK(HOLDER, pid < 0 || (waitpid(pid, &status, 0) == pid && !status));
	atomic_store(&world->mark[HOLDER], 1);
	rank_await(HOLDER, &world->mark[VICTIM], 1);
	close(listener); /* what lingers for its bytes ends */
}

/* --- the others ---------------------------------------------------------------------- */

static void receive_from(int from)
{
	struct deadline late = deadline_in(TOLERATED_S * 1000000000ull);
	struct bl_comp comp;
	char letter;
	ssize_t n;

	RANK_CHECK(VICTIM, !bl_recv_buf(ep, &letter, 1, world_index[from], (uint64_t)from, 0, NULL,
					BL_TAGGED | BL_COMPLETION));
	while ((n = bl_cq_read(cq, &comp, 1, sizeof comp, NULL)) == -EAGAIN)
		if (deadline_over(&late))
			rank_fail(VICTIM, "rank %d can't reach it", from);
	RANK_CHECK(VICTIM, n == 1);
}

static int inet_sockets(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		int domain_of = 0;
		socklen_t len = sizeof domain_of;

		n += !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain_of, &len) &&
		     domain_of == AF_INET;
	}
	return n;
}

static void live_on(void)
{
	struct deadline late;
	int status;
	pid_t pid;

	if (row->act == SECRET_WAITS)
		receive_from(HOLDER);
	receive_from(FRIEND);
	pid = fork();
	if (!pid)
		_exit(0);
	RANK_CHECK(VICTIM, pid > 0 && waitpid(pid, &status, 0) == pid && !status);
	atomic_store(&world->mark[VICTIM], 1);
	/* What was sent as memory lingers in threads of ours until its maker goes. */
	late = deadline_in(TOLERATED_S * 1000000000ull);
	while (inet_sockets()) {
		sched_yield();
		RANK_CHECK(VICTIM, !deadline_over(&late));
	}
}

static void run(int rank)
{
	rank_open(rank, RANKS);
	if (rank == HOLDER) {
		hold();
	} else if (rank == FRIEND) {
		rank_await(FRIEND, &world->mark[HOLDER], 1);
		reach(FRIEND, VICTIM, FRIEND);
	} else {
		live_on();
	}
	rank_await(rank, &world->mark[VICTIM], 1);
	rank_close(rank);
}

static bool may_wait_in_pages(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void held(void **state)
{
	row = TABLE_ROW(struct held_row, state);
	if (row->act == AS_STRANGER && geteuid())
		skip(); /* only root can become another user */
	if (row->act == SECRET_WAITS && !may_wait_in_pages())
		skip(); /* the kernel's calls don't wait for an ordinary user's userfaultfd */
	world_start(RANKS, run);
	world_end(-1);
}

/* --- in the line of an endpoint that isn't served yet ------------------------------------ */

static void leave_the_line(int rank)
{
	struct deadline late = deadline_in(TOLERATED_S * 1000000000ull);

	RANK_CHECK(rank, !bl_domain_open(&domain) && !bl_av_open(domain, &av) &&
				 !bl_cq_open(domain, 0, &cq) && !bl_ep_open(domain, &ep));
	bl_ep_getname(ep, &world->addr[rank]);
	atomic_store(&world->here[rank], 1);
	rank_await(rank, &world->mark[FRIEND], 1);
	if (line_row->served)
		RANK_CHECK(rank, !bl_ep_bind_av(ep, av) &&
					 !bl_ep_bind_cq(ep, cq, BL_SEND | BL_RECV) &&
					 !bl_ep_enable(ep));
	while (line_row->served && !atomic_load(&world->mark[HOLDER]))
		if (deadline_over(&late))
			rank_fail(rank, "its callers aren't hung up on");
	RANK_CHECK(rank, !bl_ep_close(ep) && !bl_cq_close(cq) && !bl_av_close(av) &&
				 !bl_domain_close(domain));
	atomic_store(&world->mark[VICTIM], 1);
}

static void stand_in_line(int rank)
{
	struct sockaddr_in at;
	struct sockaddr_un name;
	int listener, sock[SOME], status = 1;
	pid_t pid = -1;

	rank_open(rank, 2);
	listener = tcp_listener(&at);
	socklen_t len = bl_socket_name(&name, world->addr[VICTIM].id);
	if (line_row->strangers) {
		pid = fork();
		RANK_CHECK(rank, pid >= 0 && (pid || (!setgid(65534) && !setuid(65534))));
		if (!pid)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
	}
	for (int i = 0; pid <= 0 && i < SOME; i++) {
		sock[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		RANK_CHECK(rank, !connect(sock[i], (struct sockaddr *)&name, len));
		say(sock[i], i % 2 ? BL_HELLO_CALL : NOTHING, &at);
	}
	if (pid <= 0)
		atomic_store(&world->mark[FRIEND], 1);
	for (int i = 0; pid <= 0 && i < SOME; i++) {
		while (hears(sock[i]))
			;
		close(sock[i]);
	}
	if (!pid)
		_exit(0);
	RANK_CHECK(rank, pid < 0 || (waitpid(pid, &status, 0) == pid && !status));
	atomic_store(&world->mark[HOLDER], 1);
	rank_await(rank, &world->mark[VICTIM], 1);
	close(listener);
	rank_close(rank);
}

static void in_line(int rank)
{
	if (rank == VICTIM)
		leave_the_line(rank);
	else
		stand_in_line(rank);
}

static void line(void **state)
{
	line_row = TABLE_ROW(struct line_row, state);
	if (line_row->strangers && geteuid())
		skip(); /* only root can become another user */
	world_start(2, in_line);
	world_end(-1);
}

int main(void)
{
	TABLE_ROWS("held", held, rows);
	TABLE_ROWS("line", line, lines);
	return table_run("held");
}
