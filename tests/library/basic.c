/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* basic.c: arguments, lengths, self, completion calls. */
#include "common.h"

static void run_version(void)
{
	static const int known[] = {
		0,	   -EMSGSIZE,	  -ECANCELED,	-EALREADY,     -EINVAL,
		-ENOMEM,   -EHOSTUNREACH, -ENETUNREACH, -ECONNREFUSED, -ECONNRESET,
		-ENOTCONN, -EPERM};

	T_EQ(beeline_version(), BEELINE_VERSION);
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		const char *text = beeline_strerror(known[i]);

		T_CHECK(text && *text && strcmp(text, "Unknown error"), "error %d has no words",
			known[i]);
		T_CHECK(text == beeline_strerror(-known[i]), "error %d: the sign matters",
			known[i]);
	}
	T_CHECK(!strcmp(beeline_strerror(-123456), "Unknown error"), "nonsense has words");
	T_CHECK(!strcmp(beeline_strerror((int)(1u << 31)), "Unknown error"), "INT_MIN has words");
}

static void run_arguments(void)
{
	struct beeline_address one, two, garbage;
	struct beeline_endpoint *other;
	struct beeline_request *req = NULL;
	struct beeline_message *message = NULL;
	char c = 0;
	int peer;

	memset(&garbage, 0x5a, sizeof garbage);
	L_IS(beeline_open(&ep, 0x80), -EINVAL);
	L_OK(beeline_open(&ep, 0));
	L_OK(beeline_open(&other, BEELINE_THREAD_SAFE));
	beeline_get_address(ep, &one);
	beeline_get_address(other, &two);
	T_CHECK(memcmp(&one, &two, sizeof one), "two endpoints, one address");
	L_IS(beeline_add_peer(ep, &garbage, &peer), -EINVAL);
	L_OK(beeline_add_peer(ep, &one, &peer));
	T_EQ(peer, 0);
	L_OK(beeline_add_peer(ep, &two, &peer));
	T_EQ(peer, 1);
	L_IS(beeline_isend(ep, &c, 1, 2, 0, 0, &req), -EINVAL);
	L_IS(beeline_isend(ep, &c, 1, -1, 0, 0, &req), -EINVAL);
	L_IS(beeline_issend(ep, &c, 1, -2, 0, 0, &req), -EINVAL);
	L_IS(beeline_send(ep, &c, 1, 2, 0, 0), -EINVAL);
	L_IS(beeline_irecv(ep, &c, 1, beeline_from(2, 0, 0), &req), -EINVAL);
	L_IS(beeline_recv(ep, &c, 1, beeline_from(-2, 0, 0), NULL), -EINVAL);
	L_IS(beeline_iprobe(ep, beeline_from(7, 0, 0), NULL), -EINVAL);
	L_IS(beeline_improbe(ep, beeline_from(7, 0, 0), &message, NULL), -EINVAL);
	T_CHECK(!req && !message, "a failed call left something behind");
	L_IS(beeline_cancel(NULL), -EALREADY);
	L_OK(beeline_progress(ep));
	beeline_close(ep);
	beeline_close(other);
	beeline_close(NULL);
}

static void run_reopen(void)
{
	for (int i = 0; i < 20; i++) {
		unsigned v = 0;

		enter_world(0);
		if (t_rank == 0)
			L_OK(beeline_send(ep, &i, sizeof i, 1, 7, 0));
		else
			L_OK(beeline_recv(ep, &v, sizeof v, beeline_from(0, 7, 0), NULL));
		T_EQ(v, t_rank ? i : 0);
		leave_world();
	}
}

/* Around what may differ: one line, a slot, rings, pages, both hands, chunks. */
static const size_t lengths[] = {
	0,	1,	 2,	  7,	   8,	    15,	     16,      31,    39,     40,
	41,	63,	 64,	  65,	   127,	    128,     231,     232,   233,    255,
	256,	1000,	 1024,	  4095,	   4096,    4097,    8191,    8192,  8193,   12288,
	16383,	16384,	 16385,	  20000,   32768,   65535,   65536,   65537, 131072, 262143,
	524288, 1048575, 1048576, 1048577, 3000001, 4194304, 5000000,
};
#define NLENGTHS (sizeof lengths / sizeof lengths[0])

