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
 * An endpoint's rendezvous socket listens from the moment that its address exists:
 * whoever calls before the endpoint is enabled waits in the socket's queue, and
 * hears from the kernel if the process ends first. Connecting takes descriptors
 * for a moment; two are kept aside for each direction, so that a process that has
 * used up its own can still be connected, one neighbour at a time.
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
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/window.h"
#include "local/commons.h"
#include "local/hello.h"

#define RETRY_MS      2	    /* the neighbour's backlog is full, or descriptors are short */
#define CALLS_MOST    32    /* that wait for an answer; each holds a descriptor */
#define ANSWERS_MOST  64    /* callers of one endpoint, before others have their turn */
#define SILENT_MOST   64    /* callers that have said nothing yet; each holds a descriptor */
#define SPARES	      2	    /* the socket, and the segment that comes over it */
#define EXCHANGE_MS   20000 /* a neighbour that doesn't answer may be stopped: ask again */
#define SILENT_MS     100   /* as long may a caller say nothing while descriptors are short */
#define LIFE_DISTANCE (BL_SEG_HEADER + offsetof(struct bl_seg_header, life))

struct exchange {
	struct exchange *next;
	struct bl_local *local;
	struct bl_peer *peer; /* outgoing; NULL: incoming */
	int fd;
	pid_t pid; /* incoming: the caller's */
	uint64_t started_ms;
	struct spares *spares; /* whose place its descriptors took, or NULL */
};

/* Descriptors that hold a place. */
struct spares {
	int fd[SPARES];
	bool spent; /* an exchange lives in their place */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t started;
	struct bl_local *locals;    /* enabled */
	struct bl_local *listening; /* all that have an address */
	struct exchange *exchanges;
	unsigned calls; /* exchanges that we began */
	struct spares calling, answering;
	unsigned generation; /* counts changes of the poll set by other threads */
	int wake;	     /* eventfd */
	bool running, stop, atfork;
	bool full;   /* no descriptor for another caller: leave listeners alone a while */
	bool retry;  /* some call must be made again soon */
	bool tight;  /* a segment has come and there was no descriptor for it */
	bool told;   /* that strangers call */
	bool unkept; /* the kernel won't mark our lives; alive.c */
	pid_t tid;
	pthread_t thread;
	struct robust_list_head robust;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER,
	     .started = PTHREAD_COND_INITIALIZER,
	     .wake = -1,
	     .calling = {.fd = {-1, -1}},
	     .answering = {.fd = {-1, -1}}};

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
	if (service.unkept)
		local->seg.header->flags |= BL_SEG_UNKEPT;
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

/* --- descriptors kept aside; service.lock held --------------------------- */

static void spares_close(struct spares *spares)
{
	for (int i = 0; i < SPARES; i++) {
		if (spares->fd[i] >= 0)
			close(spares->fd[i]);
		spares->fd[i] = -1;
	}
}

/* False: some are missing. */
static bool spares_fill(struct spares *spares)
{
	for (int i = 0; i < SPARES; i++) {
		if (spares->fd[i] < 0)
			spares->fd[i] = fcntl(service.wake, F_DUPFD_CLOEXEC, 0);
		if (spares->fd[i] < 0)
			return false;
	}
	return true;
}

/* A hello is about to be read: where a segment found no room before, make some. */
static void make_room(struct spares *spares)
{
	if (service.tight && !spares->spent)
		spares_close(spares); /* filled again before the next sleep */
}

/* `err` says that descriptors ran out: give up those aside. True: try again now. */
static bool spares_spend(struct spares *spares, int err)
{
	if ((err != -EMFILE && err != -ENFILE) || spares->spent)
		return false;
	spares_close(spares);
	return true;
}

/* --- exchanges; service.lock held --------------------------------------- */

static int exchange_add(struct bl_local *local, struct bl_peer *peer, int fd, pid_t pid,
			struct spares *spares)
{
	struct exchange *x = malloc(sizeof *x);

	if (!x)
		return -ENOMEM;
	*x = (struct exchange){service.exchanges, local, peer, fd, pid, now_ms(), spares};
	service.exchanges = x;
	service.calls += peer != NULL;
	if (spares)
		spares->spent = true;
	return 0;
}

static void exchange_drop(struct exchange *x)
{
	struct exchange **at = &service.exchanges;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	close(x->fd);
	service.calls -= x->peer != NULL;
	if (x->spares)
		x->spares->spent = false; /* filled again before the next sleep */
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
	socklen_t len = bl_socket_name(&name, peer->addr.id);
	int fd = bl_socket(), err;
	struct spares *spares = NULL;
	pid_t pid;

	if (fd < 0 && spares_spend(&service.calling, fd)) {
		fd = bl_socket();
		spares = &service.calling;
	}
	if (fd == -EMFILE || fd == -ENFILE)
		return false; /* when the call that has the spares is over */
	err = fd;
	if (fd < 0)
		goto failed;
	if (connect(fd, (struct sockaddr *)&name, len)) {
		err = -errno;
		close(fd);
		if (err == -EAGAIN) /* its backlog is full */
			return false;
		goto failed;
	}
	bl_window(BL_WINDOW_CALLED, NULL);
	err = bl_socket_pid(fd, &pid); /* another user's would hang up without a word */
	if (!err)
		err = bl_hello_send(fd, peer, 0);
	/* Later: too many descriptors are on their way; it hung up before we said a word. */
	if (err == -ETOOMANYREFS || err == -EPIPE || err == -ECONNRESET) {
		close(fd);
		return false;
	}
	if (!err)
		err = exchange_add(peer->local, peer, fd, pid, spares);
	if (!err)
		return true;
	close(fd);
failed:
	fail(peer, err);
	return true;
}

