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
#include "copy/leader.h"
#include "copy/machine.h"
#include "copy/move.h"

enum { OWN_AUTO, OWN_ASK, OWN_STORE };
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

/* --- measuring --------------------------------------------------------- */

#define TRIALS	  48 /* the least of them: a busy machine disturbs most, not all */
#define SMALL	  1
#define LARGE	  65536
#define SLOWEST	  1000000.0
#define SERVED_NS 500.0 /* what takes longer than two packets that cross, near or far */

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

void bl_copy_plan_make(struct bl_copy_plan *plan, const struct bl_cpu *cpu,
		       const struct bl_copy_cost *once, const struct bl_knobs *knobs)
{
	const struct bl_machine *kind = bl_machine_of(cpu);
	const enum bl_copybuf_use of_knob[] = {kind->turns, BL_COPYBUF_ALL, BL_COPYBUF_NONE,
					       BL_COPYBUF_EXCHANGE};
	enum bl_copybuf_use use = of_knob[knobs->copybuf];

	*plan = (struct bl_copy_plan){
		.machine = kind,
		.once = *once,
		.cache = cpu->cache,
		.call_ns = (uint32_t)once->ns,
		.serve = once->ns >= SERVED_NS,
		.by_stream = knobs->eager_long_max == BL_KNOB_AUTO ? once->ns < kind->dear_ns
								   : !knobs->eager_long_max,
		.copybuf = use != BL_COPYBUF_NONE,
		.exchange_only = use == BL_COPYBUF_EXCHANGE,
		.own_by_store = knobs->prefetch == OWN_STORE ||
				(knobs->prefetch == OWN_AUTO && kind->own_by_store),
		.past_min = kind->past_min,
		.may_vm = knobs->copy != COPY_RING,
		.may_module = knobs->copy == COPY_AUTO || knobs->copy == COPY_MODULE,
		.module_first = knobs->copy == COPY_MODULE,
	};
}

static struct bl_copy_plan plan;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void measure(void)
{
	const struct bl_cpu cpu = bl_cpu_read();
	struct bl_copy_cost once = {600, 60}; /* where it can't be measured */
	char *memory = aligned_alloc(PAGE, 2 * LARGE);

	if (memory && bl_knobs()->copy != COPY_RING) { /* where it may be forbidden for good */
		memset(memory, 1, 2 * LARGE);
		double small = time_vm(memory, memory + LARGE, SMALL);
		double large = time_vm(memory, memory + LARGE, LARGE);

		if (small < SLOWEST && large > small) {
			once.ns = small;
			once.per_kb = (large - small) / (LARGE / 1024.0);
		}
	}
	free(memory);
	bl_copy_plan_make(&plan, &cpu, &once, bl_knobs());
	bl_debug("machine: %s, system call %.0f ns, %.0f ns/KiB; longer rings are for %s; copy "
		 "buffer for %s; delegated: %s",
		 plan.machine->name, once.ns, once.per_kb, plan.by_stream ? "streams" : "all",
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
