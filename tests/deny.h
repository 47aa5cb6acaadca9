/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * deny.h: for tests: take the right to process_vm_readv and process_vm_writev, or to
 * other system calls, from the calling process and its future children, as a container's
 * seccomp profile does. It can't be given back. All threads: those that exist keep the
 * right unless TSYNC works, which it does where nobody has a filter yet.
 */
#ifndef BL_TESTS_DENY_H
#define BL_TESTS_DENY_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What becomes of these two calls (or one, said twice): SECCOMP_RET_*. 0, or -1: the kernel has
 * no filters. */
static inline int filter_calls(unsigned one, unsigned other, unsigned action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof code[0], code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
			    &program);
}

/* They fail with this errno. */
static inline int fail_calls(unsigned one, unsigned other, unsigned err)
{
	return filter_calls(one, other, SECCOMP_RET_ERRNO | err);
}

/* Whoever calls them dies. */
static inline int forbid_process_vm(void)
{
	return filter_calls(SYS_process_vm_readv, SYS_process_vm_writev, SECCOMP_RET_KILL_PROCESS);
}

static inline int fail_process_vm(unsigned err)
{
	return fail_calls(SYS_process_vm_readv, SYS_process_vm_writev, err);
}

static inline int deny_process_vm(void)
{
	return fail_process_vm(EPERM);
}

#endif
