/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * engine.c: see engine.h. A pair belongs to its endpoint; the plan is
 * process-wide and constant after its first use.
 */
#include "copy/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "copy/chunks.h"
#include "copy/machine.h"
#include "copy/leader.h"
#include "copy/move.h"

enum { INJECT_EAGER, INJECT_DIALOGUE }; /* of the knob `inject` */
enum { OWN_AUTO, OWN_ASK, OWN_STORE };
enum { TURNS_AUTO, TURNS_ALWAYS, TURNS_NEVER, TURNS_CROSSING };
/* The words of the knob `copy`. */
enum { COPY_AUTO, COPY_VM, COPY_RING, COPY_MODULE };

#define PIECES 128 /* iovecs on either side of one system call, of whose time it is little */
#define PAGE   4096

#define MAPPED_STEP 512 /* pages in one look */

/* Keys that were no help so often are not sent to this peer any more: it has no
 * module, or is another user to it. */
#define IN_VAIN_MOST 8

static void say_absent(void)
{
	bl_warn("FI_BEELINE_COPY=module, but this process can't use /dev/beeline: it copies as by "
		"auto, without the module. `sudo beeline setup module` loads it; else see that "
		"/dev/beeline is there in this container, and that you may open it");
}

static bool may_register(void)
{
	static pthread_once_t said = PTHREAD_ONCE_INIT;
	bool may = bl_copy_plan()->may_module && bl_kmod_there();

	if (unlikely(!may && bl_copy_plan()->module_first))
		pthread_once(&said, say_absent);
	return may;
}

struct bl_copy_pair bl_copy_own_pair(void)
{
	return (struct bl_copy_pair){.pid = getpid(), .pull = BL_COPY_VM, .push = BL_COPY_VM};
}

void bl_copy_pair_init(struct bl_copy_pair *pair, pid_t pid)
{
	const struct bl_copy_plan *p = bl_copy_plan();
	enum bl_copy_way way = BL_COPY_VM;

	if (pid == getpid())
		way = BL_COPY_SELF;
	else if (pid <= 0 || !p->may_vm)
		way = BL_COPY_NOTHING;
	pair->pid = pid;
	pair->pull = pair->push = way;
	pair->pull_why = pair->push_why = (int16_t)(way != BL_COPY_NOTHING ? 0
						    : pid <= 0		   ? ESRCH
									   : ENOTSUP);
	pair->needs_rkeys = (way == BL_COPY_NOTHING || (way == BL_COPY_VM && p->module_first)) &&
			    may_register();
	pair->in_vain = 0;
	pair->moved = 0;
}

static bool pages_are_mapped(uintptr_t at, size_t len)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end;
	unsigned char there[MAPPED_STEP];

	if (__builtin_add_overflow(at, len, &end))
		return false;
	for (at -= at % page; at < end; at += MAPPED_STEP * page) {
		size_t step = bl_min((size_t)(end - at), (size_t)(MAPPED_STEP * page));

		if (mincore((void *)at, step, there))
			return false;
	}
	return true;
}

bl_cold bool bl_copy_is_mapped(const struct iovec *iov, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (iov[i].iov_len && !pages_are_mapped((uintptr_t)iov[i].iov_base, iov[i].iov_len))
			return false;
	return true;
}

void bl_copy_unreached(struct bl_copy_pair *pair, bool rkeys)
{
	if (pair->pull == BL_COPY_SELF || pair->in_vain == IN_VAIN_MOST)
		return;
	if (!rkeys)
		pair->needs_rkeys = may_register();
	else if (++pair->in_vain == IN_VAIN_MOST)
		pair->needs_rkeys = false;
}

typedef ssize_t vm_call(pid_t pid, const struct iovec *local, unsigned long nlocal,
			const struct iovec *remote, unsigned long nremote, unsigned long flags);

