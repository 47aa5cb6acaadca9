/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * handshake.c: see handshake.h. The service thread enters, and whoever closes an
 * endpoint; all of it is under service.lock.
 */
#include "transport/local/link/handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/window.h"
#include "transport/local/link/atomics_page.h"
#include "transport/local/link/discard.h"
#include "transport/local/link/hello.h"
#include "transport/local/link/prove_access.h"
#include "transport/local/link/spares.h"

#define RETRY_MS     2	   /* the neighbour's backlog is full, or descriptors are short */
#define BUSY_MOST    6	   /* times doubled, where descriptors are short here or there */
#define BUSY_TOLD    30	   /* calls: some 5 s; a job of 1,024 is connected in less */
#define SPARES_MS    100   /* none are aside, and nobody is on the way who would need them */
#define CROSSED_MS   10	   /* it is calling us, and hasn't come yet: call it again */
#define CALLS_MOST   32	   /* that wait for an answer; each holds a descriptor */
#define ANSWERS_MOST 64	   /* callers of one endpoint, before others have their turn */
#define CALLERS_MOST 96	   /* that we wait for; each holds a descriptor */
#define EXCHANGE_MS  20000 /* a neighbour that doesn't answer may be stopped: ask again */
#define SILENT_MS    100   /* as long may a caller say nothing while there are many */
#define SILENT_MANY  64
#define PROMISED_MS  1000 /* as long it may keep us waiting then, once it has been answered */
#define PROOF_MS     1000 /* as long we wait for the answer to a proof */

struct bl_handshakes bl_handshakes = {.due_ms = UINT64_MAX};

static bool told; /* that strangers call */

static uint64_t now_ms(void)
{
	return bl_clock_ns() / 1000000;
}

/* --- the list ----------------------------------------------------------------- */

static unsigned *count_of(const struct bl_handshake *x)
{
	return x->incoming ? &bl_handshakes.callers : &bl_handshakes.calls;
}

static struct bl_handshake *exchange_add(struct bl_local *local, struct bl_peer *peer, int fd,
					 pid_t pid, struct bl_spares *spares)
{
	struct bl_handshake *x = malloc(sizeof *x);

	if (!x)
		return NULL;
	*x = (struct bl_handshake){
		.next = bl_handshakes.list,
		.local = local,
		.peer = peer,
		.incoming = !peer,
		.fd = fd,
		.pid = pid,
		.started_ms = now_ms(),
		.spares = spares,
	};
	bl_handshakes.list = x;
	*count_of(x) += 1;
	if (spares)
		spares->spent = true;
	return x;
}

/* Our lane is the peer's to write into from now on, or no longer; core/mr.c. */
static void set_cts_all(struct bl_handshake *x, struct bl_lane *lane)
{
	pthread_mutex_lock(&x->local->lock);
	x->peer->setup.cts_all = lane;
	pthread_mutex_unlock(&x->local->lock);
	x->cts_all = lane != NULL;
}

/* It is freed later: whoever is going through the list goes on. */
static void exchange_end(struct bl_handshake *x)
{
	bl_discard_socket(x->fd);
	x->over = true;
	if (x->cts_all)
		set_cts_all(x, NULL);
	if (x->incoming && x->peer) {
		pthread_mutex_lock(&x->local->lock);
		bl_peer_promise_locked(x->peer, false);
		x->peer->setup.call_after_ms = 0; /* if we want it, it's our turn */
		pthread_mutex_unlock(&x->local->lock);
	}
	bl_lane_drop(x->link.ours, x->link.ours_span);
	x->link.ours = NULL;
	bl_link_unmap(&x->link);
	*count_of(x) -= 1;
	if (x->spares)
		x->spares->spent = false; /* filled again before the next sleep */
}

/* What we have promised the peer and not heard of since. */
static struct bl_handshake *promise_to(const struct bl_peer *peer)
{
	struct bl_handshake *x = bl_handshakes.list;

	while (x && (x->over || !x->incoming || x->peer != peer))
		x = x->next;
	return x;
}

static void close_all(const int fd[BL_FDS])
{
	for (int i = 0; i < BL_FDS; i++)
		bl_discard_received(fd[i]);
}

/* What the other says; as bl_hello_receive(). */
static int hear(struct bl_handshake *x, struct bl_spares *spares, struct bl_hello *hello,
		int got[BL_FDS])
{
	int err;

	bl_memlimit_reclaim(spares);
	err = bl_hello_receive(x->fd, hello, got);
	bl_spares_tight |= err == -EMFILE;
	return err;
}

