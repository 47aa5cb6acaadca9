/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * primitives.c: where the time of one copy between two processes goes, by each
 * way that there is here, without Beeline's protocol:
 *
 *  vm       process_vm_readv (receive), process_vm_writev (send)
 *  module   beeline.ko: copy from (receive), copy to (send)
 *  shared   two copies: into memory that both share (send), out of it (receive)
 *
 * and of what it consists, as LiMIC published it:
 *
 *  trap     entering the kernel and leaving it, with nothing to do
 *  pages    finding the peer's pages and holding them: a call that names all of
 *           them and has room for one byte, less the trap
 *  copy     the rest of the whole call
 *  lend     module only, and the other process's: make a handle and end it
 *
 *	primitives [-c CPU,CPU] [-s SIZES] [-n SAMPLES]
 *
 * Two pinned processes. The parent copies and takes the time; the child has the
 * other buffer, and has written all of it just before each call, so that the data
 * comes out of its core's caches as a message's does. Prints "sample WAY.SIDE.PART
 * SIZE NANOSECONDS" (medians), "absent WAY WHY", and at the end "done".
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <signal.h>

#include "bench.h"
#include "uapi/beeline.h"

#define DEVICE "/dev/beeline"
#define PIECE  32768u /* of a copy through shared memory: it stays in the caches */

struct shared {
	_Alignas(128) _Atomic uint64_t go;
	_Alignas(128) _Atomic uint64_t done;
	enum order { TOUCH, TAKE, STOP } order; /* the child's; valid with `go` */
	size_t size;
	double ns; /* TAKE: the child's part of it */
	unsigned char *buffer;
	bool lent;
	struct beeline_handle handle;
	_Alignas(4096) unsigned char piece[PIECE];
};

