/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * bench.h: what the benchmark programs share: a clock, medians, lists of sizes,
 * pinning, and patterns to recognise data by. Header only, because mpi_bench.c
 * is compiled alone by each MPI's mpicc. Every program prints one line a result,
 *	sample TEST SIZE NANOSECONDS
 * where NANOSECONDS is the time of one message of SIZE bytes, the median over
 * its samples; the command collects these from several launches.
 */
#ifndef BL_BENCH_H
#define BL_BENCH_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BENCH_SIZES_MAX	  64
#define BENCH_SAMPLES_MAX 101

struct bench_sizes {
	size_t value[BENCH_SIZES_MAX];
	int count;
};

static inline double bench_now(void) /* nanoseconds */
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline int bench_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double bench_median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), bench_compare);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static inline void bench_sample(const char *test, size_t size, double ns)
{
	printf("sample %s %zu %.2f\n", test, size, ns);
	fflush(stdout);
}

/* "0,8,4096" */
static inline bool bench_parse_sizes(const char *text, struct bench_sizes *sizes)
{
	sizes->count = 0;
	while (*text) {
		char *end;

		errno = 0;
		unsigned long long value = strtoull(text, &end, 10);
		if (errno || end == text || (*end && *end != ',') || value > (1ULL << 32) ||
		    sizes->count == BENCH_SIZES_MAX)
			return false;
		sizes->value[sizes->count++] = (size_t)value;
		text = *end ? end + 1 : end;
	}
	return sizes->count > 0;
}

static inline size_t bench_largest(const struct bench_sizes *sizes)
{
	size_t largest = 0;

	for (int i = 0; i < sizes->count; i++)
		if (sizes->value[i] > largest)
			largest = sizes->value[i];
	return largest;
}

/* Memory as an application has it: from the allocator, page aligned, touched. */
static inline unsigned char *bench_alloc(size_t size, int fill)
{
	size_t rounded = (size + 4095) & ~(size_t)4095;
	unsigned char *memory = aligned_alloc(4096, rounded ? rounded : 4096);

	if (!memory) {
		fprintf(stderr, "no memory for a buffer of %zu bytes\n", size);
		exit(1);
	}
	memset(memory, fill, rounded ? rounded : 4096);
	return memory;
}

static inline bool bench_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/* Each process gives the other `size` bytes over a socket and waits for theirs. */
static inline void bench_swap(int socket, const void *out, void *in, size_t size)
{
	if (write(socket, out, size) != (ssize_t)size || read(socket, in, size) != (ssize_t)size) {
		fprintf(stderr, "the other process is gone\n");
		exit(1);
	}
}

/* A pattern without period in which no two seeds agree for long. */
static inline unsigned char bench_byte(uint32_t seed, size_t i)
{
	return (unsigned char)(((uint32_t)(i >> 3) * 2654435761u + seed * 40503u) >> 13) +
	       (unsigned char)i;
}

static inline void bench_fill(unsigned char *buffer, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i++)
		buffer[i] = bench_byte(seed, i);
}

/* The offset of the first wrong byte; size: there is none. Whole blocks first: a
 * loop without a branch is one that compilers make vectors of. */
static inline size_t bench_check(const unsigned char *buffer, size_t size, uint32_t seed)
{
	size_t start = 0;

	while (start < size) {
		size_t end = size - start > 4096 ? start + 4096 : size;
		unsigned char wrong = 0;

		for (size_t i = start; i < end; i++)
			wrong |= buffer[i] ^ bench_byte(seed, i);
		if (wrong)
			break;
		start = end;
	}
	while (start < size && buffer[start] == bench_byte(seed, start))
		start++;
	return start;
}

#endif
