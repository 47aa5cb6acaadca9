/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* probe.c: looking before receiving, claiming, and taking receives back. */
#include "common.h"

static const size_t sizes[] = {0, 5, 300, 6000, 200000};
#define NSIZES (sizeof sizes / sizeof sizes[0])

static void run_iprobe(void)
{
	unsigned char *buf = bytes_new(200000);
	struct beeline_status s, p;

	enter_world(0);
	for (size_t i = 0; i < NSIZES; i++) {
		uint32_t tag = 10 + (uint32_t)i;

		t_at("length %zu", sizes[i]);
		if (t_rank) {
			struct beeline_request *req;

			barrier();
			bytes_fill(buf, sizes[i], tag);
			L_OK(beeline_isend(ep, buf, sizes[i], 0, tag, 2, &req));
			L_OK(beeline_wait(&req, NULL));
			continue;
		}
		for (int n = 0; n < 50; n++)
			L_IS(beeline_iprobe(ep, beeline_from_any_tag(BEELINE_ANY_SOURCE, 2), &p),
			     0);
		barrier();
		while (!beeline_iprobe(ep, beeline_from_any_tag(BEELINE_ANY_SOURCE, 2), &p))
			;
		status_check("iprobe", &p, 1, tag, 2, sizes[i]);
		/* Looking takes nothing away; what doesn't match isn't seen. */
		L_IS(beeline_iprobe(ep, beeline_from(1, tag, 2), NULL), 1);
		L_IS(beeline_iprobe(ep, beeline_from(1, tag + 1, 2), NULL), 0);
		L_IS(beeline_iprobe(ep, beeline_from(1, tag, 3), NULL), 0);
		L_IS(beeline_iprobe(ep, beeline_from(0, tag, 2), NULL), 0);
		L_OK(beeline_recv(ep, buf, p.length, beeline_from(p.source, p.tag, p.context), &s));
		status_check("receive", &s, 1, tag, 2, sizes[i]);
		bytes_check("probed", buf, sizes[i], tag);
	}
	leave_world();
	free(buf);
}

static void run_iprobe_among_completions(void)
{
	enum { COUNT = 40 };
	struct beeline_request *req[COUNT];
	uint32_t v[COUNT], last;

	/* The answer comes through the same queue as forty completions. */
	enter_world(0);
	if (t_rank) {
		barrier();
		for (uint32_t i = 0; i <= COUNT; i++)
			L_OK(beeline_send(ep, &i, sizeof i, 0, i, 0));
	} else {
		struct beeline_status s;

		for (uint32_t i = 0; i < COUNT; i++)
			L_OK(beeline_irecv(ep, &v[i], sizeof v[i], beeline_from(1, i, 0), &req[i]));
		barrier();
		while (!beeline_iprobe(ep, beeline_from_any_tag(1, 0), &s))
			;
		T_EQ(s.tag, COUNT);
		L_OK(beeline_waitall(COUNT, req, NULL));
		for (uint32_t i = 0; i < COUNT; i++)
			T_EQ(v[i], i);
		L_OK(beeline_recv(ep, &last, sizeof last, beeline_from_any_tag(1, 0), NULL));
		T_EQ(last, COUNT);
	}
	leave_world();
}

