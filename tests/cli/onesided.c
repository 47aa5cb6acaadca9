/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * onesided.c: as traffic.c, for one-sided operations, over libfabric: the parent reads,
 * writes and changes the child's memory as it is told, while the child makes progress.
 * Between commands both are away from the library.
 *
 *	onesided
 *
 * Prints "pids PARENT CHILD", then reads commands, and answers each with "done":
 *
 *	read SIZE COUNT		operations of so many bytes
 *	write SIZE COUNT
 *	atomic SIZE COUNT	sums of 64 bits
 *	two SIZE COUNT		writes, each into two regions that count them
 *	late SIZE COUNT		the same, into the last two of as many as there are
 *	refuse CALL		the parent's kernel refuses process_vm_CALL from now on
 *	end
 */
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deny.h"

#define MEMORY (1u << 20)
#define KEY    7 /* of the memory, and then of the regions that count: the same memory */
#define COUNTS 9 /* so many; origins count for seven of them */
#define ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define CAPS   (FI_MSG | FI_RMA | FI_RMA_EVENT | FI_ATOMIC)

static struct fid_ep *ep;
static struct fid_cq *cq;
static fi_addr_t peer;
static uint64_t memory[MEMORY / 8], mine[MEMORY / 8];
static int sock;
static pid_t child;

static void must(long err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "onesided (%s): %s: %s\n", child ? "parent" : "child", what,
		fi_strerror((int)-err));
	exit(1);
}

static void must_be(bool condition, const char *what)
{
	must(condition ? 0 : -FI_EINVAL, what);
}

static void register_memory(struct fid_domain *domain)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *cntr;
	struct fid_mr *mr;

	for (uint64_t i = 0; i <= COUNTS; i++) {
		must(fi_mr_reg(domain, memory, MEMORY, ACCESS, 0, KEY + i, 0, &mr, NULL),
		     "fi_mr_reg");
		if (!i)
			continue;
		must(fi_cntr_open(domain, &attr, &cntr, NULL), "fi_cntr_open");
		must(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE), "fi_mr_bind");
	}
}

static void open_endpoint(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	unsigned char name[256] = {0}, theirs[256];
	size_t len = sizeof name;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;

	must_be(hints, "fi_allocinfo");
	hints->fabric_attr->prov_name = strdup("beeline");
	hints->caps = CAPS;
	hints->ep_attr->type = FI_EP_RDM;
	must(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), "fi_getinfo");
	must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	must(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
	must(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
	must(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
	must(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
	must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	must(fi_enable(ep), "fi_enable");
	register_memory(domain);
	must(fi_getname(&ep->fid, name, &len), "fi_getname");
	must_be(write(sock, name, sizeof name) == sizeof name, "write");
	must_be(read(sock, theirs, sizeof theirs) == sizeof theirs, "read");
	must_be(fi_av_insert(av, theirs, 1, &peer, 0, NULL) == 1, "fi_av_insert");
}

/* --- the child -------------------------------------------------------------- */

/* From the first byte that the parent sends to the next: inside the library. */
static void child_main(void)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_endpoint();
	while (read(sock, &byte, 1) == 1) {
		struct fi_cq_entry entry;

		while (recv(sock, &byte, 1, MSG_DONTWAIT) != 1)
			fi_cq_read(cq, &entry, 1);
		must_be(write(sock, &byte, 1) == 1, "write");
	}
	exit(0);
}

/* --- the parent ------------------------------------------------------------- */

static ssize_t post(const char *word, size_t size)
{
	uint64_t key = KEY + (strcmp(word, "late") ? 1 : COUNTS - 1);
	struct fi_rma_iov place[2] = {{0, size / 2, key}, {size / 2, size - size / 2, key + 1}};
	struct iovec from = {mine, size};
	struct fi_msg_rma two = {
		.msg_iov = &from,
		.iov_count = 1,
		.addr = peer,
		.rma_iov = place,
		.rma_iov_count = 2,
	};

	if (!strcmp(word, "read"))
		return fi_read(ep, mine, size, NULL, peer, 0, KEY, NULL);
	if (!strcmp(word, "write"))
		return fi_write(ep, mine, size, NULL, peer, 0, KEY, NULL);
	if (!strcmp(word, "two") || !strcmp(word, "late"))
		return fi_writemsg(ep, &two, FI_COMPLETION);
	return fi_atomic(ep, mine, size / 8, NULL, peer, 0, KEY, FI_UINT64, FI_SUM, NULL);
}

static void operate(const char *word, size_t size, unsigned count)
{
	struct fi_cq_entry entry;
	char byte = 0;
	ssize_t n;

	must_be(size <= MEMORY && write(sock, &byte, 1) == 1, word);
	for (unsigned posted = 0, done = 0; done < count;) {
		n = posted < count ? post(word, size) : -FI_EAGAIN;
		posted += !n;
		must(n == -FI_EAGAIN ? 0 : n, word);
		n = fi_cq_read(cq, &entry, 1);
		must(n == -FI_EAGAIN ? 0 : n, "fi_cq_read");
		done += n == 1;
	}
	must_be(write(sock, &byte, 1) == 1 && read(sock, &byte, 1) == 1, "the child has ended");
}

static void carry_out(const char *line)
{
	char word[16] = "", call[16] = "";
	size_t size = 0;
	unsigned count = 0, number;

	must_be(sscanf(line, "%15s %zu %u", word, &size, &count) >= 1, "an empty command");
	if (strcmp(word, "refuse")) {
		operate(word, size, count);
		return;
	}
	must_be(sscanf(line, "%*s %15s", call) == 1, "refuse what?");
	number = strcmp(call, "readv") ? SYS_process_vm_writev : SYS_process_vm_readv;
	must_be(!fail_calls(number, number, EPERM), "seccomp");
}

int main(void)
{
	char line[64];
	int socks[2];

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, socks) ? -errno : 0, "socketpair");
	child = fork();
	must(child < 0 ? -errno : 0, "fork");
	sock = socks[!child];
	close(socks[!!child]);
	if (!child)
		child_main();
	open_endpoint();
	printf("pids %d %d\n", (int)getpid(), (int)child);
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n")) {
		carry_out(line);
		printf("done\n");
		fflush(stdout);
	}
	close(sock);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