static void run_lengths(void)
{
	unsigned char *out, *in;

	enter_world(0);
	out = bytes_new(L_MAX + 64);
	in = bytes_new(L_MAX + 64);
	for (size_t i = 0; i < 4 * NLENGTHS; i++) {
		size_t len = lengths[i / 4], shift = i % 4 * 3;
		struct beeline_status s;

		t_at("length %zu", len);
		bytes_fill(out + shift, len, (unsigned)i);
		memset(in, 0xee, len + 64);
		if (t_rank == 0) {
			L_OK(beeline_send(ep, out + shift, len, 1, (uint32_t)i, 5));
			L_OK(beeline_recv(ep, in + 8, len, beeline_from(1, (uint32_t)i, 5), &s));
		} else {
			L_OK(beeline_recv(ep, in + 8, len, beeline_from(0, (uint32_t)i, 5), &s));
			L_OK(beeline_send(ep, in + 8, len, 0, (uint32_t)i, 5));
		}
		status_check("length", &s, 1 - t_rank, (uint32_t)i, 5, len);
		bytes_check("received", in + 8, len, (unsigned)i);
		T_CHECK(in[7] == 0xee && in[8 + len] == 0xee, "bytes around %zu were touched", len);
	}
	leave_world();
	free(out);
	free(in);
}

static void run_both_ways(void)
{
	unsigned char *out, *in;

	enter_world(0);
	out = bytes_new(L_MAX);
	in = bytes_new(L_MAX);
	for (size_t i = 0; i < NLENGTHS; i++) {
		struct beeline_request *req[2];
		struct beeline_status s[2];
		size_t len = lengths[i];

		t_at("length %zu", len);
		bytes_fill(out, len, (unsigned)(i * 2) + (unsigned)t_rank);
		L_OK(beeline_isend(ep, out, len, 1 - t_rank, 3, 0, &req[0]));
		L_OK(beeline_irecv(ep, in, len, beeline_from(1 - t_rank, 3, 0), &req[1]));
		L_OK(beeline_waitall(2, req, s));
		T_CHECK(!req[0] && !req[1], "complete requests are still there");
		status_check("send", &s[0], 1 - t_rank, 3, 0, len);
		status_check("receive", &s[1], 1 - t_rank, 3, 0, len);
		bytes_check("received", in, len, (unsigned)(i * 2) + 1 - (unsigned)t_rank);
	}
	leave_world();
	free(out);
	free(in);
}

static void run_self(void)
{
	struct beeline_request *req[400];
	unsigned char *out, *in;
	struct beeline_status s;

	enter_world(0);
	out = bytes_new(L_MAX);
	in = bytes_new(L_MAX);
	for (size_t i = 0; i < NLENGTHS; i++) {
		t_at("length %zu", lengths[i]);
		bytes_fill(out, lengths[i], (unsigned)i);
		L_OK(beeline_isend(ep, out, lengths[i], 0, 1, 2, &req[0]));
		L_OK(beeline_recv(ep, in, lengths[i], beeline_from(0, 1, 2), &s));
		status_check("self", &s, 0, 1, 2, lengths[i]);
		bytes_check("self", in, lengths[i], (unsigned)i);
		L_OK(beeline_wait(&req[0], NULL));
	}
	t_at("more than the ring holds");
	for (uint32_t i = 0; i < 400; i++)
		L_OK(beeline_isend(ep, &out[i], 1, 0, i, 0, &req[i]));
	for (uint32_t i = 0; i < 400; i++) {
		L_OK(beeline_recv(ep, in, 1, beeline_from_any_tag(0, 0), &s));
		T_EQ(s.tag, i);
		T_EQ(in[0], out[i]);
	}
	L_OK(beeline_waitall(400, req, NULL));
	leave_world();
	free(out);
	free(in);
}