/* One range by system calls; a short count means "call again from there". */
static int vm_copy(vm_call *call, struct bl_copy_pair *pair, const struct iovec *mine, size_t nmine,
		   const struct iovec *theirs, size_t ntheirs, size_t off, size_t len)
{
	struct bl_iov_at here = {mine, nmine, 0}, there = {theirs, ntheirs, 0};
	struct iovec local[PIECES], remote[PIECES];
	size_t all = len, most;

	bl_iov_skip(&here, off);
	bl_iov_skip(&there, off);
	while (len) {
		size_t nr = bl_iov_next(there, len, remote, PIECES, &most);
		size_t nl = bl_iov_next(here, most, local, PIECES, &most);
		ssize_t done = call(pair->pid, local, nl, remote, nr, 0);

		if (unlikely(done <= 0)) {
			if (done < 0 && errno == EINTR)
				continue;
			pair->moved = (uint32_t)bl_min(all - len, (size_t)UINT32_MAX);
			return done ? -errno : -EFAULT;
		}
		bl_iov_skip(&here, (size_t)done);
		bl_iov_skip(&there, (size_t)done);
		len -= (size_t)done;
	}
	return 0;
}

static int self_copy(const struct iovec *to, size_t nto, const struct iovec *from, size_t nfrom,
		     size_t off, size_t len)
{
	struct iovec piece[PIECES];
	size_t n = bl_iov_slice(from, nfrom, off, len, piece);

	for (size_t i = 0; i < n; i++) {
		if (bl_iov_scatter(to, nto, off, piece[i].iov_base, piece[i].iov_len) !=
		    piece[i].iov_len)
			return -EFAULT;
		off += piece[i].iov_len;
		len -= piece[i].iov_len;
	}
	return len ? -EFAULT : 0;
}

/* What the kernel's answer means for the pair. */
static bl_cold int refused(struct bl_copy_pair *pair, enum bl_copy_way *way, const char *what,
			   int err)
{
	if (err == -EFAULT || (err == -ESRCH && !bl_lacks_leader(pair->pid)))
		return err;
	if (err == -ENOMEM) { /* the kernel is short of memory now; another time it may not be */
		static _Atomic bool told;

		if (!atomic_exchange_explicit(&told, true, memory_order_relaxed))
			bl_info("process %d: %s: %s; large messages take another way meanwhile",
				(int)pair->pid, what, strerror(ENOMEM));
		return -EOPNOTSUPP;
	}
	*way = BL_COPY_NOTHING;
	*(way == &pair->pull ? &pair->pull_why : &pair->push_why) = (int16_t)-err;
	bl_copy_unreached(pair, false);
	bl_info("process %d: %s: %s; its large messages take another way%s", (int)pair->pid, what,
		strerror(-err), pair->needs_rkeys ? ": the module" : "");
	return -EOPNOTSUPP;
}

int bl_copy_pull_by(struct bl_copy_pair *pair, const struct bl_rkey *key, const struct iovec *mine,
		    size_t nmine, const struct iovec *theirs, size_t ntheirs, size_t off,
		    size_t len)
{
	int err = -EOPNOTSUPP;

	if (pair->pull == BL_COPY_SELF)
		return self_copy(mine, nmine, theirs, ntheirs, off, len);
	if (unlikely(key && bl_copy_plan()->module_first)) {
		err = bl_kmod_copy(false, key, mine, nmine, theirs, ntheirs, off, len);
		key = NULL;
		if (err != -EOPNOTSUPP)
			return err;
	}
	if (pair->pull == BL_COPY_VM) {
		err = vm_copy(process_vm_readv, pair, mine, nmine, theirs, ntheirs, off, len);
		if (likely(!err))
			return 0;
		err = refused(pair, &pair->pull, "process_vm_readv", err);
	}
	if (err == -EOPNOTSUPP && key && bl_copy_plan()->may_module)
		err = bl_kmod_copy(false, key, mine, nmine, theirs, ntheirs, off, len);
	return err;
}

