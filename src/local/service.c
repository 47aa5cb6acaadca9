/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * service.c: the service thread, one per process that has an endpoint open. It
 * sleeps in poll() and wakes to exchange segments with a neighbour: never on
 * the way of a message, so it costs nothing while ranks compute or talk.
 *
 * It also stands for the life of the process: it holds a robust futex in each
 * endpoint's segment header, which the kernel marks when the process dies, by
 * whatever means. Neighbours read that word in memory they have mapped anyway:
 * no file descriptor, no system call and no PID is needed to notice a death.
 *
 * service.lock guards everything here; order: service.lock, then bl_local.lock.
 * A crash at any point leaves nothing behind: sockets are in the abstract
 * namespace, memory is memfds.
 */
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "local/local.h"

#define BACKLOG	      4096
#define RETRY_MS      2	    /* the neighbour's backlog is full */
#define EXCHANGE_MS   20000 /* a neighbour that doesn't answer may be stopped: ask again */
#define LIFE_DISTANCE (BL_SEG_HEADER + offsetof(struct bl_seg_header, life))

struct hello {
	uint32_t magic;
	uint16_t version;
	uint16_t size;
	struct bl_addr from;
	uint8_t to[16];
	uint64_t lane_at; /* the sender's lane to the receiver, in the segment that comes along */
	uint32_t bell;	  /* the receiver's bell in the sender's header */
	int32_t status;	  /* answer: 0 or a negative errno */
};
#define HELLO_MAGIC 0x6f6c6c68u
static_assert(sizeof(struct hello) == 104, "exchanged between processes");

struct exchange {
	struct exchange *next;
	struct bl_local *local;
	struct bl_peer *peer; /* outgoing; NULL: incoming */
	int fd;
	uint64_t started_ms;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t started;
	struct bl_local *locals;
	struct exchange *exchanges;
	unsigned generation; /* counts changes of the poll set by other threads */
	int wake;	     /* eventfd */
	bool running, stop, atfork;
	bool full; /* no descriptor for another caller: leave listeners alone a while */
	pid_t tid;
	pthread_t thread;
	struct robust_list_head robust;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER, .started = PTHREAD_COND_INITIALIZER, .wake = -1};

static uint64_t now_ms(void)
{
	return bl_clock_ns() / 1000000;
}

/* --- the life futex ----------------------------------------------------- */

static void robust_insert(struct bl_local *local)
{
	struct robust_list *node = local->seg.life_page;

	atomic_store_explicit(&local->seg.header->life, (uint32_t)service.tid,
			      memory_order_release);
	/* The kernel may walk the list at any moment: link in this order. */
	node->next = service.robust.list.next;
	atomic_thread_fence(memory_order_seq_cst);
	service.robust.list.next = node;
}

static void robust_remove(struct bl_local *local)
{
	struct robust_list *node = local->seg.life_page, **at = &service.robust.list.next;

	while (*at != node && *at != &service.robust.list)
		at = &(*at)->next;
	if (*at == node)
		*at = node->next;
}

bool bl_service_membarrier(void)
{
	static _Atomic int known; /* 0: not asked, 1: yes, 2: no */
	int state = atomic_load_explicit(&known, memory_order_relaxed);

	if (!state) {
		state = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) ? 2
												: 1;
		atomic_store_explicit(&known, state, memory_order_relaxed);
	}
	return state == 1;
}

/* --- sockets ------------------------------------------------------------ */

unsigned bl_service_name(struct sockaddr_un *name, const char *prefix, const uint8_t id[16])
{
	static const char digit[] = "0123456789abcdef";
	size_t n = strlen(prefix);
	char *at = name->sun_path + 1;

	memset(name, 0, sizeof *name);
	name->sun_family = AF_UNIX;
	/* sun_path[0] is 0: the abstract namespace, no file */
	memcpy(at, prefix, n);
	for (int i = 0; i < 16; i++) {
		at[n++] = digit[id[i] >> 4];
		at[n++] = digit[id[i] & 15];
	}
	return (unsigned)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static socklen_t socket_name(struct sockaddr_un *name, const uint8_t id[16])
{
	return bl_service_name(name, "beeline-", id);
}

static int unix_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? -errno : fd;
}