static void run_improbe(void)
{
	unsigned char *a = bytes_new(200000), *b = bytes_new(200000);
	struct beeline_status s;

	enter_world(0);
	for (size_t i = 0; i < NSIZES; i++) {
		struct beeline_message *message = NULL;
		struct beeline_request *req[2];

		t_at("length %zu", sizes[i]);
		if (t_rank) {
			bytes_fill(a, sizes[i], 1);
			bytes_fill(b, sizes[i], 2);
			L_OK(beeline_isend(ep, a, sizes[i], 0, 8, 0, &req[0]));
			L_OK(beeline_isend(ep, b, sizes[i], 0, 8, 0, &req[1]));
			L_OK(beeline_waitall(2, req, NULL));
			barrier();
			continue;
		}
		while (!beeline_improbe(ep, beeline_from(BEELINE_ANY_SOURCE, 8, 0), &message, &s))
			;
		status_check("improbe", &s, 1, 8, 0, sizes[i]);
		/* The claimed one is out of reach: the second is received first. */
		L_OK(beeline_recv(ep, b, sizes[i], beeline_from_any_tag(1, 0), &s));
		bytes_check("second", b, sizes[i], 2);
		L_IS(beeline_iprobe(ep, beeline_from_any_tag(1, 0), NULL), 0);
		L_OK(beeline_imrecv(a, sizes[i], &message, &req[0]));
		T_CHECK(!message, "the message is still there");
		L_OK(beeline_wait(&req[0], &s));
		status_check("imrecv", &s, 1, 8, 0, sizes[i]);
		bytes_check("claimed", a, sizes[i], 1);
		barrier(); /* so that a probe for anything sees these two alone */
	}
	leave_world();
	free(a);
	free(b);
}

static void run_improbe_cut(void)
{
	unsigned char *a = bytes_new(200000);

	enter_world(0);
	for (size_t i = 1; i < NSIZES; i++) {
		struct beeline_message *message;
		struct beeline_request *req;
		struct beeline_status s;

		t_at("length %zu", sizes[i]);
		bytes_fill(a, sizes[i], 6);
		if (t_rank) {
			L_OK(beeline_send(ep, a, sizes[i], 0, 8, 0));
			continue;
		}
		while (!beeline_improbe(ep, beeline_from(1, 8, 0), &message, NULL))
			;
		memset(a, 0, sizes[i]);
		L_OK(beeline_imrecv(a, sizes[i] - 1, &message, &req));
		L_IS(beeline_cancel(req), -EALREADY);
		L_IS(beeline_wait(&req, &s), -EMSGSIZE);
		T_EQ(s.length, sizes[i] - 1);
		T_EQ(s.sent, sizes[i]);
		bytes_check("cut", a, sizes[i] - 1, 6);
		T_EQ(a[sizes[i] - 1], 0);
	}
	leave_world();
	free(a);
}

static void run_cancel_recv(void)
{
	struct beeline_request *req[3];
	struct beeline_status s;
	char buf[3] = "...";

	enter_world(0);
	if (t_rank) {
		barrier();
		L_OK(beeline_send(ep, "m", 1, 0, 4, 4));
		L_OK(beeline_send(ep, "n", 1, 0, 4, 4));
	} else {
		for (int i = 0; i < 3; i++)
			L_OK(beeline_irecv(ep, &buf[i], 1, beeline_from(1, 4, 4), &req[i]));
		L_OK(beeline_cancel(req[1]));
		L_IS(beeline_cancel(req[1]), -EALREADY);
		L_IS(beeline_test(&req[1], &s), -ECANCELED);
		T_CHECK(!req[1], "a cancelled request is still there");
		L_IS(s.error, -ECANCELED);
		T_EQ(s.length, 0);
		barrier();
		L_OK(beeline_wait(&req[2], NULL)); /* the second message: the first is in */
		L_IS(beeline_cancel(req[0]), -EALREADY);
		L_OK(beeline_wait(&req[0], &s));
		status_check("kept", &s, 1, 4, 4, 1);
		T_CHECK(buf[0] == 'm' && buf[1] == '.' && buf[2] == 'n', "buffers are \"%.3s\"",
			buf);
	}
	leave_world();
}

static const struct t_case cases[] = {
	{"iprobe", 2, run_iprobe, "sees what a receive would get, and leaves it", 0},
	{"iprobe_in_traffic", 2, run_iprobe_among_completions, "its answer among completions", 0},
	{"improbe", 2, run_improbe, "a claimed message is out of reach", 0},
	{"improbe_cut", 2, run_improbe_cut, "claimed and too long", 0},
	{"cancel_receive", 2, run_cancel_recv, "taken back, or too late", 0},
};
const struct t_group group_probe = T_GROUP("probe", cases);