/* Our lane to the peer, for this exchange; its descriptor or -errno. */
static int make_lane(struct bl_handshake *x, struct bl_spares *spares)
{
	struct bl_local *local = x->local;
	int fd;

	pthread_mutex_lock(&local->lock);
	fd = bl_lane_make(&local->seg, &x->link);
	if (bl_spares_spend(spares, fd)) {
		x->spares = spares;
		spares->spent = true;
		fd = bl_lane_make(&local->seg, &x->link);
	}
	pthread_mutex_unlock(&local->lock);
	return fd;
}

/* --- calling ------------------------------------------------------------------- */

/* It will be called again, but not before so long. local->lock held. */
static void want_again(struct bl_peer *peer, unsigned ms)
{
	peer->setup.call_after_ms = now_ms() + ms;
	bl_peer_want_locked(peer);
}

static void fail(struct bl_peer *peer, int error)
{
	pthread_mutex_lock(&peer->local->lock);
	bl_peer_fail_locked(peer, error);
	pthread_mutex_unlock(&peer->local->lock);
}

/* A socket that is connected to the peer, or -errno; -EAGAIN: not now. */
static int dial(struct bl_peer *peer, struct bl_spares **spares)
{
	struct sockaddr_un name;
	socklen_t len = bl_socket_name(&name, peer->addr.id);
	int fd = bl_socket(), err;

	*spares = NULL;
	if (bl_spares_spend(&bl_calling, fd)) {
		fd = bl_socket();
		*spares = &bl_calling;
	}
	if (fd < 0)
		return bl_is_short(fd) ? -EAGAIN
				       : fd; /* when the call that has the spares is over */
	if (!connect(fd, (struct sockaddr *)&name, len))
		return fd;
	err = -errno; /* EAGAIN: its backlog is full */
	close(fd);
	return err;
}

/* What went wrong for now only: descriptors ran out, here or there, or too many are on
 * their way; or it hung up before it had read a word. */
static bool is_passing(int err)
{
	return bl_is_short(err) || err == -EAGAIN || err == -ETOOMANYREFS || err == -EPIPE;
}

/* We are our own neighbour; it was not possible at once. False: later. */
static bool connect_self(struct bl_peer *peer)
{
	int err;

	pthread_mutex_lock(&peer->local->lock);
	err = bl_peer_connect_self_locked(peer);
	if (bl_spares_spend(&bl_calling, err))
		err = bl_peer_connect_self_locked(peer);
	if (err && !bl_is_short(err))
		bl_peer_fail_locked(peer, err);
	pthread_mutex_unlock(&peer->local->lock);
	return !bl_is_short(err);
}

/* Call the neighbour. False: later. */
static bool call(struct bl_peer *peer)
{
	struct bl_spares *spares;
	struct bl_handshake *x;
	int fd = dial(peer, &spares), err = fd;
	pid_t pid;

	if (fd >= 0) {
		bl_window(BL_WINDOW_CALLED, NULL);
		err = bl_socket_pid(fd, &pid); /* another user's would hang up without a word */
		x = err ? NULL : exchange_add(peer->local, peer, fd, pid, spares);
		if (x)
			err = bl_hello_send(x, BL_HELLO_CALL, -1);
		if (x && !err)
			return true;
		if (x)
			exchange_end(x);
		else
			bl_discard_socket(fd);
		if (!err)
			err = -ENOMEM;
		if (err == -ECONNRESET)
			err = -EAGAIN; /* it hung up before we said a word */
	}
	if (is_passing(err))
		return false;
	fail(peer, err);
	return true;
}

/* Ask for the atomics_page of one that we are connected to. False: later. */
static bool prove(struct bl_peer *peer)
{
	struct bl_spares *spares;
	struct bl_handshake *x = NULL;
	int fd = dial(peer, &spares), err = fd < 0 ? fd : 0;
	uint64_t secret;
	pid_t pid;

	pthread_mutex_lock(&peer->local->lock);
	secret = peer->access.secret;
	pthread_mutex_unlock(&peer->local->lock);
	if (!err)
		err = bl_socket_pid(fd, &pid);
	if (!err && pid != peer->copy.pid)
		err = -EPERM; /* the name is another's by now */
	if (!err)
		err = bl_hello_prove(fd, peer->local, peer->addr.id, secret);
	if (!err)
		x = exchange_add(peer->local, peer, fd, pid, spares);
	if (x) {
		x->proof = true;
		return true;
	}
	bl_discard_socket(fd);
	if (is_passing(err))
		return false;
	bl_peer_give_atomics_page(peer, NULL, false);
	return true;
}