int bl_copy_push_by(struct bl_copy_pair *pair, const struct bl_rkey *key, const struct iovec *mine,
		    size_t nmine, const struct iovec *theirs, size_t ntheirs, size_t off,
		    size_t len)
{
	int err = -EOPNOTSUPP;

	if (pair->push == BL_COPY_SELF)
		return self_copy(theirs, ntheirs, mine, nmine, off, len);
	if (unlikely(key && bl_copy_plan()->module_first)) {
		err = bl_kmod_copy(true, key, mine, nmine, theirs, ntheirs, off, len);
		key = NULL;
		if (err != -EOPNOTSUPP)
			return err;
	}
	if (pair->push == BL_COPY_VM) {
		err = vm_copy(process_vm_writev, pair, mine, nmine, theirs, ntheirs, off, len);
		if (likely(!err))
			return 0;
		err = refused(pair, &pair->push, "process_vm_writev", err);
	}
	if (err == -EOPNOTSUPP && key && bl_copy_plan()->may_module)
		err = bl_kmod_copy(true, key, mine, nmine, theirs, ntheirs, off, len);
	return err;
}

int bl_copy_pull(struct bl_copy_pair *pair, const struct iovec *mine, size_t nmine,
		 const struct iovec *theirs, size_t ntheirs, size_t off, size_t len)
{
	return bl_copy_pull_by(pair, NULL, mine, nmine, theirs, ntheirs, off, len);
}

int bl_copy_push(struct bl_copy_pair *pair, const struct iovec *mine, size_t nmine,
		 const struct iovec *theirs, size_t ntheirs, size_t off, size_t len)
{
	return bl_copy_push_by(pair, NULL, mine, nmine, theirs, ntheirs, off, len);
}

size_t bl_copy_dirty_max(size_t cache)
{
	size_t most = cache / 4 / PAGE * PAGE;

	return most < BL_DIRTY_LEAST ? BL_DIRTY_LEAST : bl_min(most, (size_t)BL_DIRTY_MAX);
}

size_t bl_copy_cut(const struct bl_copy_plan *plan, size_t len, uint32_t *count)
{
	size_t piece = bl_round_up((len + 1) / 2, PAGE);

	if (piece > plan->chunk_half) {
		piece = bl_round_up((len + 3) / 4, PAGE);
		piece = piece < plan->chunk_half ? plan->chunk_half
						 : bl_min(piece, plan->chunk_max);
	}
	while (len / piece >= BL_CHUNKS_MOST)
		piece *= 2;
	*count = (uint32_t)((len + piece - 1) / piece);
	return piece;
}

/* --- measuring --------------------------------------------------------- */

#define TRIALS	    48 /* the least of them: a busy machine disturbs most, not all */
#define SMALL	    1
#define LARGE	    65536
#define SLOWEST	    1000000.0
#define SERVED_NS   500.0 /* what takes longer than two packets that cross, near or far */
#define CHEAP_NS    250.0 /* a system call: one copy is as good as two, however short */
#define FRESH_CALL  2.3	  /* as much longer lines of another's cache take than ours: the call, */
#define FRESH_BYTES 1.27  /* and each KiB; */
#define FRESH_MOST                                                                                 \
	4.0 /* if more than so much, it isn't lines, but new pages; transport/local/adapt/dirty.h  \
	     */
#define STREAM_MAX 32768 /* bytes in a stream through a longer ring, where it is neither */

/* Least nanoseconds of one process_vm_readv of ourselves; refused: SLOWEST. */
static double time_vm(char *to, char *from, size_t len)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < TRIALS; i++) {
		struct iovec local = {to, len}, remote = {from, len};
		uint64_t t = bl_ticks();

		if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)len)
			return SLOWEST;
		t = bl_ticks() - t;
		if (t < best)
			best = t;
	}
	return (double)best * 1000.0 / (double)bl_ticks_per_us();
}

static struct bl_copy_plan plan;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static size_t clamp_page(double value, size_t least, size_t most)
{
	if (value < (double)least)
		return least;
	if (value > (double)most)
		return most;
	return bl_round_up((size_t)value, PAGE);
}

