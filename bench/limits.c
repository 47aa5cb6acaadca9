/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * limits.c: what this machine allows between two cores, without MPI and without
 * Beeline, so that both can be held against it in the same run:
 *
 *  line           a flag written by one core and seen by the other, one way
 *  line-ring      the same through a ring of 64 slots of 128 bytes
 *  memcpy-1       the receiver's core copies from memory the sender wrote
 *  memcpy-2       each of the two cores copies one half
 *  vm-1           the receiver pulls by process_vm_readv
 *  vm-2           the receiver pulls one half while the sender pushes the other
 *
 *	limits [-c CPU,CPU] [-s SIZES] [-m MILLISECONDS] [-r SAMPLES]
 *
 * Two processes, parent (the sender) and child (the receiver), each pinned; they
 * share one anonymous mapping with the flags and the source of the copies.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <signal.h>

#include "apart.h"

#define SLOTS	    64
#define ROUNDS_LINE 20000

struct slot {
	_Alignas(128) _Atomic uint32_t value;
};

struct shared {
	struct slot ping[SLOTS];
	struct slot pong[SLOTS];
	_Alignas(128) _Atomic uint64_t go;   /* the copy that the child should take part in */
	_Alignas(128) _Atomic uint64_t done; /* the last one that it has finished */
	unsigned char *child_in;	     /* where the child's receive buffer is, to it */
};

struct limits {
	struct shared *shared;
	unsigned char *source; /* mapped by both, written by the parent */
	unsigned char *mine;   /* private: the parent's source, the child's destination */
	pid_t parent, child;
	uint64_t turn;
	double ns_per_sample;
	int samples;
	struct apart apart;
};

enum copy { MEMCPY_1, MEMCPY_2, VM_1, VM_2 };
static const char *const copy_names[] = {"memcpy-1", "memcpy-2", "vm-1", "vm-2"};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* --- one cache line ------------------------------------------------------ */

static void line_round(struct shared *shared, bool parent, unsigned slots, uint32_t first)
{
	for (uint32_t n = first; n < first + ROUNDS_LINE; n++) {
		struct slot *ping = &shared->ping[n % slots], *pong = &shared->pong[n % slots];

		/* release/acquire: each side's flag is all there is to order */
		if (parent) {
			atomic_store_explicit(&ping->value, n, memory_order_release);
			while (atomic_load_explicit(&pong->value, memory_order_acquire) != n)
				;
		} else {
			while (atomic_load_explicit(&ping->value, memory_order_acquire) != n)
				;
			atomic_store_explicit(&pong->value, n, memory_order_release);
		}
	}
}

static void line(struct limits *limits, bool parent)
{
	double ns[BENCH_SAMPLES_MAX], apart[BENCH_SAMPLES_MAX];
	uint32_t n = 1;

	for (unsigned slots = 1; slots <= SLOTS; slots *= SLOTS) {
		for (int i = -1; i < limits->samples; i++, n += ROUNDS_LINE) {
			double distance = apart_ns(&limits->apart), start = bench_now();

			line_round(limits->shared, parent, slots, n);
			if (i < 0)
				continue; /* the first one warms up */
			ns[i] = (bench_now() - start) / ROUNDS_LINE / 2;
			apart[i] = distance;
		}
		if (parent)
			apart_sample(slots == 1 ? "line" : "line-ring", 0, ns, apart,
				     limits->samples);
	}
}

/* --- copies -------------------------------------------------------------- */

static void vm_copy(pid_t pid, unsigned char *here, unsigned char *there, size_t size, bool push)
{
	struct iovec local = {here, size}, remote = {there, size};
	ssize_t n = push ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
			 : process_vm_readv(pid, &local, 1, &remote, 1, 0);

	if (n != (ssize_t)size)
		fail(push ? "process_vm_writev" : "process_vm_readv");
}

/* The child's part: all of it, or the first half. */
static void pull(struct limits *limits, enum copy copy, size_t size)
{
	size_t part = copy == MEMCPY_2 || copy == VM_2 ? size / 2 : size;

	if (copy == MEMCPY_1 || copy == MEMCPY_2)
		memcpy(limits->mine, limits->source, part);
	else /* forked after the allocation: the parent's buffer has this address too */
		vm_copy(limits->parent, limits->mine, limits->mine, part, false);
}