static void run_issend(void)
{
	static const size_t sizes[] = {0, 8, 1000, 100000};

	enter_world(0);
	for (size_t i = 0; i < 4; i++) {
		unsigned char *buf = bytes_new(sizes[i]);
		struct beeline_request *req;
		struct beeline_status s;

		if (t_rank == 0) {
			bytes_fill(buf, sizes[i], 4);
			L_OK(beeline_issend(ep, buf, sizes[i], 1, 9, 1, &req));
			barrier(); /* by now it has arrived */
			for (int n = 0; n < 1000; n++)
				L_IS(beeline_test(&req, &s), 0);
			barrier();
			L_OK(beeline_wait(&req, &s));
			status_check("issend", &s, 1, 9, 1, sizes[i]);
		} else {
			barrier();
			barrier();
			L_OK(beeline_recv(ep, buf, sizes[i], beeline_from(0, 9, 1), NULL));
			bytes_check("issend", buf, sizes[i], 4);
		}
		free(buf);
	}
	leave_world();
}

static void run_completion_calls(void)
{
	struct beeline_request *req[4] = {NULL};
	struct beeline_status s[4];
	unsigned char c[4] = {0};
	size_t index = 99;

	enter_world(0);
	/* NULL requests are complete. */
	L_OK(beeline_wait(&req[0], &s[0]));
	T_EQ(s[0].length, 0);
	L_IS(beeline_test(&req[0], &s[0]), 1);
	L_OK(beeline_waitall(4, req, s));
	T_EQ(s[3].error, 0);
	L_IS(beeline_testany(4, req, &index, &s[0]), 1);
	T_EQ(index, 4);
	L_OK(beeline_waitany(4, req, &index, NULL));
	T_EQ(index, 4);
	L_OK(beeline_waitall(0, NULL, NULL));

	/* One of several; the others stay. */
	for (uint32_t i = 1; i < 4; i++)
		L_OK(beeline_irecv(ep, &c[i], 1, beeline_from(0, i, 0), &req[i]));
	L_IS(beeline_testany(4, req, &index, &s[0]), 0);
	L_IS(beeline_test(&req[2], &s[0]), 0);
	L_OK(beeline_send(ep, "b", 1, 0, 2, 0));
	L_OK(beeline_waitany(4, req, &index, &s[0]));
	T_EQ(index, 2);
	T_CHECK(!req[2] && req[1] && req[3] && c[2] == 'b', "the wrong one completed");
	status_check("waitany", &s[0], 0, 2, 0, 1);
	L_OK(beeline_send(ep, "ccc", 3, 0, 3, 0));
	do
		index = 99;
	while (!beeline_testany(4, req, &index, &s[0]));
	T_EQ(index, 3);
	L_IS(s[0].error, -EMSGSIZE);
	L_OK(beeline_send(ep, "a", 1, 0, 1, 0));
	int ret;
	while (!(ret = beeline_test(&req[1], NULL)))
		;
	T_EQ(ret, 1);

	/* waitall: all complete, the first error in the array is returned. */
	for (uint32_t i = 0; i < 4; i++)
		L_OK(beeline_irecv(ep, &c[i], 1, beeline_from(0, i, 0), &req[i]));
	L_OK(beeline_send(ep, "zz", 2, 0, 3, 0));
	L_OK(beeline_cancel(req[1]));
	L_OK(beeline_send(ep, "x", 1, 0, 0, 0));
	L_OK(beeline_send(ep, "y", 1, 0, 2, 0));
	L_IS(beeline_waitall(4, req, s), -ECANCELED);
	T_CHECK(!req[0] && !req[1] && !req[2] && !req[3], "not all are complete");
	L_IS(s[0].error, 0);
	L_IS(s[1].error, -ECANCELED);
	L_IS(s[2].error, 0);
	L_IS(s[3].error, -EMSGSIZE);
	leave_world();
}

static const struct t_case cases[] = {
	{"version_and_words", 1, run_version, "version, and words for each documented error", 0},
	{"arguments", 1, run_arguments, "what is out of range is refused, nothing is left", 0},
	{"open_again", 2, run_reopen, "open, talk and close twenty times", 0},
	{"lengths", 2, run_lengths, "every path by length, unaligned, exact to the byte", 60},
	{"both_ways", 2, run_both_ways, "both send and receive at once", 60},
	{"to_oneself", 1, run_self, "sends to oneself, more than a ring holds", 60},
	{"issend", 2, run_issend, "complete only when received", 0},
	{"completion_calls", 1, run_completion_calls, "wait, test, waitall, testany, waitany", 0},
};
const struct t_group group_basic = T_GROUP("basic", cases);