struct run {
	struct shared *shared;
	unsigned char *mine;
	size_t room;
	pid_t child;
	int device, samples;
	uint64_t turn;
	double clock; /* what reading the clock costs */
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* --- the child ------------------------------------------------------------- */

static void take(struct shared *shared, unsigned char *to, double clock)
{
	double start = bench_now();

	memcpy(to, shared->piece, shared->size);
	shared->ns += bench_now() - start - clock;
}

static void child_main(struct run *run, size_t room)
{
	struct shared *shared = run->shared;
	unsigned char *buffer = bench_alloc(room, 1), value = 0;
	size_t at = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(buffer, 1, room);
	shared->buffer = buffer;
	if (run->device >= 0) {
		struct beeline_export e = {.addr = (uintptr_t)buffer,
					   .len = room,
					   .rights = BEELINE_READ | BEELINE_WRITE};

		shared->lent = !ioctl(run->device, BEELINE_IOC_EXPORT, &e);
		shared->handle = e.handle;
	}
	atomic_store_explicit(&shared->done, 1, memory_order_release);
	for (uint64_t turn = 2;; turn++) {
		while (atomic_load_explicit(&shared->go, memory_order_acquire) != turn)
			;
		switch (shared->order) {
		case TOUCH:
			memset(buffer, ++value, shared->size);
			at = 0;
			break;
		case TAKE:
			take(shared, buffer + at, run->clock);
			at += shared->size;
			break;
		case STOP:
			_exit(0);
		}
		atomic_store_explicit(&shared->done, turn, memory_order_release);
	}
}

/* --- the parent ------------------------------------------------------------ */

static void order(struct run *run, enum order order, size_t size)
{
	run->shared->order = order;
	run->shared->size = size;
	run->turn++;
	atomic_store_explicit(&run->shared->go, run->turn, memory_order_release);
	while (order != STOP &&
	       atomic_load_explicit(&run->shared->done, memory_order_acquire) != run->turn)
		;
}

/* What is timed: nanoseconds, or exit. part: of the peer's `size` bytes. */
typedef double timed(struct run *run, bool send, size_t size);

static double trap(struct run *run, bool send, size_t size)
{
	double start = bench_now();

	(void)send;
	(void)size;
	syscall(SYS_getppid);
	return bench_now() - start - run->clock;
}

static double vm(struct run *run, bool send, size_t room, size_t size)
{
	struct iovec local = {run->mine, room}, remote = {run->shared->buffer, size};
	double start = bench_now(), end;
	ssize_t n = send ? process_vm_writev(run->child, &local, 1, &remote, 1, 0)
			 : process_vm_readv(run->child, &local, 1, &remote, 1, 0);

	end = bench_now();
	if (n != (ssize_t)(room < size ? room : size))
		fail(send ? "process_vm_writev" : "process_vm_readv");
	return end - start - run->clock;
}

static double vm_pages(struct run *run, bool send, size_t size)
{
	return vm(run, send, 1, size);
}

static double vm_all(struct run *run, bool send, size_t size)
{
	return vm(run, send, size, size);
}

static double module_all(struct run *run, bool send, size_t size)
{
	struct beeline_copy c = {.handle = run->shared->handle,
				 .len = size,
				 .local = (uintptr_t)run->mine,
				 .flags = send ? BEELINE_COPY_TO : 0};
	double start = bench_now(), end;
	int err = ioctl(run->device, BEELINE_IOC_COPY, &c);

	end = bench_now();
	if (err || c.copied != size)
		fail(DEVICE);
	return end - start - run->clock;
}

#define WINDOW (2ul << 20) /* the module holds at most so much at a time */

/* One byte of room: the call ends with EINVAL after it, all pages found and held. Of
 * a message in two windows the second begins a call of its own. */
static double module_pages(struct run *run, bool send, size_t size)
{
	struct beeline_iov one = {(uintptr_t)run->mine, 1};
	double sum = 0;

	for (size_t at = 0; at < size; at += WINDOW) {
		size_t len = size - at < WINDOW ? size - at : WINDOW;
		struct beeline_copy c = {.handle = run->shared->handle,
					 .offset = at,
					 .len = len < 2 ? 2 : len,
					 .local = (uintptr_t)&one,
					 .niov = 1,
					 .flags = send ? BEELINE_COPY_TO : 0};
		double start = bench_now();
		int err = ioctl(run->device, BEELINE_IOC_COPY, &c);

		sum += bench_now() - start - run->clock;
		if (!err || errno != EINVAL || c.copied != 1)
			fail(DEVICE);
		if (at)
			sum -= trap(run, send, size);
	}
	return sum;
}

static double module_lend(struct run *run, bool send, size_t size)
{
	struct beeline_export e = {.addr = (uintptr_t)run->mine,
				   .len = size,
				   .rights = send ? BEELINE_WRITE : BEELINE_READ,
				   .scope = BEELINE_SCOPE_UID,
				   .uid = geteuid()};
	struct beeline_revoke r = {0};
	double start = bench_now();
	int err = ioctl(run->device, BEELINE_IOC_EXPORT, &e);

	r.handle = e.handle;
	if (err || ioctl(run->device, BEELINE_IOC_REVOKE, &r))
		fail(DEVICE);
	return bench_now() - start - run->clock;
}

static double median_of(struct run *run, timed *call, bool send, size_t size)
{
	double ns[BENCH_SAMPLES_MAX];

	for (int i = -2; i < run->samples; i++) {
		order(run, TOUCH, size);
		double took = call(run, send, size);

		if (i >= 0)
			ns[i] = took;
	}
	return bench_median(ns, run->samples);
}

static void report(const char *way, const char *side, const char *part, size_t size, double ns)
{
	char name[64];

	snprintf(name, sizeof name, "%s.%s.%s", way, side, part);
	bench_sample(name, size, ns > 0 ? ns : 0);
}

static void by_kernel(struct run *run, const char *way, timed *pages, timed *all, size_t size)
{
	for (int send = 0; send < 2; send++) {
		const char *side = send ? "send" : "receive";
		double enter = median_of(run, trap, send, size);
		double held = median_of(run, pages, send, size);
		double total = median_of(run, all, send, size);

		report(way, side, "trap", size, enter);
		report(way, side, "pages", size, held - enter);
		report(way, side, "copy", size, total - held);
		if (all == module_all)
			report(way, side, "lend", size, median_of(run, module_lend, send, size));
	}
}

/* Each of the two copies, by the process that makes it, piece by piece in turn. */
static void by_sharing(struct run *run, size_t size)
{
	double in[BENCH_SAMPLES_MAX], out[BENCH_SAMPLES_MAX];

	for (int i = -2; i < run->samples; i++) {
		double mine = 0;

		memset(run->mine, i, size);
		order(run, TOUCH, size);
		run->shared->ns = 0;
		for (size_t at = 0; at < size; at += PIECE) {
			size_t len = size - at < PIECE ? size - at : PIECE;
			double start = bench_now();

			memcpy(run->shared->piece, run->mine + at, len);
			mine += bench_now() - start - run->clock;
			order(run, TAKE, len);
		}
		if (i >= 0) {
			in[i] = mine;
			out[i] = run->shared->ns;
		}
	}
	report("shared", "send", "copy", size, bench_median(in, run->samples));
	report("shared", "receive", "copy", size, bench_median(out, run->samples));
}

static bool vm_allowed(struct run *run)
{
	struct iovec local = {run->mine, 1}, remote = {run->shared->buffer, 1};

	if (process_vm_readv(run->child, &local, 1, &remote, 1, 0) == 1)
		return true;
	printf("absent vm process_vm_readv: %s\n", strerror(errno));
	return false;
}

static void measure(struct run *run, const struct bench_sizes *sizes)
{
	bool with_vm = vm_allowed(run), with_module = run->device >= 0 && run->shared->lent;

	for (int i = 0; i < sizes->count; i++) {
		size_t size = sizes->value[i];

		if (!size)
			continue;
		if (with_vm)
			by_kernel(run, "vm", vm_pages, vm_all, size);
		if (with_module)
			by_kernel(run, "module", module_pages, module_all, size);
		by_sharing(run, size);
	}
}

static double clock_cost(void)
{
	double ns[BENCH_SAMPLES_MAX];

	for (int i = 0; i < BENCH_SAMPLES_MAX; i++) {
		double start = bench_now();

		ns[i] = bench_now() - start;
	}
	return bench_median(ns, BENCH_SAMPLES_MAX);
}

int main(int argc, char **argv)
{
	struct run run = {.samples = 41, .turn = 1};
	struct bench_sizes sizes;
	int cpu[2] = {0, 1}, option, status = 0;

	bench_parse_sizes("4096,16384,65536,262144,1048576,4194304", &sizes);
	while ((option = getopt(argc, argv, "c:s:n:")) != -1) {
		if (option == 'c' && sscanf(optarg, "%d,%d", &cpu[0], &cpu[1]) == 2) {
			continue;
		} else if (option == 's' && bench_parse_sizes(optarg, &sizes)) {
			continue;
		} else if (option == 'n' && atoi(optarg) > 0 && atoi(optarg) <= BENCH_SAMPLES_MAX) {
			run.samples = atoi(optarg);
		} else {
			fprintf(stderr, "usage: primitives [-c CPU,CPU] [-s SIZES] [-n SAMPLES]\n");
			return 2;
		}
	}
	size_t room = bench_largest(&sizes) < 4096 ? 4096 : bench_largest(&sizes);

	run.device = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (run.device < 0)
		printf("absent module " DEVICE ": %s\n", strerror(errno));
	fflush(stdout);
	run.shared = mmap(NULL, sizeof(*run.shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run.shared == MAP_FAILED)
		fail("mmap");
	run.clock = clock_cost();
	run.child = fork();
	if (run.child < 0)
		fail("fork");
	if (!bench_pin(cpu[run.child ? 0 : 1]))
		fail("sched_setaffinity");
	if (!run.child)
		child_main(&run, room);
	run.mine = bench_alloc(room, 1);
	memset(run.mine, 2, room);
	while (!atomic_load_explicit(&run.shared->done, memory_order_acquire))
		if (waitpid(run.child, &status, WNOHANG) == run.child)
			return 1;
	measure(&run, &sizes);
	order(&run, STOP, 0);
	if (waitpid(run.child, &status, 0) < 0 || status)
		return 1;
	printf("done\n");
	return 0;
}