/*
 * The price of entering the kernel decides. The eager limit is one of three, with
 * wide classes, so that the processes of a job agree on it even where one of them
 * measured on a busy core. See docs/performance.md for how the numbers were found.
 */
static size_t eager_class(const struct bl_machine *kind, double enter_ns, size_t *pingpong_max)
{
	size_t max = enter_ns < CHEAP_NS ? 4096 : enter_ns < kind->dear_ns ? 6144 : 14336;

	/* Not above BL_EAGER_MOST: what is injected must find room in any drained ring. */
	*pingpong_max = max == 6144 ? 8192 : max;
	return max;
}

const struct bl_copy_cost bl_copy_past = {500, 117}, bl_copy_copybuf = {760, 80};

size_t bl_copy_eager_long_far(const struct bl_copy_cost *once, const struct bl_copy_cost *twice,
			      size_t eager, size_t carry)
{
	double slope = twice->per_kb - once->per_kb / 2, least = (double)bl_min(eager, carry);

	if (slope <= 0)
		return carry;
	return clamp_page((2 * once->ns - twice->ns) / slope * 1024.0, least, (double)carry);
}

size_t bl_copy_stream_max(const struct bl_copy_cost *once, size_t eager, size_t carry)
{
	if (carry)
		return carry;
	return once->ns < CHEAP_NS ? eager : STREAM_MAX;
}

static void choose_copybuf(uint64_t turns, enum bl_copybuf_use kind)
{
	plan.copybuf = turns == TURNS_ALWAYS || turns == TURNS_CROSSING ||
		       (turns == TURNS_AUTO && kind != BL_COPYBUF_NONE);
	plan.exchange_only =
		turns == TURNS_CROSSING || (turns == TURNS_AUTO && kind == BL_COPYBUF_EXCHANGE);
	plan.streamed = turns == TURNS_ALWAYS;
}

static size_t eager_long_far(size_t known, const struct bl_copy_cost *once,
			     const struct bl_copy_cost *twice)
{
	if (bl_knobs()->eager_long_max != BL_KNOB_AUTO || !plan.eager_long_max)
		return plan.eager_long_max;
	return known ? known
		     : bl_copy_eager_long_far(once, twice, plan.eager_max, plan.eager_long_max);
}

static void choose_dirty(const struct bl_machine *kind, const struct bl_copy_cost *once,
			 size_t cache)
{
	size_t most = plan.by_stream ? bl_copy_dirty_max(cache) : kind->dirty_max;

	if (plan.copybuf && bl_knobs()->eager_long_max == BL_KNOB_AUTO)
		plan.dirty_max = most;
	if (plan.dirty_max && !plan.by_stream)
		plan.turn_max = kind->turn_max;
	plan.used_near = kind->used_near;
	plan.used_far_ns_kb = kind->used_far_ns_kb;
	plan.dirty_ns = (uint32_t)(FRESH_CALL * once->ns);
	plan.dirty_per_kb = (uint32_t)(FRESH_BYTES * once->per_kb);
	plan.dirty_per_kb_most = (uint32_t)(FRESH_MOST * once->per_kb);
	if (kind->dirty_per_kb && !plan.by_stream) {
		plan.dirty_ns = (uint32_t)once->ns;
		plan.dirty_per_kb = kind->dirty_per_kb;
		plan.dirty_per_kb_most = kind->dirty_per_kb_most;
	}
}

