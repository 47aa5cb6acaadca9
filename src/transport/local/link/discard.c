/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * discard.c: see discard.h. `closing.lock` guards the line of what waits for a thread that
 * may be kept; nothing is done under it that could wait.
 */
#include "transport/local/link/discard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/thread.h"

#define CLOSERS_MOST 8
#define LINE_MOST    256
#define LARGE	     (16 << 20) /* bytes; to free more takes a while */
#define UNSHARE	     2u		/* CLOSE_RANGE_UNSHARE */

static struct {
	pthread_mutex_t lock;
	unsigned closers, waiting;
	int line[LINE_MOST];
	bool told;
} closing = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int courier = -1; /* a socket from which nothing is ever read */

static int start(pthread_t *thread, bool detached, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, bl_thread_stack());
	if (detached)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

/* --- in a thread that may be kept -------------------------------------------------- */

static void *close_those(void *arg)
{
	int fd = (int)(intptr_t)arg;

	while (fd >= 0) {
		close(fd);
		pthread_mutex_lock(&closing.lock);
		fd = closing.waiting ? closing.line[--closing.waiting] : -1;
		closing.closers -= fd < 0;
		pthread_mutex_unlock(&closing.lock);
	}
	return NULL;
}

static void close_apart(int fd)
{
	pthread_t thread;
	bool left = false;

	pthread_mutex_lock(&closing.lock);
	if (closing.closers < CLOSERS_MOST &&
	    !start(&thread, true, close_those, (void *)(intptr_t)fd))
		closing.closers++;
	else if (closing.closers && closing.waiting < LINE_MOST)
		closing.line[closing.waiting++] = fd;
	else
		left = !closing.told;
	closing.told |= left;
	pthread_mutex_unlock(&closing.lock);
	if (left)
		bl_warn("others send files that can't be closed at once: they stay open");
}

/* Memory, and not too much of it: nobody waits for its end. */
static bool ends_at_once(int fd)
{
	struct stat st;

	return fcntl(fd, F_GET_SEALS) >= 0 && !fstat(fd, &st) && st.st_size <= LARGE;
}

void bl_discard_received(int fd)
{
	if (fd < 0)
		return;
	if (ends_at_once(fd))
		close(fd);
	else
		close_apart(fd);
}

/* --- with a thread that ends --------------------------------------------------------- */

struct undertaker {
	struct sockaddr_un name; /* of a socket of its own */
	socklen_t len;
	bool has_copy; /* of each descriptor, in a table of its own */
	sem_t ready, sent;
};

/*
 * Into a table of one's own, empty: a copy of the program's files would be closed in the end,
 * and flushed. Where the kernel has no call for that (before 5.9) it can't be helped.
 */
static void leave_table(struct undertaker *u)
{
	int fd;

#ifdef SYS_close_range
	if (!syscall(SYS_close_range, 0u, UINT_MAX, UNSHARE)) {
		u->name.sun_family = AF_UNIX;
		u->len = sizeof u->name;
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || bind(fd, (struct sockaddr *)&u->name, sizeof(sa_family_t)) ||
		    getsockname(fd, (struct sockaddr *)&u->name, &u->len))
			u->len = 0;
		return;
	}
#endif
	fd = unshare(CLONE_FILES);
	u->has_copy = !fd;
}

static void *end_with_it(void *arg)
{
	struct undertaker *u = arg;

	leave_table(u);
	sem_post(&u->ready);
	while (sem_wait(&u->sent))
		;
	return NULL;
}

/* Into the thread's socket, where it lies unread when the thread ends. */
static bool send_to(const struct undertaker *u, int fd)
{
	char byte = 0;
	struct iovec iov = {&byte, sizeof byte};
	union {
		char bytes[CMSG_SPACE(sizeof fd)];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {.msg_name = (void *)(uintptr_t)&u->name,
			     .msg_namelen = u->len,
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof control.bytes};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	return sendmsg(courier, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

/* The last use of the socket ends with the thread's. */
static bool end_apart(int fd)
{
	struct undertaker u = {0};
	pthread_t thread;
	bool taken;

	sem_init(&u.ready, 0, 0);
	sem_init(&u.sent, 0, 0);
	if (start(&thread, false, end_with_it, &u))
		return false;
	while (sem_wait(&u.ready))
		;
	taken = u.has_copy || (u.len && send_to(&u, fd));
	if (taken)
		close(fd);
	sem_post(&u.sent);
	pthread_join(thread, NULL); /* over before its files are closed */
	return taken;
}

/* Every message brings who sent it, an empty one, too; the end of all brings nothing. */
static bool has_unread(int fd)
{
	char byte;
	struct iovec iov = {&byte, sizeof byte};
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))]; /* and nothing else */
		struct cmsghdr align;
	} control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof control.bytes};

	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int));
	return recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT) >= 0 && CMSG_FIRSTHDR(&msg);
}

void bl_discard_socket(int fd)
{
	if (fd < 0)
		return;
	shutdown(fd, SHUT_RD); /* no more comes */
	if (!has_unread(fd))
		close(fd);
	else if (!end_apart(fd))
		close_apart(fd);
}

void bl_discard_listener(int fd)
{
	int first;

	shutdown(fd, SHUT_RD); /* nobody calls any more */
	first = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	if (first < 0 && errno != EMFILE && errno != ENFILE) /* nobody has */
		close(fd);
	else if (!end_apart(fd))
		close_apart(fd);
	bl_discard_socket(first);
}

bool bl_brings_descriptors(int fd)
{
	char byte;
	struct iovec iov = {&byte, sizeof byte};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT) >= 0 && msg.msg_flags & MSG_CTRUNC;
}

/* --- the process's ---------------------------------------------------------------- */

int bl_discard_open(void)
{
	courier = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return courier < 0 ? -errno : 0;
}

void bl_discard_close(void)
{
	if (courier >= 0)
		close(courier);
	courier = -1;
}

void bl_discard_orphan(void)
{
	pthread_mutex_init(&closing.lock, NULL);
	closing.closers = closing.waiting = 0;
	bl_discard_close();
}
