/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * probe.c: tries what Beeline asks of the kernel, for `beeline doctor`, and says how
 * each try ended. Nothing is inferred from settings: what works here works there.
 *
 *	probe calls	one system call after the other, each in a process of its own:
 *			a filter may kill instead of refusing
 *	probe messages	two processes over libbeeline: one message of each kind
 *
 * Prints "NAME ERRNO" per line, 0 being success; "NAME signal N" when the attempt
 * was killed. The exit status says only whether the probe itself could run.
 */
#include <beeline.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdbool.h>
#include <linux/netlink.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf.h"
#include "uapi/beeline.h"

#define PAGE	4096
#define LIMIT_S 20
#define LONGEST (4u << 20)
#define MODULE	"/dev/beeline"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* --- system calls --------------------------------------------------------- */

static int try_memfd(void)
{
	int fd = memfd_create("beeline-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	void *page;

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create("beeline-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || fallocate(fd, 0, 0, 16 * PAGE) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return errno;
	page = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return errno;
	memset(page, 1, 16 * PAGE);
	return 0;
}

/* What wakes who sleeps on a descriptor: a datagram to a netlink socket's number. */
static int try_netlink(void)
{
	struct sockaddr_nl name = {.nl_family = AF_NETLINK};
	socklen_t len = sizeof name;
	int from = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_USERSOCK);
	int to = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_USERSOCK);
	char byte = 0;

	if (from < 0 || to < 0 || bind(to, (struct sockaddr *)&name, len) ||
	    getsockname(to, (struct sockaddr *)&name, &len) ||
	    sendto(from, &byte, 1, 0, (struct sockaddr *)&name, len) != 1 ||
	    recv(to, &byte, 1, MSG_DONTWAIT) != 1)
		return errno;
	return 0;
}

/* The rendezvous: an abstract name, a call, a descriptor handed over. */
static int try_socket(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "beeline-probe-%d",
			 (int)getpid());
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), fd;

	if (listener < 0 || bind(listener, (struct sockaddr *)&name, len) || listen(listener, 1))
		return errno;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&name, len))
		return errno;
	return accept(listener, NULL, NULL) < 0 ? errno : 0;
}

static int try_membarrier(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) ||
			       syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0)
		       ? errno
		       : 0;
}

static int try_robust_list(void)
{
	static struct {
		void *next;
		long offset;
		void *pending;
	} head;

	head.next = &head;
	return syscall(SYS_set_robust_list, &head, sizeof head) ? errno : 0;
}

static int try_mbind(void)
{
	unsigned long mask[16] = {1};
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return errno;
	return syscall(SYS_mbind, page, PAGE, MPOL_PREFERRED, mask, 8 * sizeof mask, 0) ? errno : 0;
}

/* A neighbour with a buffer, which has let the others in as Beeline does. What
 * tries to copy is its sibling: Yama treats parents better. */
static char shared_place[PAGE];
static pid_t neighbour;

