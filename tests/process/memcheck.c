/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * memcheck.c: a program of its own, which valgrind's memcheck follows: it begins itself anew under
 * it. What another process has written into ours is initialised to memcheck, however it came.
 */
#include "fab.h"

#ifdef BL_MEMCHECK
#include <valgrind/memcheck.h>
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEN ((size_t)1 << 20)
#define TAG 3
#define KEY 77

#ifdef BL_MEMCHECK
/* Where the first byte is that memcheck takes for uninitialised, or that isn't there; 0: nowhere.
 * An address: so that a buffer's first byte isn't taken for "nowhere". */
static uintptr_t undefined(const void *p, size_t len)
{
	return VALGRIND_CHECK_MEM_IS_DEFINED(p, len);
}

/* All of it to be uninitialised. */
static void forget(void *p, size_t len)
{
	VALGRIND_MAKE_MEM_UNDEFINED(p, len);
}
#else
static uintptr_t undefined(const void *p, size_t len)
{
	return 0;
}

static void forget(void *p, size_t len)
{
}
#endif

static unsigned char out[LEN], in[LEN], window[LEN];

static void is_here(const unsigned char *p, size_t len, unsigned char value, const char *what)
{
	uintptr_t at = undefined(p, len);

	T_CHECK(!at, "%s: byte %zu of %zu is uninitialised to memcheck", what, at - (uintptr_t)p,
		len);
	for (size_t i = 0; i < len; i++)
		T_CHECK(p[i] == value, "%s: byte %zu is %u", what, i, p[i]);
}

static void send(struct t_node *n, size_t len, unsigned char value)
{
	struct t_op op = {0};

	memset(out, value, len);
	T_TRY(fi_tsend(n->ep, out, len, NULL, n->peer[!t_rank], TAG, &op));
	T_WAIT(&op);
}

/* `first`: the receive is there before its message. */
static void receive(struct t_node *n, size_t len, unsigned char value, bool first)
{
	struct t_op op = {0};

	forget(in, LEN);
	T_TRY(fi_trecv(n->ep, in, len, NULL, n->peer[!t_rank], TAG, 0, &op));
	if (first)
		t_barrier();
	T_WAIT(&op);
	is_here(in, len, value, first ? "received by a posted receive" : "received");
}

static void messages(void)
{
	static const size_t lens[] = {8, 5000, 70000, LEN};
	struct t_node n;
	struct t_opts o = {0};

	t_start(&n, &o);
	for (size_t i = 0; i < sizeof lens / sizeof *lens; i++)
		for (int turn = 0; turn < 4; turn++) {
			if (turn % 2 == t_rank) {
				send(&n, lens[i], (unsigned char)turn);
				t_barrier();
				send(&n, lens[i], (unsigned char)~turn);
			} else {
				receive(&n, lens[i], (unsigned char)turn, false);
				receive(&n, lens[i], (unsigned char)~turn, true);
			}
		}
	t_finish(&n);
}

static void one_sided(void)
{
	static const size_t lens[] = {8, 5000, LEN};
	struct t_node n;
	struct t_opts o = {.caps = FI_RMA};
	struct fid_mr *mr;
	uint64_t at;

	t_start(&n, &o);
	forget(window, LEN);
	T_OK(fi_mr_reg(n.domain, window, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr,
		       NULL));
	at = n.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)window : 0;
	for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
		struct t_op put = {0}, get = {0};

		memset(out, 0x40 + t_rank, lens[i]);
		t_barrier();
		T_TRY(fi_write(n.ep, out, lens[i], NULL, n.peer[!t_rank], at, KEY, &put));
		T_WAIT(&put);
		t_barrier();
		is_here(window, lens[i], (unsigned char)(0x40 + !t_rank), "written by another");
		forget(in, LEN);
		T_TRY(fi_read(n.ep, in, lens[i], NULL, n.peer[!t_rank], at, KEY, &get));
		T_WAIT(&get);
		is_here(in, lens[i], (unsigned char)(0x40 + t_rank), "read from another");
	}
	t_barrier();
	T_OK(fi_close(&mr->fid));
	t_finish(&n);
}

static const struct t_case cases[] = {
	{"memcheck_messages", 2, messages, "what a sender writes is uninitialised", 60},
	{"memcheck_one_sided", 2, one_sided, "what is put is uninitialised", 60},
};

/* Under valgrind; returns why it isn't. */
static const char *begin_anew(char **argv)
{
#ifdef BL_MEMCHECK
	char *words[16] = {"valgrind", "-q", "--error-exitcode=99"};

	if (RUNNING_ON_VALGRIND)
		return NULL;
	for (size_t i = 0; argv[i] && i < 12; i++)
		words[3 + i] = argv[i];
	execvp(words[0], words);
	return "valgrind is missing (Debian: valgrind)";
#else
	return "it was built without valgrind's headers (Debian: valgrind)";
#endif
}

int main(int argc, char **argv)
{
	static const struct t_group groups[] = {T_GROUP("memcheck", cases)};
	const char *why = begin_anew(argv);

	if (why) {
		printf("skip memcheck: %s\n", why);
		return 0;
	}
	return t_main(argc, argv, groups, 1);
}
