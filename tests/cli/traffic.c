/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * traffic.c: two processes that send each other exactly what they are told, for
 * tests that compare with what `beeline stat` says of them. Between commands both
 * sleep in read(): away from the library, as a rank that computes is.
 *
 *	traffic [CPU CPU]	the parent's and the child's
 *
 * Prints "pids PARENT CHILD", then reads commands, and answers each with "done"
 * when both have carried it out:
 *
 *	send SIZE COUNT		the parent sends, the child receives
 *	hidden SIZE COUNT	as send, out of write-only pages
 *	reply SIZE COUNT	the other way round
 *	early SIZE COUNT	the parent sends, and the child doesn't receive
 *	take SIZE COUNT		it does now
 *	away SIZE COUNT		as send, but each is sent when its receive is posted and the
 *				child has gone away; it comes back when that call is over
 *	gone SIZE COUNT		as send, but its sender goes away when it has begun, until the
 *				child has received
 *	deny CALL [ERRNO]	the child's kernel refuses process_vm_CALL from now on
 *	refuse CALL [ERRNO]	the parent's does
 *	attempt			the parent sends an empty message, or can't
 *	leave			the child closes its endpoint
 *	kill			the child dies
 *	notice			the parent makes progress for a while
 *	close			both close their endpoint
 *	end
 */
#include <beeline.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EARLY_MOST 64
#define NOTICE_NS  300000000

enum { TAG = 1, EARLY_TAG = 2 };

static struct beeline_endpoint *ep;
static struct beeline_request *early[EARLY_MOST];
static unsigned char *early_buf[EARLY_MOST];
static size_t nearly;
static int peer, sock;
static pid_t child;

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "traffic (%s): %s: %s\n", child ? "parent" : "child", what,
		beeline_strerror(err));
	exit(1);
}

static void must_be(bool condition, const char *what)
{
	must(condition ? 0 : -EPROTO, what);
}

static void meet(void)
{
	struct beeline_address mine, theirs;

	must(beeline_open(&ep, 0), "beeline_open");
	beeline_get_address(ep, &mine);
	must_be(write(sock, &mine, sizeof mine) == sizeof mine, "write");
	must_be(read(sock, &theirs, sizeof theirs) == sizeof theirs, "read");
	must(beeline_add_peer(ep, &theirs, &peer), "beeline_add_peer");
}

static unsigned char *buffer(size_t size)
{
	unsigned char *bytes = malloc(size + 1);

	must_be(bytes, "malloc");
	memset(bytes, (int)size & 0x7f, size + 1);
	return bytes;
}

static void send_some(size_t size, unsigned count)
{
	unsigned char *bytes = buffer(size);

	for (unsigned i = 0; i < count; i++)
		must(beeline_send(ep, bytes, size, peer, TAG, 0), "beeline_send");
	free(bytes);
}

/* The kernel reads such pages for nobody else. */
static void send_hidden(size_t size, unsigned count)
{
	unsigned char *bytes =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must_be(bytes != MAP_FAILED, "mmap");
	memset(bytes, 1, size);
	must_be(!mprotect(bytes, size, PROT_WRITE), "mprotect");
	for (unsigned i = 0; i < count; i++)
		must(beeline_send(ep, bytes, size, peer, TAG, 0), "beeline_send");
	munmap(bytes, size);
}

static void receive_some(size_t size, unsigned count, uint32_t tag)
{
	unsigned char *bytes = buffer(size);
	struct beeline_status status;

	for (unsigned i = 0; i < count; i++) {
		must(beeline_recv(ep, bytes, size, beeline_from(peer, tag, 0), &status),
		     "beeline_recv");
		must_be(status.length == size, "a message of another length");
	}
	free(bytes);
}

static void send_early(size_t size, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		must_be(nearly < EARLY_MOST, "too many early messages");
		early_buf[nearly] = buffer(size);
		must(beeline_isend(ep, early_buf[nearly], size, peer, EARLY_TAG, 0, &early[nearly]),
		     "beeline_isend");
		nearly++;
	}
	/* The last of them, so that the child knows when all have come. */
	must(beeline_send(ep, NULL, 0, peer, TAG, 0), "beeline_send");
}

/* The oldest of them; the others wait on. */
static void wait_for_early(size_t count)
{
	must_be(count <= nearly, "fewer early messages");
	must(beeline_waitall(count, early, NULL), "beeline_waitall");
	for (size_t i = 0; i < count; i++)
		free(early_buf[i]);
	nearly -= count;
	memmove(early, early + count, nearly * sizeof *early);
	memmove(early_buf, early_buf + count, nearly * sizeof *early_buf);
}

static void tell(void)
{
	char ok = 0;

	must_be(write(sock, &ok, 1) == 1, "write");
}

static void hear(void)
{
	char ok;

	must_be(read(sock, &ok, 1) == 1, "the other has ended");
}