static void neighbour_start(void)
{
	int ready[2];
	char ok = 0;

	if (pipe(ready))
		exit(1);
	neighbour = fork();
	if (!neighbour) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		if (write(ready[1], &ok, 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	if (neighbour < 0 || read(ready[0], &ok, 1) != 1)
		exit(1);
	close(ready[0]);
	close(ready[1]);
}

static void neighbour_stop(void)
{
	kill(neighbour, SIGKILL);
	waitpid(neighbour, NULL, 0);
}

static int try_readv(void)
{
	static char mine[PAGE];
	struct iovec local = {mine, PAGE}, remote = {shared_place, PAGE};

	return process_vm_readv(neighbour, &local, 1, &remote, 1, 0) == PAGE ? 0 : errno;
}

static int try_writev(void)
{
	static char mine[PAGE];
	struct iovec local = {mine, PAGE}, remote = {shared_place, PAGE};

	return process_vm_writev(neighbour, &local, 1, &remote, 1, 0) == PAGE ? 0 : errno;
}

static const struct attempt {
	const char *name;
	int (*try)(void);
} attempts[] = {
	{"memfd", try_memfd},
	{"socket", try_socket},
	{"netlink", try_netlink},
	{"readv", try_readv},
	{"writev", try_writev},
	{"membarrier", try_membarrier},
	{"robust_list", try_robust_list},
	{"mbind", try_mbind},
	{"bpf_memory", try_bpf_memory},
	{"bpf_receive", try_bpf_receive},
	{"bpf_read", try_bpf_read},
};

static void say(const char *name, int status)
{
	if (WIFSIGNALED(status))
		printf("%s signal %d\n", name, WTERMSIG(status));
	else
		printf("%s %d\n", name, WEXITSTATUS(status));
}

static int probe_calls(void)
{
	neighbour_start();
	for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			alarm(LIMIT_S);
			_exit(attempts[i].try());
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			break;
		say(attempts[i].name, status);
	}
	neighbour_stop();
	return 0;
}

/* --- the module ------------------------------------------------------------ */

/* "module ERRNO ABI" */
static int probe_module(void)
{
	struct beeline_info info = {0};
	int fd = open(MODULE, O_RDWR | O_CLOEXEC);
	int err = fd < 0 || ioctl(fd, BEELINE_IOC_INFO, &info) ? errno : 0;

	printf("module %d %u %u\n", err, info.abi, BEELINE_ABI);
	return 0;
}

/* --- messages -------------------------------------------------------------- */

static const struct kind {
	const char *name;
	size_t size;
} kinds[] = {{"inline", 8}, {"eager", 1000}, {"large", LONGEST}};
#define NKINDS (sizeof kinds / sizeof kinds[0])

/* Each sends one of every kind and receives one: the errno of what failed. */
static int talk(int fd, bool first, size_t *reached)
{
	unsigned char *out = malloc(LONGEST), *in = calloc(1, LONGEST);
	struct beeline_address mine, theirs;
	struct beeline_request *request;
	struct beeline_endpoint *ep;
	int err, peer;

	if (!out || !in)
		return -ENOMEM;
	memset(out, first ? 1 : 2, LONGEST);
	err = beeline_open(&ep, 0);
	if (err)
		return err;
	beeline_get_address(ep, &mine);
	if (write(fd, &mine, sizeof mine) != sizeof mine ||
	    read(fd, &theirs, sizeof theirs) != sizeof theirs)
		return -EPIPE;
	err = beeline_add_peer(ep, &theirs, &peer);
	for (*reached = 0; !err && *reached < NKINDS; ++*reached) {
		size_t size = kinds[*reached].size;

		err = beeline_isend(ep, out, size, peer, 1, 0, &request);
		if (!err)
			err = beeline_recv(ep, in, size, beeline_from(peer, 1, 0), NULL);
		if (!err)
			err = beeline_wait(&request, NULL);
		if (!err && (in[0] != (first ? 2 : 1) || in[size - 1] != in[0]))
			err = -EIO;
		if (err)
			return err;
	}
	beeline_close(ep);
	return err;
}

static int probe_messages(void)
{
	int socks[2], err, status;
	size_t reached = 0, ignored;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, socks))
		return 1;
	pid = fork();
	if (pid < 0)
		return 1;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(socks[0]);
		_exit(-talk(socks[1], false, &ignored));
	}
	close(socks[1]);
	err = -talk(socks[0], true, &reached);
	close(socks[0]);
	if (err)
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	for (size_t i = 0; i < NKINDS; i++)
		printf("%s %d\n", kinds[i].name, i < reached ? 0 : err ? err : ECANCELED);
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "calls"))
		return probe_module() || probe_calls();
	alarm(LIMIT_S);
	if (argc == 2 && !strcmp(argv[1], "messages"))
		return probe_messages();
	fprintf(stderr, "usage: probe calls | messages\n");
	return 2;
}