static void proven(struct bl_handshake *x)
{
	struct bl_hello hello;
	struct bl_atomics_page *atomics_page = NULL;
	int got[BL_FDS], err = hear(x, &bl_calling, &hello, got);

	if (err == -EAGAIN)
		return;
	if (!err && hello.step == BL_HELLO_ATOMICS_PAGE)
		atomics_page = bl_atomics_page_map(got[0]);
	close_all(got);
	bl_peer_give_atomics_page(x->peer, atomics_page, bl_is_short(err));
	exchange_end(x);
}

/* See to one that the owner wants: to be connected, or its atomics_page. False: later. */
static bool see_to(struct bl_peer *peer)
{
	const struct bl_local *local = peer->local;

	if (atomic_load_explicit(&peer->state, memory_order_relaxed) == BL_PEER_READY)
		return atomic_load_explicit(&peer->proof, memory_order_relaxed) !=
			       BL_PROOF_WANTED ||
		       prove(peer);
	if (!memcmp(peer->addr.id, local->addr.id, sizeof peer->addr.id))
		return connect_self(peer);
	return call(peer);
}

static bool is_seen_to(const struct bl_peer *peer)
{
	enum bl_peer_state state = atomic_load_explicit(&peer->state, memory_order_relaxed);

	return state != BL_PEER_CONNECTING &&
	       (state != BL_PEER_READY ||
		atomic_load_explicit(&peer->proof, memory_order_relaxed) != BL_PROOF_WANTED);
}

/* Not now, but in a while, or when some calls have been answered. */
static bool must_wait(const struct bl_peer *peer)
{
	uint64_t now = now_ms();

	if (peer->setup.call_after_ms > now) {
		bl_handshakes.due_ms = bl_min(bl_handshakes.due_ms, peer->setup.call_after_ms);
		return true;
	}
	return bl_handshakes.calls >= CALLS_MOST || promise_to(peer);
}

void bl_handshake_call(struct bl_local *local)
{
	pthread_mutex_lock(&local->lock);
	struct bl_peer *peer = local->peers.wanting, *next;
	local->peers.wanting = local->peers.wanting_last = NULL;
	pthread_mutex_unlock(&local->lock);

	for (; peer; peer = next) {
		bool later = must_wait(peer);

		pthread_mutex_lock(&local->lock);
		next = peer->next.wanting;
		peer->wanting = false;
		pthread_mutex_unlock(&local->lock);
		if (is_seen_to(peer))
			continue;
		if (!later && !see_to(peer)) {
			peer->setup.call_after_ms = now_ms() + RETRY_MS;
			bl_handshakes.due_ms =
				bl_min(bl_handshakes.due_ms, peer->setup.call_after_ms);
			later = true;
		}
		if (!later)
			continue;
		pthread_mutex_lock(&local->lock);
		bl_peer_want_locked(peer);
		pthread_mutex_unlock(&local->lock);
	}
}

/* Why a neighbour refused, by its own word: believed only where it is an error. */
static int refusal(int32_t status)
{
	return status > 0 || status < -4095 ? -EPROTO : status;
}

/* What our call has been answered: nothing is believed of a neighbour's word. */
static int check_answer(const struct bl_handshake *x, const struct bl_hello *hello)
{
	int err;

	if (memcmp(hello->from.id, x->peer->addr.id, sizeof hello->from.id))
		return -EPROTO;
	if (hello->step == BL_HELLO_READY && x->cts_all)
		return 0;
	if (hello->step != BL_HELLO_ANSWER)
		return -EPROTO;
	err = refusal(hello->status);
	return err || !x->cts_all ? err : -EPROTO;
}