static void measure(void)
{
	const struct bl_knobs *knobs = bl_knobs();
	const struct bl_cpu cpu = bl_cpu_read();
	const struct bl_machine *kind = bl_machine_of(&cpu);
	struct bl_copy_cost once = {600, 60}; /* where it can't be measured */
	char *memory = aligned_alloc(PAGE, 2 * LARGE);

	if (memory && knobs->copy != COPY_RING) { /* where the call may be forbidden for good */
		memset(memory, 1, 2 * LARGE);
		double small = time_vm(memory, memory + LARGE, SMALL);
		double large = time_vm(memory, memory + LARGE, LARGE);

		if (small < SLOWEST && large > small) {
			once.ns = small;
			once.per_kb = (large - small) / (LARGE / 1024.0);
		}
	}
	free(memory);
	plan.call_ns = (uint32_t)once.ns;
	plan.serve = once.ns >= SERVED_NS;
	plan.eager_max = eager_class(kind, once.ns, &plan.pingpong_max);
	if (knobs->eager_max != BL_KNOB_AUTO)
		plan.eager_max = plan.pingpong_max = knobs->eager_max;
	plan.inject_max = knobs->inject == INJECT_DIALOGUE ? plan.pingpong_max : plan.eager_max;
	/* Half of the copy must be worth a second entry and the handshake. */
	plan.split_min = knobs->split_min != BL_KNOB_AUTO
				 ? knobs->split_min
				 : clamp_page(3.0 * once.ns / once.per_kb * 1024.0, 32768, 131072);
	plan.eager_long_max = knobs->eager_long_max != BL_KNOB_AUTO ? knobs->eager_long_max
			      : once.ns < kind->dear_ns		    ? 0
								    : kind->eager_long_max;
	plan.by_stream = !plan.eager_long_max;
	plan.deep = kind->deep && !plan.by_stream;
	plan.stream_max = bl_copy_stream_max(&once, plan.eager_max, plan.eager_long_max);
	plan.eager_long_far = eager_long_far(kind->eager_long_far, &once, &bl_copy_past);
	plan.eager_long_copybuf = eager_long_far(kind->eager_long_copybuf, &once, &bl_copy_copybuf);
	plan.eager_long_far = bl_min(plan.eager_long_far, plan.eager_long_copybuf);
	choose_copybuf(knobs->copybuf, kind->turns);
	plan.streamed_far = kind->streamed_far;
	choose_dirty(kind, &once, cpu.cache);
	plan.own_by_store =
		knobs->prefetch == OWN_STORE || (knobs->prefetch == OWN_AUTO && kind->own_by_store);
	plan.past_min = kind->past_min;
	plan.far_ns = kind->far_ns;
	plan.chunk_max = knobs->chunk_max != BL_KNOB_AUTO ? bl_round_up(knobs->chunk_max, PAGE)
							  : kind->chunk_max;
	plan.chunk_half = knobs->chunk_max != BL_KNOB_AUTO ? plan.chunk_max : kind->chunk_half;
	plan.may_vm = knobs->copy != COPY_RING;
	plan.may_module = knobs->copy == COPY_AUTO || knobs->copy == COPY_MODULE;
	plan.module_first = knobs->copy == COPY_MODULE;
	plan.kind = kind->name;
	bl_debug("copy plan: kind %s, system call %.0f ns, %.0f ns/KiB; eager to %zu, in a "
		 "dialogue to %zu, "
		 "injected to %zu, eager (long) to %zu, far away to %zu, by copy buffer %zu, in a "
		 "stream %zu, "
		 "just written to %zu if one copy takes %u ns and %u to %u ns/KiB, "
		 "split from %zu, pieces of %zu to %zu; copy buffer: %s; delegated: %s",
		 plan.kind, once.ns, once.per_kb, plan.eager_max, plan.pingpong_max,
		 plan.inject_max, plan.eager_long_max, plan.eager_long_far, plan.eager_long_copybuf,
		 plan.stream_max, plan.dirty_max, plan.dirty_ns, plan.dirty_per_kb,
		 plan.dirty_per_kb_most, plan.split_min, plan.chunk_half, plan.chunk_max,
		 plan.exchange_only ? "what crosses"
		 : plan.copybuf	    ? "all"
				    : "nothing",
		 plan.serve ? "yes" : "no");
}

const struct bl_copy_plan *bl_copy_plan(void)
{
	pthread_once(&made, measure);
	return &plan;
}