static void send_to_one_away(size_t size, unsigned count)
{
	unsigned char *bytes = buffer(size);
	struct beeline_request *request;

	for (unsigned i = 0; i < count; i++) {
		hear();
		must(beeline_isend(ep, bytes, size, peer, TAG, 0, &request), "beeline_isend");
		tell();
		must(beeline_wait(&request, NULL), "beeline_wait");
	}
	free(bytes);
}

static void receive_when_back(size_t size, unsigned count)
{
	unsigned char *bytes = buffer(size);
	struct beeline_request *request;

	for (unsigned i = 0; i < count; i++) {
		must(beeline_irecv(ep, bytes, size, beeline_from(peer, TAG, 0), &request),
		     "beeline_irecv");
		tell();
		hear();
		must(beeline_wait(&request, NULL), "beeline_wait");
	}
	free(bytes);
}

static void send_and_go(size_t size, unsigned count)
{
	unsigned char *bytes = buffer(size);
	struct beeline_request *request;

	for (unsigned i = 0; i < count; i++) {
		must(beeline_isend(ep, bytes, size, peer, TAG, 0, &request), "beeline_isend");
		tell();
		hear();
		must(beeline_wait(&request, NULL), "beeline_wait");
	}
	free(bytes);
}

static void receive_from_one_gone(size_t size, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		hear();
		receive_some(size, 1, TAG);
		tell();
	}
}

static void deny(const char *call, unsigned error)
{
	uint32_t number = strcmp(call, "readv") ? SYS_process_vm_writev : SYS_process_vm_readv;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof code / sizeof code[0], code};

	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno : 0, "no_new_privs");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) ? -errno : 0, "seccomp");
}

static void notice(void)
{
	struct timespec now, start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		beeline_progress(ep);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec <
		 NOTICE_NS);
}

static void carry_out(const char *line)
{
	char word[16] = "", call[16] = "";
	size_t size = 0;
	unsigned count = 0, error = EPERM;

	must_be(sscanf(line, "%15s %zu %u", word, &size, &count) >= 1, "an empty command");
	if (!strcmp(word, "send")) {
		child ? send_some(size, count) : receive_some(size, count, TAG);
	} else if (!strcmp(word, "hidden")) {
		child ? send_hidden(size, count) : receive_some(size, count, TAG);
	} else if (!strcmp(word, "reply")) {
		child ? receive_some(size, count, TAG) : send_some(size, count);
	} else if (!strcmp(word, "early")) {
		child ? send_early(size, count) : receive_some(0, 1, TAG);
	} else if (!strcmp(word, "away")) {
		child ? send_to_one_away(size, count) : receive_when_back(size, count);
	} else if (!strcmp(word, "gone")) {
		child ? send_and_go(size, count) : receive_from_one_gone(size, count);
	} else if (!strcmp(word, "take")) {
		child ? wait_for_early(count) : receive_some(size, count, EARLY_TAG);
	} else if (!strcmp(word, "deny") || !strcmp(word, "refuse")) {
		must_be(sscanf(line, "%*s %15s %u", call, &error) >= 1, "deny what?");
		if (!child == !strcmp(word, "deny"))
			deny(call, error);
	} else if (!strcmp(word, "notice")) {
		if (child)
			notice();
	} else if (!strcmp(word, "attempt")) {
		if (child)
			beeline_send(ep, NULL, 0, peer, TAG, 0);
	} else if (!strcmp(word, "leave")) {
		if (!child)
			beeline_close(ep);
	} else if (!strcmp(word, "close")) {
		beeline_close(ep);
		ep = NULL;
	} else {
		must_be(false, line);
	}
}

static void child_main(void)
{
	char line[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	meet();
	for (;;) {
		ssize_t n = read(sock, line, sizeof line);

		if (n != sizeof line)
			exit(n ? 1 : 0);
		carry_out(line);
		tell();
	}
}

static void both(const char *line)
{
	char copy[64] = "";

	snprintf(copy, sizeof copy, "%s", line);
	must_be(write(sock, copy, sizeof copy) == sizeof copy, "write");
	carry_out(line);
	hear();
}

/* Before the endpoint is opened, which takes its memory from that processor's node. */
static void stay_on(const char *cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(atoi(cpu), &set);
	must(sched_setaffinity(0, sizeof set, &set) ? -errno : 0, cpu);
}

int main(int argc, char **argv)
{
	char line[64];
	int socks[2];
	bool alive = true;

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, socks) ? -errno : 0, "socketpair");
	child = fork();
	must(child < 0 ? -errno : 0, "fork");
	sock = socks[!child];
	close(socks[!!child]);
	if (argc == 3)
		stay_on(argv[child ? 1 : 2]);
	if (!child)
		child_main();
	meet();
	printf("pids %d %d\n", (int)getpid(), (int)child);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n")) {
		if (!strcmp(line, "kill\n")) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
			alive = false;
		} else if (alive) {
			both(line);
		} else {
			carry_out(line);
		}
		printf("done\n");
		fflush(stdout);
	}
	close(sock);
	if (alive) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	return 0;
}