static int listen_for(struct bl_local *local)
{
	struct sockaddr_un name;
	socklen_t len = socket_name(&name, local->addr.id);
	int fd = unix_socket(), err;

	if (fd < 0) {
		bl_warn("no socket for connections: %s; raise the limit of open files (ulimit -n)",
			strerror(-fd));
		return fd;
	}
	if (bind(fd, (struct sockaddr *)&name, len) || listen(fd, BACKLOG)) {
		err = -errno;
		bl_warn("no rendezvous socket: %s", strerror(-err));
		close(fd);
		return err;
	}
	local->listener = fd;
	return 0;
}

/* The other end's process as our PID namespace numbers it; -EPERM: not ours. */
static int neighbour_pid(int fd, pid_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof cred;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	if (cred.uid != geteuid())
		return -EPERM;
	*pid = cred.pid;
	return 0;
}

static int send_hello(int fd, const struct bl_peer *peer, int status)
{
	const struct bl_local *local = peer->local;
	struct hello hello = {
		.magic = HELLO_MAGIC,
		.version = BL_SEG_VERSION,
		.size = sizeof hello,
		.from = local->addr,
		.lane_at = peer->lane_at,
		.bell = peer->index,
		.status = status,
	};
	struct iovec iov = {&hello, sizeof hello};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	memcpy(hello.to, peer->addr.id, sizeof hello.to);
	if (!status) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof control.bytes;
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &local->seg.fd, sizeof(int));
	}
	return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof hello ? 0 : -errno;
}

/* One hello and the descriptor that came along (*got, or -1). -EAGAIN: not yet. */
static int receive_hello(int fd, struct hello *hello, int *got)
{
	struct iovec iov = {hello, sizeof *hello};
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof control.bytes};
	ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	*got = -1;
	if (n < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int one;

			memcpy(&one, CMSG_DATA(c) + i * sizeof one, sizeof one);
			if (*got < 0)
				*got = one;
			else
				close(one);
		}
	}
	if (!n)
		return -ECONNRESET;
	if (n != (ssize_t)sizeof *hello || hello->magic != HELLO_MAGIC ||
	    hello->size != sizeof *hello || hello->version != BL_SEG_VERSION ||
	    !bl_addr_valid(&hello->from))
		return -EPROTO;
	return 0;
}

/* --- exchanges; service.lock held --------------------------------------- */

static int exchange_add(struct bl_local *local, struct bl_peer *peer, int fd)
{
	struct exchange *x = malloc(sizeof *x);

	if (!x)
		return -ENOMEM;
	*x = (struct exchange){service.exchanges, local, peer, fd, now_ms()};
	service.exchanges = x;
	return 0;
}

static void exchange_drop(struct exchange *x)
{
	struct exchange **at = &service.exchanges;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	close(x->fd);
	free(x);
}

/* Put the peer back among those that want a connection. */
static void want_again(struct bl_peer *peer)
{
	peer->next_wanting = peer->local->wanting;
	peer->local->wanting = peer;
}

static void fail(struct bl_peer *peer, int error)
{
	pthread_mutex_lock(&peer->local->lock);
	bl_peer_fail_locked(peer, error);
	pthread_mutex_unlock(&peer->local->lock);
}

/* Call the neighbour. True: the call is on its way, or decided. */
static bool call(struct bl_peer *peer)
{
	struct sockaddr_un name;
	socklen_t len = socket_name(&name, peer->addr.id);
	int fd = unix_socket(), err = fd;
	pid_t pid;

	if (fd < 0)
		goto failed;
	if (connect(fd, (struct sockaddr *)&name, len)) {
		err = -errno;
		close(fd);
		if (err == -EAGAIN) /* its backlog is full */
			return false;
		goto failed;
	}
	err = neighbour_pid(fd, &pid); /* another user's would hang up without a word */
	if (!err)
		err = send_hello(fd, peer, 0);
	if (!err)
		err = exchange_add(peer->local, peer, fd);
	if (!err)
		return true;
	close(fd);
failed:
	fail(peer, err);
	return true;
}

