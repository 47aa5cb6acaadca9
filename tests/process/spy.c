/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * spy.c: see spy.h. The thread that is watched owns what is known of its memory; the second one
 * writes what is known of its calls while the first stands still in one.
 */
#include "spy.h"

#include "harness.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default"), noinline))

/* --- memory ---------------------------------------------------------------- */

static struct {
	unsigned long n;
	const char *function; /* of the first */
	size_t size;
	const void *caller;
} memory;
static _Thread_local bool watched;

/* libc's own, by the names that it exports for programs that have theirs. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

static void note(const char *function, size_t size, const void *caller)
{
	if (!watched || memory.n++)
		return;
	memory.function = function;
	memory.size = size;
	memory.caller = caller;
}

#define NOTE(function, size) note(function, size, __builtin_return_address(0))

SHOWN void *malloc(size_t size)
{
	NOTE("malloc", size);
	return __libc_malloc(size);
}

SHOWN void *calloc(size_t n, size_t size)
{
	NOTE("calloc", n * size);
	return __libc_calloc(n, size);
}

SHOWN void *realloc(void *p, size_t size)
{
	NOTE("realloc", size);
	return __libc_realloc(p, size);
}

SHOWN void *aligned_alloc(size_t alignment, size_t size)
{
	NOTE("aligned_alloc", size);
	return __libc_memalign(alignment, size);
}

SHOWN int posix_memalign(void **p, size_t alignment, size_t size)
{
	NOTE("posix_memalign", size);
	*p = __libc_memalign(alignment, size);
	return *p ? 0 : ENOMEM;
}

SHOWN void free(void *p)
{
	if (p)
		NOTE("free", 0);
	__libc_free(p);
}

SHOWN void *mmap(void *p, size_t size, int prot, int flags, int fd, off_t off)
{
	NOTE("mmap", size);
	return (void *)syscall(SYS_mmap, p, size, prot, flags, fd, off);
}

/* --- calls ------------------------------------------------------------------ */

static struct {
	atomic_bool on;
	pid_t thread; /* the watched one */
	unsigned long n;
	struct seccomp_data first;
} calls;
enum { NOT_YET = -1, NEVER = -2 };
static atomic_int listener = NOT_YET;

/* Who has made the call stands still until it is answered. */
static void let_go_on(int fd, uint64_t id)
{
	struct seccomp_notif_resp answer = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) && errno == EINVAL)
		t_skip("the kernel can't let a call go on that it has asked about (Linux 5.5)");
}

static void *listen_always(void *arg)
{
	struct seccomp_notif call;
	int fd;

	(void)arg;
	while ((fd = atomic_load(&listener)) == NOT_YET)
		sched_yield();
	while (fd != NEVER) {
		memset(&call, 0, sizeof call);
		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &call))
			continue;
		if (atomic_load(&calls.on) && (pid_t)call.pid == calls.thread && !calls.n++)
			calls.first = call.data;
		let_go_on(fd, call.id);
	}
	return NULL;
}

static const char *cannot(const char *what, int err)
{
	static char why[SPY_TEXT];

	snprintf(why, sizeof why, "system calls can't be counted: %s: %s", what, strerror(err));
	return why;
}

const char *spy_open(void)
{
	struct sock_filter ask[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)};
	struct sock_fprog program = {1, ask};
	pthread_t thread;
	int err, fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return cannot("PR_SET_NO_NEW_PRIVS", errno);
	calls.thread = (pid_t)syscall(SYS_gettid);
	err = pthread_create(&thread, NULL, listen_always, NULL);
	if (err)
		return cannot("pthread_create", err);
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &program);
	err = errno;
	atomic_store(&listener, fd < 0 ? NEVER : fd); /* before any other call */
	return fd < 0 ? cannot("seccomp with a listener", err) : NULL;
}

/* --- between the two -------------------------------------------------------- */

void spy_begin(void)
{
	memory.n = calls.n = 0;
	atomic_store(&calls.on, true);
	watched = true;
}

void spy_end(struct spy_report *r)
{
	Dl_info lib = {0};

	watched = false;
	atomic_store(&calls.on, false);
	if (memory.n && !r->allocations && dladdr(memory.caller, &lib) && lib.dli_fname)
		snprintf(r->allocation, SPY_TEXT, "%s(%zu) by %s+0x%zx", memory.function,
			 memory.size, lib.dli_fname,
			 (size_t)((uintptr_t)memory.caller - (uintptr_t)lib.dli_fbase));
	if (calls.n && !r->calls)
		snprintf(r->call, SPY_TEXT, "number %d (0x%llx, 0x%llx, 0x%llx)", calls.first.nr,
			 (unsigned long long)calls.first.args[0],
			 (unsigned long long)calls.first.args[1],
			 (unsigned long long)calls.first.args[2]);
	r->allocations += memory.n;
	r->calls += calls.n;
}
