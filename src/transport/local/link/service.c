/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * service.c: the service thread, one per process that has an endpoint open. It
 * sleeps in poll() and wakes to exchange memory with a neighbour: never on
 * the way of a message, so it costs nothing while ranks compute or talk.
 *
 * It also stands for the life of the process: it holds a robust futex in each
 * endpoint's segment header, which the kernel marks when the process dies, by
 * whatever means. Neighbours read that word in memory they have mapped anyway:
 * no file descriptor, no system call and no PID is needed to notice a death.
 *
 * An endpoint's rendezvous socket listens from the moment that its address exists:
 * whoever calls before the endpoint is enabled waits in the socket's queue, and
 * hears from the kernel if the process ends first. What is said there: handshake.h.
 *
 * service.lock guards everything here; order: service.lock, then bl_local.lock.
 * A crash at any point leaves nothing behind: sockets are in the abstract
 * namespace, memory is memfds.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/window.h"
#include "transport/local/link/atomics_page.h"
#include "transport/local/link/discard.h"
#include "transport/local/link/handshake.h"
#include "transport/local/link/hello.h"
#include "transport/local/link/spares.h"

#define ROBUST_MOST   2000u /* the kernel looks at no more than 2,048 when a thread ends */
#define LIFE_DISTANCE (BL_SEG_HEADER + offsetof(struct bl_seg_header, life))

struct watch {
	struct pollfd *fds;
	void **who; /* a local for its listener, an exchange */
	size_t count, room;
	bool missed; /* there was no memory for all */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t started;
	struct bl_local *locals;    /* enabled */
	struct bl_local *listening; /* all that have an address */
	unsigned generation;	    /* counts changes of the poll set by other threads */
	int wake;		    /* eventfd */
	bool running, stop, atfork;
	bool unkept;	  /* the kernel won't mark our lives; alive.c */
	unsigned robusts; /* lives in the list */
	pid_t tid;
	pthread_t thread;
	struct robust_list_head robust;
	struct watch watch; /* the thread's; a forked child's next one has what is left of it */
} service = {.lock = PTHREAD_MUTEX_INITIALIZER, .started = PTHREAD_COND_INITIALIZER, .wake = -1};

/* --- the life futex ----------------------------------------------------- */

static void robust_insert(struct bl_local *local)
{
	struct robust_list *node = local->seg.life_page;

	atomic_store_explicit(&local->seg.header->life, (uint32_t)service.tid,
			      memory_order_release);
	if (service.unkept || service.robusts == ROBUST_MOST) {
		local->seg.header->flags |= BL_SEG_UNKEPT;
		return;
	}
	service.robusts++;
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
	if (*at != node)
		return;
	*at = node->next;
	service.robusts--;
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

/* --- the thread --------------------------------------------------------- */

static bool watch_add(struct watch *w, int fd, void *who)
{
	if (w->count == w->room) {
		size_t room = w->room ? 2 * w->room : 32;
		struct pollfd *fds = realloc(w->fds, room * sizeof *fds);

		if (!fds)
			goto missed;
		w->fds = fds;
		void **whos = realloc(w->who, room * sizeof *whos);
		if (!whos)
			goto missed;
		w->who = whos;
		w->room = room;
	}
	w->fds[w->count] = (struct pollfd){.fd = fd, .events = POLLIN};
	w->who[w->count++] = who;
	return true;

missed:
	w->missed = true;
	return false;
}

/* poll(), for a while only where not all could be watched for want of memory. Where RLIMIT_NOFILE
 * has been lowered below what is watched: as many as it lets us, the first. */
static int watch_wait(struct watch *w, int wait)
{
	struct rlimit files;
	int n;

	if (w->missed && (wait < 0 || wait > BL_WATCH_MS))
		wait = BL_WATCH_MS;
	n = poll(w->fds, w->count, wait);
	if (n >= 0 || errno != EINVAL)
		return n;
	if (getrlimit(RLIMIT_NOFILE, &files))
		files.rlim_cur = 0;
	return poll(w->fds, bl_min(w->count, (size_t)files.rlim_cur), BL_WATCH_MS);
}

/* The listeners come first; returns how many there are. */
static size_t watch_all(struct watch *w)
{
	size_t listeners = 0;

	w->count = 0;
	w->missed = false;
	if (!watch_add(w, service.wake, NULL))
		return 0;
	for (struct bl_local *l = service.locals; l && bl_handshake_takes_callers();
	     l = l->next_service)
		listeners += watch_add(w, l->listener, l);
	for (struct bl_handshake *x = bl_handshakes.list; x; x = x->next)
		if (!x->over)
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
			bl_handshake_answer(w->who[i]);
		else
			bl_handshake_serve(w->who[i]);
	}
}

/* Deaths ring no doorbell: look after the neighbours of those that sleep. Returns
 * whether there are any. service.lock held. */
static bool watch_sleepers(void)
{
	bool any = false;

	for (struct bl_local *l = service.locals; l; l = l->next_service) {
		if (!atomic_load_explicit(&l->watch.watched, memory_order_relaxed))
			continue;
		pthread_mutex_lock(&l->lock);
		if (!bl_local_check_sleep_locked(l)) {
			/* seq_cst: it sees this when it sleeps, or we that it is `asleep` */
			atomic_store_explicit(&l->watch.watched, false, memory_order_seq_cst);
			if (bl_local_check_sleep_locked(l))
				atomic_store_explicit(&l->watch.watched, true,
						      memory_order_seq_cst);
		}
		pthread_mutex_unlock(&l->lock);
		any |= atomic_load_explicit(&l->watch.watched, memory_order_relaxed);
	}
	return any;
}