static bool call_all(struct bl_local *local)
{
	bool retry = false;

	pthread_mutex_lock(&local->lock);
	struct bl_peer *peer = local->wanting, *next;
	local->wanting = NULL;
	pthread_mutex_unlock(&local->lock);

	for (; peer; peer = next) {
		next = peer->next_wanting;
		if (atomic_load_explicit(&peer->state, memory_order_relaxed) != BL_PEER_CONNECTING)
			continue;
		if (!call(peer)) {
			pthread_mutex_lock(&local->lock);
			want_again(peer);
			pthread_mutex_unlock(&local->lock);
			retry = true;
		}
	}
	return retry;
}

/* Why a neighbour refused, by its own word: believed only where it is an error,
 * and one that ends the matter. */
static int refusal(int32_t status)
{
	return status > 0 || status < -4095 || status == -EAGAIN ? -EPROTO : status;
}

static void answered(struct exchange *x)
{
	struct hello hello;
	struct bl_peer *peer = x->peer;
	pid_t pid = 0;
	int got, err = receive_hello(x->fd, &hello, &got);

	if (err == -EAGAIN)
		return;
	if (!err)
		err = neighbour_pid(x->fd, &pid);
	if (!err)
		err = refusal(hello.status);
	if (!err && (memcmp(hello.from.id, peer->addr.id, sizeof hello.from.id) || got < 0))
		err = -EPROTO;

	pthread_mutex_lock(&peer->local->lock);
	if (!err)
		err = bl_peer_attach_locked(peer, got, hello.lane_at, hello.bell, pid);
	if (err)
		bl_peer_fail_locked(peer, err);
	pthread_mutex_unlock(&peer->local->lock);
	if (got >= 0)
		close(got);
	exchange_drop(x);
}

static void asked(struct exchange *x)
{
	struct bl_local *local = x->local;
	struct bl_peer *peer = NULL;
	struct hello hello;
	pid_t pid = 0;
	int got, err = receive_hello(x->fd, &hello, &got);

	if (err == -EAGAIN)
		return;
	if (!err)
		err = neighbour_pid(x->fd, &pid);
	if (err || got < 0 || memcmp(hello.to, local->addr.id, sizeof hello.to) ||
	    bl_addr_reachable(&local->addr, &hello.from)) {
		if (err == -EPERM)
			bl_info("a connection from another user was refused");
		goto done; /* whoever that was learns nothing */
	}

	pthread_mutex_lock(&local->lock);
	peer = bl_peer_get_locked(local, &hello.from);
	if (peer) {
		err = bl_peer_give_lane_locked(peer);
		if (!err)
			err = bl_peer_attach_locked(peer, got, hello.lane_at, hello.bell, pid);
	}
	pthread_mutex_unlock(&local->lock);
	if (peer)
		send_hello(x->fd, peer, err);
done:
	if (got >= 0)
		close(got);
	exchange_drop(x);
}

static void answer_callers(struct bl_local *local)
{
	for (;;) {
		int fd = accept4(local->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			/* None left; or no descriptor for it: the backlog keeps it, and
			 * polling would tell us so again at once, without end. */
			service.full = errno != EAGAIN;
			return;
		}
		if (exchange_add(local, NULL, fd)) {
			close(fd);
			return;
		}
		/* Its hello is mostly there already. */
		asked(service.exchanges);
	}
}

/* A neighbour that doesn't answer is stopped or wedged, not dead: ask anew, so
 * that a lost answer costs a delay and not the connection. */
static void retry_old_exchanges(void)
{
	uint64_t now = now_ms();

	for (struct exchange *x = service.exchanges, *next; x; x = next) {
		next = x->next;
		if (now - x->started_ms < EXCHANGE_MS)
			continue;
		if (x->peer) {
			pthread_mutex_lock(&x->local->lock);
			want_again(x->peer);
			pthread_mutex_unlock(&x->local->lock);
		}
		exchange_drop(x);
	}
}