static void call_all(struct bl_local *local)
{
	pthread_mutex_lock(&local->lock);
	struct bl_peer *peer = local->wanting, *next;
	local->wanting = NULL;
	pthread_mutex_unlock(&local->lock);

	for (; peer; peer = next) {
		bool later = service.calls >= CALLS_MOST; /* when some have been answered */

		next = peer->next_wanting;
		if (atomic_load_explicit(&peer->state, memory_order_relaxed) != BL_PEER_CONNECTING)
			continue;
		if (!later && !call(peer))
			later = service.retry = true;
		if (!later)
			continue;
		pthread_mutex_lock(&local->lock);
		want_again(peer);
		pthread_mutex_unlock(&local->lock);
	}
}

/* Why a neighbour refused, by its own word: believed only where it is an error. */
static int refusal(int32_t status)
{
	return status > 0 || status < -4095 ? -EPROTO : status;
}

static void close_both(const int fd[2])
{
	for (int i = 0; i < 2; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

static void answered(struct exchange *x)
{
	struct bl_hello hello;
	struct bl_peer *peer = x->peer;
	pid_t pid = 0;
	int got[2], err;

	make_room(&service.calling);
	err = bl_hello_receive(x->fd, &hello, got);
	service.tight |= err == -EMFILE;
	if (err == -EAGAIN)
		return;
	if (!err)
		err = bl_socket_pid(x->fd, &pid);
	if (!err)
		err = refusal(hello.status);
	if (!err && (memcmp(hello.from.id, peer->addr.id, sizeof hello.from.id) || got[0] < 0))
		err = -EPROTO;

	pthread_mutex_lock(&peer->local->lock);
	bl_window(BL_WINDOW_ATTACHED, NULL);
	if (!err && !peer->addr.pid) /* it was called by a name */
		peer->addr.pid = hello.from.pid;
	if (!err)
		err = bl_peer_attach_locked(peer, got, hello.lane_at, hello.bell, pid);
	/* Descriptors ran out, here or there; or it hung up before it read a word. */
	if (err == -EMFILE || err == -EAGAIN || err == -EPIPE) {
		want_again(peer);
		service.retry = true;
	} else if (err) {
		bl_peer_fail_locked(peer, err);
	}
	pthread_mutex_unlock(&peer->local->lock);
	close_both(got);
	exchange_drop(x);
}

/*
 * Whether the caller is who it says, before anything else of its hello is taken: any
 * process of this user could call in a neighbour's name and be taken for it. True: it is.
 */
static bool is_itself(struct exchange *x, const struct bl_hello *hello)
{
	int err = bl_socket_listens(x->fd, hello->from.id);

	if (err == -EMFILE || err == -ENFILE) {
		service.tight = true;
		make_room(&service.answering);
		err = bl_socket_listens(x->fd, hello->from.id);
	}
	if (!err)
		return true;
	if (err == -EACCES)
		bl_info("process %d called in another's name and was refused", (int)x->pid);
	else
		bl_hello_refuse(x->fd, x->local, -EAGAIN); /* call again */
	return false;
}

static void asked(struct exchange *x)
{
	struct bl_local *local = x->local;
	struct bl_peer *peer = NULL;
	struct bl_hello hello;
	int got[2] = {-1, -1}, err;

	make_room(&service.answering);
	err = bl_hello_peek(x->fd, &hello);
	if (err == -EAGAIN)
		return;
	/* Whoever that was learns nothing. */
	if (err || memcmp(hello.to, local->addr.id, sizeof hello.to) ||
	    bl_addr_reachable(&local->addr, &hello.from) || !is_itself(x, &hello)) {
		bl_hello_skip(x->fd);
		goto done;
	}
	err = bl_hello_receive(x->fd, &hello, got);
	bool full = err == -EMFILE; /* the rest of the hello is as it should be */
	service.tight |= full;
	if ((err || got[0] < 0) && !full)
		goto done;

	bl_window(BL_WINDOW_ASKED, NULL);
	pthread_mutex_lock(&local->lock);
	peer = bl_peer_get_locked(local, &hello.from);
	if (full) {
		err = -EAGAIN; /* call again: by then it may be one of the spares' */
	} else if (peer) {
		err = bl_peer_give_lane_locked(peer);
		if (!err)
			err = bl_peer_attach_locked(peer, got, hello.lane_at, hello.bell, x->pid);
	}
	pthread_mutex_unlock(&local->lock);
	/* The caller has our word or must not be left without: descriptors on their way
	 * count against a limit of their own, which is soon below it again. */
	for (int i = 0; peer && bl_hello_send(x->fd, peer, err) == -ETOOMANYREFS && i < 1000; i++)
		usleep(1000);
	bl_window(BL_WINDOW_ANSWERED, NULL);
done:
	close_both(got);
	exchange_drop(x);
}

static void answer_callers(struct bl_local *local)
{
	for (int n = 0; n < ANSWERS_MOST; n++) {
		int fd = accept4(local->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct spares *spares = NULL;
		pid_t pid;

		if (fd < 0 && spares_spend(&service.answering, -errno)) {
			fd = accept4(local->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			spares = &service.answering;
		}
		if (fd < 0) {
			/* None left; or no descriptor for it: the backlog keeps it, and
			 * polling would tell us so again at once, without end. */
			service.full = errno != EAGAIN;
			return;
		}
		if (bl_socket_pid(fd, &pid)) { /* nothing of a stranger is kept */
			bl_hello_skip(fd);
			close(fd);
			if (!service.told)
				bl_info("a call was refused: %s", bl_why_stranger());
			service.told = true;
			continue;
		}
		if (exchange_add(local, NULL, fd, pid, spares)) {
			close(fd);
			return;
		}
		/* Its hello is mostly there already. */
		asked(service.exchanges);
	}
}

/*
 * A neighbour that doesn't answer is stopped or wedged, not dead: ask anew, so
 * that a lost answer costs a delay and not the connection. A caller that says nothing
 * makes way for others, the oldest first, and calls again if it is honest.
 */
static void end_old_exchanges(void)
{
	uint64_t now = now_ms();
	unsigned silent = 0;

	for (struct exchange *x = service.exchanges, *next; x; x = next) {
		uint64_t patience = !x->peer && service.full ? SILENT_MS : EXCHANGE_MS;

		next = x->next; /* an older one */
		silent += !x->peer;
		if (now - x->started_ms < patience && (x->peer || silent <= SILENT_MOST))
			continue;
		if (x->peer) {
			pthread_mutex_lock(&x->local->lock);
			want_again(x->peer);
			pthread_mutex_unlock(&x->local->lock);
		} else {
			bl_hello_refuse(x->fd, x->local, -EAGAIN);
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
	bool watching = false;

	pthread_mutex_lock(&service.lock);
	service.robust.list.next = &service.robust.list;
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
		size_t listeners = watch_all(&w);
		int wait = service.retry || service.full ? RETRY_MS
			   : watching			 ? BL_WATCH_MS
			   : service.exchanges		 ? EXCHANGE_MS
							 : -1;

		service.full = service.retry = false;
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
		end_old_exchanges();
		for (struct bl_local *l = service.locals; l; l = l->next_service)
			call_all(l);
		if ((!service.calling.spent && !spares_fill(&service.calling)) ||
		    (!service.answering.spent && !spares_fill(&service.answering)))
			service.retry = true;
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
	for (struct bl_local *l = service.listening; l; l = l->next_listening) {
		close(l->listener);
		l->listener = -1;
	}
	for (struct bl_local *l = service.locals; l; l = l->next_service)
		bl_local_orphan(l);
	bl_commons_orphan();
	for (struct exchange *x = service.exchanges; x; x = x->next)
		close(x->fd);
	spares_close(&service.calling);
	spares_close(&service.answering);
	if (service.wake >= 0)
		close(service.wake);
	service.locals = service.listening = NULL;
	service.exchanges = NULL;
	service.calls = 0;
	service.wake = -1;
	service.running = service.stop = false;
	pthread_mutex_init(&service.lock, NULL);
	pthread_cond_init(&service.started, NULL);
}

static void close_all(void)
{
	spares_close(&service.calling);
	spares_close(&service.answering);
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
	if (service.wake < 0 || !spares_fill(&service.calling) ||
	    !spares_fill(&service.answering)) {
		err = errno;
		goto close_all;
	}
	what = "thread";
	service.stop = false;
	service.tid = 0;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&service.thread, &attr, service_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		goto close_all;
	pthread_setname_np(service.thread, "beeline");
	service.running = true;
	while (!service.tid)
		pthread_cond_wait(&service.started, &service.lock);
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
		close(local->listener);
	local->listener = -1;
	pthread_mutex_unlock(&service.lock);
}

int bl_service_attach(struct bl_local *local)
{
	int err = 0;

	pthread_mutex_lock(&service.lock);
	while (service.stop) /* the last endpoint's close is ending the thread */
		pthread_cond_wait(&service.started, &service.lock);
	if (!service.running)
		err = start_thread();
	if (err)
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
	for (struct exchange *x = service.exchanges, *next; x; x = next) {
		next = x->next;
		if (x->local == local)
			exchange_drop(x);
	}
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
	if (likely(atomic_load_explicit(&local->watched, memory_order_seq_cst)))
		return;
	pthread_mutex_lock(&service.lock);
	local->awake_looks = 0;
	atomic_store_explicit(&local->watched, true, memory_order_seq_cst);
	wake();
	pthread_mutex_unlock(&service.lock);
}