/* A call has ended with an error: for good, or it will be made again. */
static void end_call(struct bl_handshake *x, int err)
{
	struct bl_peer *peer = x->peer;

	if (promise_to(peer))
		err = -EALREADY; /* the other's call decides */
	pthread_mutex_lock(&peer->local->lock);
	if (err == -EALREADY) { /* it has called us, or will */
		want_again(peer, CROSSED_MS);
	} else if (err == -EPIPE) {
		want_again(peer, RETRY_MS);
	} else if (is_passing(err)) {
		/* Not all at once: many may have met the same limit. */
		want_again(peer, (RETRY_MS + peer->addr.id[1] % RETRY_MS)
					 << bl_min(peer->setup.busy, BUSY_MOST));
		if (peer->setup.busy == BUSY_TOLD)
			bl_warn("no connection yet to process %u on %s, which is called again and "
				"again: %s",
				peer->addr.pid, peer->addr.hostname, strerror(-err));
		peer->setup.busy += peer->setup.busy <= BUSY_TOLD;
	} else {
		bl_peer_fail_locked(peer, err);
	}
	pthread_mutex_unlock(&peer->local->lock);
	exchange_end(x);
}

/* Its memory has come: give it ours. */
static int give(struct bl_handshake *x, const struct bl_hello *hello, const int got[BL_FDS])
{
	int err = bl_link_map(&x->link, got), lane;

	if (err)
		return err;
	x->doorbell = hello->doorbell;
	lane = make_lane(x, &bl_calling);
	if (lane < 0)
		return lane;
	set_cts_all(x, x->link.ours);
	err = bl_hello_send(x, BL_HELLO_GIVE, lane);
	close(lane);
	return err == -ECONNRESET ? -EAGAIN : err;
}

/* It says that we are connected. */
static void connected(struct bl_handshake *x, const struct bl_hello *hello)
{
	struct bl_peer *peer = x->peer;
	struct bl_local *local = x->local;

	pthread_mutex_lock(&local->lock);
	bl_window(BL_WINDOW_AGREED, NULL);
	if (!peer->addr.pid) /* it was called by a name */
		peer->addr.pid = hello->from.pid;
	bl_peer_attach_locked(peer, &x->link, x->doorbell, x->pid);
	pthread_mutex_unlock(&local->lock);
	exchange_end(x);
}

static void answered(struct bl_handshake *x)
{
	struct bl_hello hello;
	int got[BL_FDS], err = hear(x, &bl_calling, &hello, got);

	if (err == -EAGAIN)
		return;
	bl_window(BL_WINDOW_ATTACHED, NULL);
	if (!err)
		err = check_answer(x, &hello);
	/* Having given, it may have been given up at the other end for other reasons. */
	if (err == -ECONNRESET && x->cts_all)
		err = -EAGAIN;
	if (!err && hello.step == BL_HELLO_READY) {
		close_all(got);
		connected(x, &hello);
		return;
	}
	if (!err && promise_to(x->peer))
		err = -EALREADY;
	if (!err)
		err = give(x, &hello, got);
	close_all(got);
	if (err)
		end_call(x, err);
}

/* --- being called ---------------------------------------------------------------- */

/*
 * Whether the caller is who it says, before anything else of its hello is taken: any
 * process of this user could call in a neighbour's name and be taken for it. True: it is.
 */
