/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * mourn.c: a process that sleeps hears of a neighbour's death soon, though a death wakes nobody.
 */
#include "ways.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct grave {
	unsigned char name[2][T_NAME_MAX];
	_Atomic int named[2], greeted, die;
	_Atomic uint64_t died;
};

static void await(_Atomic int *flag)
{
	while (!atomic_load(flag))
		pause_ms(1);
}

static fi_addr_t meet(struct t_node *n, struct grave *g, int me)
{
	memcpy(g->name[me], n->name, T_NAME_MAX);
	atomic_store(&g->named[me], 1);
	await(&g->named[!me]);
	return t_insert(n, g->name[!me]);
}

static _Noreturn void mortal(struct grave *g)
{
	struct t_node n;
	fi_addr_t other;
	uint64_t v = 1;

	t_open(&n, NULL);
	other = meet(&n, g, 1);
	T_TRY(fi_tinject(n.ep, &v, 8, other, 1));
	while (!atomic_load(&g->die))
		t_progress();
	pause_ms(100); /* the other is asleep by then */
	atomic_store(&g->died, now());
	raise(SIGKILL);
	_exit(1);
}

/* ns from the kill of somebody met until a wait for a message from them fails. */
static uint64_t one_death(waiter_fn wait, enum fi_wait_obj obj)
{
	struct grave *g =
		mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct t_opts o = {.wait = obj, .caps = FI_DIRECTED_RECV};
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	struct fi_context2 ctx;
	struct t_node n;
	fi_addr_t other;
	uint64_t v, late;
	pid_t child;

	T_CHECK(g != MAP_FAILED, "mmap");
	child = fork();
	if (!child)
		mortal(g);
	t_open(&n, &o);
	other = meet(&n, g, 0);
	T_TRY(fi_trecv(n.ep, &v, 8, NULL, other, 1, 0, &ctx));
	T_EQ(wait(&n, &e, -1), 1);
	T_TRY(fi_trecv(n.ep, &v, 8, NULL, other, 2, 0, &ctx));
	atomic_store(&g->die, 1);
	T_EQ(wait(&n, &e, 10000), -FI_EAVAIL);
	late = now() - atomic_load(&g->died);
	T_EQ(fi_cq_readerr(n.cq, &err, 0), 1);
	T_EQ(err.err, ECONNRESET);
	waitpid(child, NULL, 0);
	t_close(&n);
	munmap(g, sizeof *g);
	return late;
}

/* Deaths are looked for while somebody sleeps, not only when the wait is over. */
static void death_with(waiter_fn wait, enum fi_wait_obj obj)
{
	int tries = TRIES;

	for (int heard = 0; heard < 3;) {
		uint64_t late = one_death(wait, obj);

		if (late < 200000000u)
			heard++;
		else
			T_CHECK(--tries, "heard of %d in time, of the last after %llu ms", heard,
				(unsigned long long)late / 1000000);
	}
}

static void death_sread(void)
{
	death_with(by_sread, FI_WAIT_UNSPEC);
}

static void death_fd(void)
{
	death_with(by_poll, FI_WAIT_FD);
}

static const struct t_case cases[] = {
	{"mourn_sread", 1, death_sread, "a death wakes a waiting read", 0},
	{"mourn_fd", 1, death_fd, "a death makes the descriptor readable", 0},
};
const struct t_group group_mourn = T_GROUP("mourn", cases);