/* --- the thread --------------------------------------------------------- */

struct watch {
	struct pollfd *fds;
	void **who; /* a local for its listener, an exchange */
	size_t count, room;
};

static bool watch_add(struct watch *w, int fd, void *who)
{
	if (w->count == w->room) {
		size_t room = w->room ? 2 * w->room : 32;
		struct pollfd *fds = realloc(w->fds, room * sizeof *fds);

		if (!fds)
			return false;
		w->fds = fds;
		void **whos = realloc(w->who, room * sizeof *whos);
		if (!whos)
			return false;
		w->who = whos;
		w->room = room;
	}
	w->fds[w->count] = (struct pollfd){.fd = fd, .events = POLLIN};
	w->who[w->count++] = who;
	return true;
}

/* The listeners come first; returns how many there are. */
static size_t watch_all(struct watch *w)
{
	size_t listeners = 0;

	w->count = 0;
	if (!watch_add(w, service.wake, NULL))
		return 0;
	for (struct bl_local *l = service.locals; l && !service.full; l = l->next_service)
		listeners += watch_add(w, l->listener, l);
	for (struct exchange *x = service.exchanges; x; x = x->next)
		watch_add(w, x->fd, x);
	return listeners;
}

/* service.lock held; the poll set is that of `w`. */
static void serve(const struct watch *w, size_t listeners)
{
	for (size_t i = 1; i < w->count; i++) {
		if (!w->fds[i].revents)
			continue;
		if (i <= listeners)
			answer_callers(w->who[i]);
		else if (((struct exchange *)w->who[i])->peer)
			answered(w->who[i]);
		else
			asked(w->who[i]);
	}
}

/* Deaths ring no bell: look after the neighbours of those that sleep. Returns
 * whether there are any. service.lock held. */
static bool watch_sleepers(void)
{
	bool any = false;

	for (struct bl_local *l = service.locals; l; l = l->next_service) {
		if (!atomic_load_explicit(&l->watched, memory_order_relaxed))
			continue;
		pthread_mutex_lock(&l->lock);
		if (!bl_local_check_sleep_locked(l)) {
			/* seq_cst: it sees this when it sleeps, or we see that it does */
			atomic_store_explicit(&l->watched, false, memory_order_seq_cst);
			if (bl_local_check_sleep_locked(l))
				atomic_store_explicit(&l->watched, true, memory_order_seq_cst);
		}
		pthread_mutex_unlock(&l->lock);
		any |= atomic_load_explicit(&l->watched, memory_order_relaxed);
	}
	return any;
}

static void *service_main(void *arg)
{
	struct watch w = {0};
	bool retry = false, watching = false;

	pthread_mutex_lock(&service.lock);
	service.robust.list.next = &service.robust.list;
	service.robust.futex_offset = LIFE_DISTANCE;
	service.robust.list_op_pending = NULL;
	if (syscall(SYS_set_robust_list, &service.robust, sizeof service.robust))
		bl_info("set_robust_list: %s; the death of this process will be noticed late",
			strerror(errno));
	service.tid = (pid_t)syscall(SYS_gettid);
	pthread_cond_broadcast(&service.started);

	while (!service.stop) {
		unsigned generation = service.generation;
		size_t listeners = watch_all(&w);
		int wait = retry || service.full ? RETRY_MS
			   : watching		 ? BL_WATCH_MS
			   : service.exchanges	 ? EXCHANGE_MS
						 : -1;

		service.full = false;
		pthread_mutex_unlock(&service.lock);
		int n = w.count ? poll(w.fds, w.count, wait) : 0;
		pthread_mutex_lock(&service.lock);

		if (n > 0 && w.fds[0].revents) {
			uint64_t count;

			if (read(service.wake, &count, sizeof count) < 0)
				count = 0; /* somebody else's wake-up; nothing to do */
		}
		if (n > 0 && generation == service.generation)
			serve(&w, listeners);
		retry_old_exchanges();
		retry = false;
		for (struct bl_local *l = service.locals; l; l = l->next_service)
			retry |= call_all(l);
		watching = watch_sleepers();
	}
	pthread_mutex_unlock(&service.lock);
	free(w.fds);
	free(w.who);
	return NULL;
}

