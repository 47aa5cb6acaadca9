/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the test programs of the guest share: reporting, /dev/beeline in one line per call,
 * patterns, and a peer process to talk to.
 *
 * Each test runs in a process of its own with a deadline, so that one that crashes or hangs is a
 * "not ok" line and the next still runs. Calls return 0 or a negative errno.
 */
#ifndef VMTEST_H
#define VMTEST_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "uapi/beeline.h"

#define PAGE	    4096ul
#define HUGE	    (2ul << 20)
#define NELEM(a)    (sizeof(a) / sizeof((a)[0]))
#define WAIT_MS	    (20000 * vt_patience())
#define STR_(x)	    #x
#define STR(x)	    STR_(x)
#define CHECK(cond) vt_check((cond), __FILE__ ":" STR(__LINE__) ": " #cond)
#define EQ(a, b)    vt_eq((long long)(a), (long long)(b), __FILE__ ":" STR(__LINE__) ": " #a)

struct test {
	const char *name;
	void (*run)(void);
	unsigned int seconds; /* deadline; 0 means 60 */
};

/* Runs them all, or those that argv names; the exit status says whether any failed. */
int vt_main(const struct test *tests, size_t n, int argc, char **argv);

/* Ends the test at once. */
_Noreturn void vt_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void vt_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
void vt_check(bool ok, const char *what);
void vt_eq(long long is, long long should, const char *what);
double vt_now(void);
/* By how much all deadlines are longer on a slow machine: PATIENCE of the environment, or 1. */
int vt_patience(void);
/* How often to repeat something: n times, a quarter of it without LONG=1 in the environment. */
unsigned int vt_rounds(unsigned int n);

/* /dev/beeline */
int dev_open(void);
int dev_ioctl(int fd, unsigned long request, void *arg);
int dev_export(int fd, const void *addr, size_t len, unsigned int rights, struct beeline_handle *h);
int dev_revoke(int fd, const struct beeline_handle *h, unsigned int flags);
/* copied may be NULL; then a short copy without an error fails the test. */
int dev_from(int fd, const struct beeline_handle *h, uint64_t offset, void *to, size_t len,
	     uint64_t *copied);
int dev_to(int fd, const struct beeline_handle *h, uint64_t offset, const void *from, size_t len,
	   uint64_t *copied);
struct beeline_stat dev_stat(int fd, unsigned int flags);

/* Memory. A pattern depends on the position and a seed, so that shifted data are seen. */
void *mem_map(size_t len, int prot, int flags);
void mem_fill(void *p, size_t len, unsigned int seed);
bool mem_is(const void *p, size_t len, unsigned int seed);
bool mem_all(const void *p, size_t len, unsigned char byte);
unsigned char mem_byte(size_t at, unsigned int seed);

/*
 * A peer: a child that runs a function with one end of a socket. The other end is ours. Messages
 * are whole structs; a peer that dies is an error of vt_recv(), not a hang.
 */
struct peer {
	pid_t pid;
	int sock;
};
struct peer peer_start(void (*run)(int sock, void *arg), void *arg);
/* Waits for its end; returns what waitpid() says. */
int peer_wait(struct peer *p);
void vt_send(int sock, const void *msg, size_t len);
void vt_recv(int sock, void *msg, size_t len);
/* One byte back and forth, where only the order matters. */
void vt_tell(int sock);
void vt_await(int sock);

#endif