static bool is_itself(struct bl_handshake *x, const struct bl_hello *hello)
{
	int err = bl_socket_listens(x->fd, hello->from.id);

	if (bl_is_short(err)) {
		bl_spares_tight = true;
		bl_memlimit_reclaim(&bl_answering);
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

/* What the caller has given is all there: we are connected when this can be said. */
static int accept_call(struct bl_handshake *x)
{
	struct bl_local *local = x->local;
	int err;

	pthread_mutex_lock(&local->lock);
	err = bl_hello_send(x, BL_HELLO_READY, -1);
	bl_window(BL_WINDOW_AGREED, NULL);
	if (!err)
		bl_peer_attach_locked(x->peer, &x->link, x->doorbell, x->pid);
	pthread_mutex_unlock(&local->lock);
	return err;
}

/* Whom we have promised has given us its memory, or has hung up. */
static void settle(struct bl_handshake *x)
{
	struct bl_hello hello;
	int got[BL_FDS], err = hear(x, &bl_answering, &hello, got);

	if (err == -EAGAIN)
		return;
	if (!err && (hello.step != BL_HELLO_GIVE ||
		     memcmp(hello.from.id, x->peer->addr.id, sizeof hello.from.id) ||
		     memcmp(hello.to, x->local->addr.id, sizeof hello.to)))
		err = -EPROTO;
	if (!err) {
		x->doorbell = hello.doorbell;
		err = bl_link_map(&x->link, got);
	}
	close_all(got);
	if (!err)
		err = accept_call(x);
	if (err)
		bl_hello_refuse(x->fd, x->local, is_passing(err) ? -EAGAIN : err);
	exchange_end(x);
}

/* We have called the peer and wait for what it says. */
static bool is_called(const struct bl_peer *peer)
{
	const struct bl_handshake *x = bl_handshakes.list;

	while (x && (x->over || x->incoming || x->proof || x->peer != peer))
		x = x->next;
	return x;
}

/* May this caller be promised anything? 0 or the answer. local->lock held. */
static int standing(const struct bl_peer *peer)
{
	const struct bl_local *local = peer->local;
	int order = memcmp(local->addr.id, peer->addr.id, sizeof local->addr.id);

	switch (atomic_load_explicit(&peer->state, memory_order_relaxed)) {
	case BL_PEER_NEW:
	case BL_PEER_CONNECTING:
		if (!order)
			return -EPROTO;
		return order < 0 && is_called(peer) ? -EALREADY : 0;
	case BL_PEER_READY:
		return -EALREADY;
	case BL_PEER_FAILED:
		break;
	}
	return peer->error;
}

/* Find who calls, and whether to answer: 0 or the answer that it gets instead. */
static int consider(struct bl_handshake *x, const struct bl_hello *hello)
{
	struct bl_local *local = x->local;
	struct bl_handshake *old;
	struct bl_peer *peer;
	int err;

	pthread_mutex_lock(&local->lock);
	peer = bl_peer_get_locked(local, &hello->from);
	pthread_mutex_unlock(&local->lock);
	if (!peer)
		return -ENOMEM;
	old = promise_to(peer);
	if (old)
		settle(old); /* it has hung up, or is calling twice */
	if (promise_to(peer))
		return -EALREADY;
	pthread_mutex_lock(&local->lock);
	err = standing(peer);
	if (!err)
		err = bl_peer_give_index_locked(peer);
	if (!err) {
		bl_peer_promise_locked(peer, true);
		x->peer = peer;
	}
	pthread_mutex_unlock(&local->lock);
	return err;
}

/* Answer with our memory: 0 or the answer that it gets instead. */
static int promise(struct bl_handshake *x)
{
	int lane = make_lane(x, &bl_answering), err;

	if (lane < 0)
		return bl_is_short(lane) ? -EAGAIN : lane;
	err = bl_hello_send(x, BL_HELLO_ANSWER, lane);
	close(lane);
	x->started_ms = now_ms();
	return is_passing(err) ? -EAGAIN : err;
}

/* It says what it wants of us. */
static void asked(struct bl_handshake *x)
{
	struct bl_local *local = x->local;
	struct bl_hello hello;
	int err = bl_hello_peek(x->fd, &hello);
	bool proof, call;

	if (err == -EAGAIN)
		return;
	if (!err &&
	    (memcmp(hello.to, local->addr.id, sizeof hello.to) || bl_brings_descriptors(x->fd)))
		err = -EPROTO;
	proof = !err && hello.step == BL_HELLO_PROVE && bl_atomics_page_is_secret(hello.seen);
	call = !err && hello.step == BL_HELLO_CALL &&
	       !bl_addr_reachable(&local->addr, &hello.from) && is_itself(x, &hello);
	bl_hello_skip(x->fd);
	if (proof)
		bl_hello_give_atomics_page(x->fd, local);
	if (!call) { /* whoever else that was learns nothing */
		exchange_end(x);
		return;
	}
	bl_window(BL_WINDOW_ASKED, NULL);
	err = consider(x, &hello);
	if (!err)
		err = promise(x);
	if (!err) {
		bl_window(BL_WINDOW_ANSWERED, NULL);
		return; /* until it gives */
	}
	bl_hello_refuse(x->fd, local, err);
	exchange_end(x);
}

void bl_handshake_answer(struct bl_local *local)
{
	for (int n = 0; n < ANSWERS_MOST && bl_handshake_takes_callers(); n++) {
		int fd = accept4(local->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct bl_spares *spares = NULL;
		struct bl_handshake *x;
		pid_t pid;

		if (fd < 0 && bl_spares_spend(&bl_answering, -errno)) {
			fd = accept4(local->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			spares = &bl_answering;
		}
		if (fd < 0) {
			/* None left; or no descriptor for it: the backlog keeps it, and
			 * polling would tell us so again at once, without end. */
			bl_handshakes.full = errno != EAGAIN;
			return;
		}
		if (bl_socket_pid(fd, &pid)) { /* nothing of a stranger is kept */
			bl_hello_skip(fd);
			bl_discard_socket(fd);
			if (!told)
				bl_info("a call was refused: %s", bl_why_stranger());
			told = true;
			continue;
		}
		x = exchange_add(local, NULL, fd, pid, spares);
		if (!x) {
			bl_discard_socket(fd);
			return;
		}
		asked(x); /* its hello is mostly there already */
	}
}

void bl_handshake_serve(struct bl_handshake *x)
{
	if (x->over)
		return;
	if (x->proof)
		proven(x);
	else if (!x->incoming)
		answered(x);
	else if (x->peer)
		settle(x);
	else
		asked(x);
}

/* --- the end ----------------------------------------------------------------------- */

/*
 * A neighbour that doesn't answer is stopped or wedged, not dead: ask anew, so
 * that others have their turn and a lost answer costs a delay and not the connection.
 * A caller that is silent makes way for others, and calls again if it is honest.
 */
static void give_up(struct bl_handshake *x)
{
	if (x->incoming) {
		bl_hello_refuse(x->fd, x->local, -EAGAIN);
		exchange_end(x);
		return;
	}
	if (x->proof) {
		bl_peer_give_atomics_page(x->peer, NULL, false);
		exchange_end(x);
		return;
	}
	shutdown(x->fd, SHUT_RD); /* READY is there by now, or it can't be said */
	if (x->cts_all)
		answered(x);
	if (!x->over)
		end_call(x, -EAGAIN);
}

static unsigned patience_with(const struct bl_handshake *x)
{
	if (x->incoming && !x->peer && (bl_handshakes.full || bl_handshakes.callers > SILENT_MANY))
		return SILENT_MS;
	if (x->incoming && x->peer && !bl_handshake_takes_callers())
		return PROMISED_MS;
	return x->proof ? PROOF_MS : EXCHANGE_MS;
}

/* Which has taken too long, the oldest of them, or NULL. */
static struct bl_handshake *oldest_late(void)
{
	struct bl_handshake *oldest = NULL;
	uint64_t now = now_ms();

	for (struct bl_handshake *x = bl_handshakes.list; x; x = x->next)
		if (!x->over && now - x->started_ms >= patience_with(x) &&
		    (!oldest || x->started_ms < oldest->started_ms))
			oldest = x;
	return oldest;
}

/* Each makes room, and others may have more time then. */
static void end_old(void)
{
	struct bl_handshake *x;

	while ((x = oldest_late()))
		give_up(x);
}

static void sweep(void)
{
	struct bl_handshake **at = &bl_handshakes.list, *x;

	while ((x = *at)) {
		if (!x->over) {
			at = &x->next;
			continue;
		}
		*at = x->next;
		free(x);
	}
}

void bl_handshake_tidy(void)
{
	end_old();
	sweep();
}

bool bl_handshake_takes_callers(void)
{
	return !bl_handshakes.full && bl_handshakes.callers < CALLERS_MOST;
}

int bl_handshake_patience(void)
{
	uint64_t now = now_ms(), due = bl_handshakes.due_ms;

	if (bl_handshakes.full)
		return RETRY_MS;
	for (const struct bl_handshake *x = bl_handshakes.list; x; x = x->next)
		if (!x->over)
			due = bl_min(due, x->started_ms + patience_with(x));
	if (bl_handshakes.retry)
		due = bl_min(due, now + (bl_handshakes.list ? RETRY_MS : SPARES_MS));
	if (due == UINT64_MAX)
		return -1;
	return due <= now ? 1 : (int)(due - now);
}

void bl_handshake_forget(const struct bl_local *local)
{
	for (struct bl_handshake *x = bl_handshakes.list; x; x = x->next)
		if (x->local == local && !x->over)
			exchange_end(x);
	sweep();
}

void bl_handshake_orphan(void)
{
	/* Its memory isn't mapped here. */
	for (struct bl_handshake *x = bl_handshakes.list; x; x = x->next)
		if (!x->over)
			close(x->fd);
	bl_spares_close_all();
	bl_discard_orphan();
	bl_calling.spent = bl_answering.spent = false;
	bl_handshakes = (struct bl_handshakes){.due_ms = UINT64_MAX};
}