static void *service_main(void *arg)
{
	struct watch *w = &service.watch;
	bool watching = false;

	pthread_mutex_lock(&service.lock);
	service.robust.list.next = &service.robust.list;
	service.robusts = 0;
	service.robust.futex_offset = LIFE_DISTANCE;
	service.robust.list_op_pending = NULL;
	service.unkept = syscall(SYS_set_robust_list, &service.robust, sizeof service.robust);
	if (service.unkept)
		bl_info("set_robust_list: %s; neighbours look for this process's death themselves",
			strerror(errno));
	service.tid = (pid_t)syscall(SYS_gettid);
	pthread_cond_broadcast(&service.started);

	while (!service.stop) {
		unsigned generation = service.generation;
		size_t listeners = watch_all(w);
		int wait = bl_handshake_patience();

		if (watching && (wait < 0 || wait > BL_WATCH_MS))
			wait = BL_WATCH_MS;
		bl_handshakes.full = bl_handshakes.retry = false;
		bl_handshakes.due_ms = UINT64_MAX;
		pthread_mutex_unlock(&service.lock);
		int n = watch_wait(w, wait);
		pthread_mutex_lock(&service.lock);

		if (n > 0 && w->fds[0].revents) {
			uint64_t count;

			if (read(service.wake, &count, sizeof count) < 0)
				count = 0; /* somebody else's wake-up; nothing to do */
		}
		if (n > 0 && generation == service.generation)
			serve(w, listeners);
		bl_handshake_tidy();
		for (struct bl_local *l = service.locals; l; l = l->next_service)
			bl_handshake_call(l);
		if (!bl_spares_fill(service.wake))
			bl_handshakes.retry = true;
		watching = watch_sleepers();
	}
	free(w->fds);
	free(w->who);
	*w = (struct watch){0};
	pthread_mutex_unlock(&service.lock);
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
	for (struct bl_local *l = service.listening; l; l = l->next_listening) {
		close(l->listener);
		l->listener = -1;
		if (l->doorbell.wake_socket >= 0)
			close(l->doorbell.wake_socket);
		l->doorbell.wake_socket = -1;
	}
	for (struct bl_local *l = service.locals; l; l = l->next_service)
		bl_local_orphan(l);
	bl_atomics_page_orphan();
	bl_handshake_orphan();
	if (service.wake >= 0)
		close(service.wake);
	service.locals = service.listening = NULL;
	service.wake = -1;
	service.running = service.stop = false;
	pthread_mutex_unlock(&service.lock); /* held by the thread that forked, which this is */
	pthread_cond_init(&service.started, NULL);
}

static void close_all(void)
{
	bl_spares_close_all();
	bl_discard_close();
	if (service.wake >= 0)
		close(service.wake);
	service.wake = -1;
}

static int start_thread(void)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	const char *what = "eventfd2";

	service.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (service.wake >= 0)
		what = "fcntl";
	if (service.wake < 0 || !bl_spares_fill(service.wake) || bl_discard_open()) {
		err = errno;
		goto close_all;
	}
	what = "thread";
	service.stop = false;
	service.tid = 0;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, bl_thread_stack());
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&service.thread, &attr, service_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		goto close_all;
	pthread_setname_np(service.thread, "beeline");
	service.running = true;
	return 0;

close_all:
	close_all();
	bl_warn("no service thread: %s: %s; %s", what, strerror(err), bl_remedy(err));
	return -err;
}

int bl_service_listen(struct bl_local *local)
{
	int err;

	pthread_mutex_lock(&service.lock);
	if (!service.atfork) {
		pthread_atfork(before_fork, after_fork_parent, after_fork_child);
		service.atfork = true;
	}
	err = bl_socket_listen(local);
	if (!err) {
		local->next_listening = service.listening;
		service.listening = local;
	}
	pthread_mutex_unlock(&service.lock);
	return err;
}

void bl_service_unlisten(struct bl_local *local)
{
	struct bl_local **at = &service.listening;

	pthread_mutex_lock(&service.lock);
	while (*at && *at != local)
		at = &(*at)->next_listening;
	if (*at) /* else it belongs to the parent of this process */
		*at = local->next_listening;
	if (local->listener >= 0)
		bl_discard_listener(local->listener);
	local->listener = -1;
	pthread_mutex_unlock(&service.lock);
}

int bl_service_attach(struct bl_local *local)
{
	int err = 0;

	pthread_mutex_lock(&service.lock);
	/* The last endpoint's close may be ending the thread, another's opening starting it; and
	 * whoever came and went while we waited may have ended it again. */
	while (service.stop || !service.running || !service.tid)
		if (service.stop || service.running)
			pthread_cond_wait(&service.started, &service.lock);
		else if ((err = start_thread()))
			goto unlock;
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
	bl_handshake_forget(local);
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
	close_all();
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
	if (likely(atomic_load_explicit(&local->watch.watched, memory_order_seq_cst)))
		return;
	pthread_mutex_lock(&service.lock);
	local->watch.awake_looks = 0;
	atomic_store_explicit(&local->watch.watched, true, memory_order_seq_cst);
	wake();
	pthread_mutex_unlock(&service.lock);
}