static void wake(void)
{
	uint64_t one = 1;

	if (write(service.wake, &one, sizeof one) < 0)
		return; /* full: it is awake */
}

/* --- fork: the child has no service thread and no endpoints of its own ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&service.lock);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&service.lock);
}

static void after_fork_child(void)
{
	for (struct bl_local *l = service.locals; l; l = l->next_service) {
		close(l->listener);
		bl_local_orphan(l);
	}
	for (struct exchange *x = service.exchanges; x; x = x->next)
		close(x->fd);
	if (service.wake >= 0)
		close(service.wake);
	service.locals = NULL;
	service.exchanges = NULL;
	service.wake = -1;
	service.running = service.stop = false;
	pthread_mutex_init(&service.lock, NULL);
	pthread_cond_init(&service.started, NULL);
}

static int start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	service.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (service.wake < 0)
		return -errno;
	if (!service.atfork) {
		pthread_atfork(before_fork, after_fork_parent, after_fork_child);
		service.atfork = true;
	}
	service.stop = false;
	service.tid = 0;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&service.thread, &attr, service_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err) {
		close(service.wake);
		service.wake = -1;
		return -err;
	}
	pthread_setname_np(service.thread, "beeline");
	service.running = true;
	while (!service.tid)
		pthread_cond_wait(&service.started, &service.lock);
	return 0;
}

int bl_service_attach(struct bl_local *local)
{
	int err;

	pthread_mutex_lock(&service.lock);
	while (service.stop) /* the last endpoint's close is ending the thread */
		pthread_cond_wait(&service.started, &service.lock);
	err = listen_for(local);
	if (err)
		goto unlock;
	if (!service.running)
		err = start_thread();
	if (err) {
		bl_warn("no service thread: %s; raise the limit of processes (ulimit -u)",
			strerror(-err));
		close(local->listener);
		goto unlock;
	}
	local->next_service = service.locals;
	service.locals = local;
	service.generation++;
	robust_insert(local);
	wake();
unlock:
	pthread_mutex_unlock(&service.lock);
	return err;
}

static void forget(struct bl_local *local)
{
	struct bl_local **at = &service.locals;

	while (*at && *at != local)
		at = &(*at)->next_service;
	if (*at)
		*at = local->next_service;
	for (struct exchange *x = service.exchanges, *next; x; x = next) {
		next = x->next;
		if (x->local == local)
			exchange_drop(x);
	}
	close(local->listener);
	robust_remove(local);
	service.generation++;
}

void bl_service_detach(struct bl_local *local)
{
	pthread_t thread;
	bool last;

	pthread_mutex_lock(&service.lock);
	forget(local);
	last = !service.locals && service.running;
	if (last)
		service.stop = true;
	thread = service.thread;
	wake();
	pthread_mutex_unlock(&service.lock);
	if (!last)
		return;
	pthread_join(thread, NULL);
	pthread_mutex_lock(&service.lock);
	close(service.wake);
	service.wake = -1;
	service.running = service.stop = false;
	pthread_cond_broadcast(&service.started);
	pthread_mutex_unlock(&service.lock);
}

void bl_service_connect(struct bl_local *local)
{
	wake();
}

void bl_service_watch(struct bl_local *local)
{
	/* seq_cst: see watch_sleepers */
	if (likely(atomic_load_explicit(&local->watched, memory_order_seq_cst)))
		return;
	pthread_mutex_lock(&service.lock);
	local->awake_looks = 0;
	atomic_store_explicit(&local->watched, true, memory_order_seq_cst);
	wake();
	pthread_mutex_unlock(&service.lock);
}
