/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * owned.c: two ranks use memory that its owner can touch, and the kernel doesn't copy for another
 * process: write-only pages (w), memfd_secret(2) (s), and pages that a SIGSEGV handler makes
 * accessible (l). Messages from there, to there, and one-sided operations in a window there.
 * Prints "owned N M": N checks, M of the three kinds.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST (1 << 20)

static int rank, checks;
static char kind;
static unsigned char *own; /* MOST bytes */

static void wrong(const char *what, long value)
{
	printf("wrong: %c: %s: %ld\n", kind, what, value);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(int good, const char *what, long value)
{
	if (!good)
		wrong(what, value);
	checks++;
}

static void on_fault(int sig)
{
	if (mprotect(own, MOST, PROT_READ | PROT_WRITE))
		signal(sig, SIG_DFL);
}

/* 0: there is no such memory here. */
static int make(void)
{
	int fd = kind == 's' ? (int)syscall(447, 0) : -1;
	int flags = kind == 's' ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;

	if (kind == 's' && (fd < 0 || ftruncate(fd, MOST)))
		return 0;
	own = mmap(NULL, MOST, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (fd >= 0)
		close(fd);
	return own != MAP_FAILED;
}

static void hide(void)
{
	if (kind == 'w')
		mprotect(own, MOST, PROT_WRITE);
	if (kind == 'l')
		mprotect(own, MOST, PROT_NONE);
}

static void show(void)
{
	if (kind != 's')
		mprotect(own, MOST, PROT_READ | PROT_WRITE);
}

/* whose: bit 0, the sender's is such memory; bit 1, the receiver's. */
static void message(int len, int whose)
{
	unsigned char *other = malloc((size_t)len), *p = whose >> rank & 1 ? own : other;

	memset(p, rank ? 0 : len % 251, (size_t)len);
	hide();
	if (!rank)
		MPI_Send(p, len, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
	else
		MPI_Recv(p, len, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	show();
	for (int i = 0; rank && i < len; i++)
		if (p[i] != len % 251)
			wrong("byte of a message", i);
	check(1, "", 0);
	free(other);
}

static void window(void)
{
	static uint64_t many[1000], got[1000];
	uint64_t one = 1, value = 0, ten = 10, result = 0;
	MPI_Win win;

	memset(own, 0, MOST);
	MPI_Win_create(own, MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank)
		hide();
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank) {
		MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
		MPI_Put(&ten, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, win);
		MPI_Win_flush(1, win);
		MPI_Get(&value, 8, MPI_BYTE, 1, 0, 8, MPI_BYTE, win);
		MPI_Win_flush(1, win);
		check(value == 10, "MPI_Get after MPI_Put", (long)value);
		MPI_Fetch_and_op(&one, &result, MPI_UINT64_T, 1, 0, MPI_SUM, win);
		MPI_Win_flush(1, win);
		check(result == 10, "MPI_Fetch_and_op", (long)result);
		MPI_Compare_and_swap(&one, (uint64_t[]){11}, &result, MPI_UINT64_T, 1, 0, win);
		MPI_Win_flush(1, win);
		check(result == 11, "MPI_Compare_and_swap", (long)result);
		for (uint64_t i = 0; i < 1000; i++)
			many[i] = i;
		MPI_Accumulate(many, 1000, MPI_UINT64_T, 1, 4000, 1000, MPI_UINT64_T, MPI_SUM, win);
		MPI_Win_flush(1, win);
		MPI_Get(got, 1000, MPI_UINT64_T, 1, 4000, 1000, MPI_UINT64_T, win);
		MPI_Win_unlock(1, win);
		check(!memcmp(many, got, sizeof many), "MPI_Accumulate", (long)got[1]);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	show();
	if (rank)
		check(*(uint64_t *)own == 1, "the window", (long)*(uint64_t *)own);
	MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
	int kinds = 0, all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (const char *k = "wsl"; *k; k++) {
		int mine, both;

		kind = *k;
		mine = make();
		MPI_Allreduce(&mine, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
		if (!both)
			continue;
		if (kind == 'l')
			signal(SIGSEGV, on_fault);
		for (int whose = 1; whose <= 3; whose++) {
			message(9000, whose);
			message(65536, whose);
			message(MOST, whose);
		}
		window();
		munmap(own, MOST);
		kinds++;
	}
	MPI_Reduce(&checks, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (!rank)
		printf("owned %d %d\n", all, kinds);
	MPI_Finalize();
	return 0;
}
