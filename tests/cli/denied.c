/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * denied.c: runs a command for which the kernel refuses some system calls with
 * EPERM, as a container's seccomp profile does.
 *
 *	denied CALL... -- COMMAND [ARG...]
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ANY ~0u

static const struct {
	const char *name;
	unsigned number;
	unsigned first; /* argument, or ANY */
} calls[] = {
	{"process_vm_readv", SYS_process_vm_readv, ANY},
	{"process_vm_writev", SYS_process_vm_writev, ANY},
	{"memfd_create", SYS_memfd_create, ANY},
	{"netlink", SYS_socket, AF_NETLINK},
	{"membarrier", SYS_membarrier, ANY},
	{"mbind", SYS_mbind, ANY},
	{"bpf", SYS_bpf, ANY},
};
#define NCALLS (sizeof calls / sizeof calls[0])

static int deny(const char *name)
{
	size_t i = 0;

	while (i < NCALLS && strcmp(calls[i].name, name))
		i++;
	if (i == NCALLS) {
		errno = EINVAL;
		return -1;
	}

	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 4),
		BPF_JUMP(BPF_JMP | BPF_JA, calls[i].first == ANY ? 2 : 0, 0, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].first, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof code / sizeof code[0], code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int argc, char **argv)
{
	int i = 1;

	for (; i < argc && strcmp(argv[i], "--"); i++)
		if (deny(argv[i])) {
			perror(argv[i]);
			return 1;
		}
	if (i + 1 >= argc) {
		fprintf(stderr, "usage: denied CALL... -- COMMAND [ARG...]\n");
		return 2;
	}
	execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 127;
}