/* The parent's part: the second half, into what it can reach. */
static void push(struct limits *limits, enum copy copy, size_t size)
{
	size_t half = size / 2;

	if (copy == MEMCPY_2)
		memcpy(limits->mine + half, limits->source + half, size - half);
	else if (copy == VM_2)
		vm_copy(limits->child, limits->mine + half, limits->shared->child_in + half,
			size - half, true);
}

static void copies(struct limits *limits, bool parent, enum copy copy, size_t size)
{
	struct shared *shared = limits->shared;
	double ns[BENCH_SAMPLES_MAX], apart[BENCH_SAMPLES_MAX], estimate = 100 + (double)size / 8;
	long rounds = (long)(limits->ns_per_sample / estimate);

	if (rounds < 2)
		rounds = 2;
	for (int i = -1; i < limits->samples; i++) {
		double distance = apart_ns(&limits->apart), start = bench_now();

		for (long k = 0; k < rounds; k++) {
			limits->turn++;
			if (parent) {
				atomic_store_explicit(&shared->go, limits->turn,
						      memory_order_release);
				push(limits, copy, size);
				while (atomic_load_explicit(&shared->done, memory_order_acquire) !=
				       limits->turn)
					;
			} else {
				while (atomic_load_explicit(&shared->go, memory_order_acquire) !=
				       limits->turn)
					;
				pull(limits, copy, size);
				atomic_store_explicit(&shared->done, limits->turn,
						      memory_order_release);
			}
		}
		if (i < 0)
			continue;
		ns[i] = (bench_now() - start) / (double)rounds;
		apart[i] = distance;
	}
	if (parent)
		apart_sample(copy_names[copy], size, ns, apart, limits->samples);
}

static void run(struct limits *limits, bool parent, const struct bench_sizes *sizes)
{
	line(limits, parent);
	for (int i = 0; i < sizes->count; i++)
		for (enum copy copy = MEMCPY_1; sizes->value[i] && copy <= VM_2; copy++)
			copies(limits, parent, copy, sizes->value[i]);
}

int main(int argc, char **argv)
{
	struct limits limits = {.samples = 11};
	struct bench_sizes sizes;
	int cpu[2] = {0, 1}, option;
	double ms = 20;

	bench_parse_sizes("4096,65536,1048576,16777216", &sizes);
	while ((option = getopt(argc, argv, "c:s:m:r:")) != -1) {
		if (option == 'c' && sscanf(optarg, "%d,%d", &cpu[0], &cpu[1]) == 2) {
			continue;
		} else if (option == 's' && bench_parse_sizes(optarg, &sizes)) {
			continue;
		} else if (option == 'm' && atof(optarg) > 0) {
			ms = atof(optarg);
		} else if (option == 'r' && atoi(optarg) > 0 && atoi(optarg) <= BENCH_SAMPLES_MAX) {
			limits.samples = atoi(optarg);
		} else {
			fprintf(stderr, "usage: limits [-c CPU,CPU] [-s SIZES] [-m MILLISECONDS] "
					"[-r SAMPLES]\n");
			return 2;
		}
	}
	limits.ns_per_sample = ms * 1e6 / limits.samples;
	size_t room = bench_largest(&sizes);
	limits.shared = mmap(NULL, sizeof(*limits.shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	limits.source =
		mmap(NULL, room + 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (limits.shared == MAP_FAILED || limits.source == MAP_FAILED)
		fail("mmap");
	limits.mine = bench_alloc(room, 1);
	limits.parent = getpid();
	limits.apart.line = apart_map();
	limits.child = fork();
	if (limits.child < 0)
		fail("fork");
	bool parent = limits.child != 0;
	limits.apart.first = parent;
	if (!bench_pin(cpu[parent ? 0 : 1]))
		fail("sched_setaffinity");
	if (parent) {
		memset(limits.source, 3, room + 4096);
	} else {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		limits.shared->child_in = limits.mine;
	}
	memset(limits.mine, parent ? 1 : 2, room); /* own pages, no longer those before the fork */
	run(&limits, parent, &sizes);
	if (!parent)
		_exit(0);
	int status = 0;
	if (waitpid(limits.child, &status, 0) < 0 || status)
		return 1;
	printf("done\n");
	return 0;
}
