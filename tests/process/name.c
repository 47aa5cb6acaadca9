/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * name.c: endpoints that find each other by a node and a service instead of an
 * address that was passed on: what fi_getinfo makes of them, and who may have one.
 */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
};

/* A service that no other case, and no other run of this one, has. */
static const char *service(void)
{
	static char text[32];
	pid_t parent = getppid();

	snprintf(text, sizeof text, "t%d", (int)parent);
	return text;
}

static int find(const char *node, const char *serv, uint64_t flags, struct fi_info **info)
{
	struct fi_info *hints = t_hints(&(struct t_opts){0});
	int ret = fi_getinfo(T_API, node, serv, flags, hints, info);

	fi_freeinfo(hints);
	return ret;
}

static int open_end(struct end *e, const char *node, const char *serv, uint64_t flags)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	int ret;

	T_OK(find(node, serv, flags, &e->info));
	T_OK(fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	T_OK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	ret = fi_endpoint(e->domain, e->info, &e->ep, NULL);
	if (ret)
		return ret;
	T_OK(fi_av_open(e->domain, &av_attr, &e->av, NULL));
	T_OK(fi_cq_open(e->domain, &cq_attr, &e->cq, NULL));
	T_OK(fi_ep_bind(e->ep, &e->av->fid, 0));
	T_OK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	T_OK(fi_enable(e->ep));
	return 0;
}

static void close_end(struct end *e)
{
	if (e->ep) {
		T_OK(fi_close(&e->ep->fid));
		T_OK(fi_close(&e->cq->fid));
		T_OK(fi_close(&e->av->fid));
	}
	T_OK(fi_close(&e->domain->fid));
	T_OK(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
}

static struct fi_cq_tagged_entry take(struct end *e)
{
	struct fi_cq_tagged_entry comp;
	ssize_t n;

	while ((n = fi_cq_read(e->cq, &comp, 1)) == -FI_EAGAIN)
		;
	T_EQ(n, 1);
	return comp;
}

/* The client knows nothing but the service; the server learns its address by message. */
static void meet(void)
{
	unsigned char name[T_NAME_MAX] = {0};
	size_t namelen = sizeof name;
	struct fi_context2 context[2];
	struct end e = {0};
	uint64_t answer = 0;
	fi_addr_t peer, again;

	if (!t_rank) {
		T_OK(open_end(&e, "127.0.0.1", service(), FI_SOURCE));
		T_OK(fi_trecv(e.ep, name, sizeof name, NULL, FI_ADDR_UNSPEC, 1, 0, &context[0]));
		t_barrier_with(NULL);
		T_EQ(take(&e).len, 64);
		T_EQ(fi_av_insert(e.av, name, 1, &peer, 0, NULL), 1);
		answer = 4711;
		T_OK(fi_tsend(e.ep, &answer, sizeof answer, NULL, peer, 2, &context[1]));
		take(&e);
	} else {
		t_barrier_with(NULL);
		T_OK(open_end(&e, "localhost", service(), 0));
		T_EQ(e.info->dest_addrlen, 64);
		T_EQ(fi_av_insert(e.av, e.info->dest_addr, 1, &peer, 0, NULL), 1);
		T_EQ(fi_av_insertsvc(e.av, "127.0.0.1", service(), &again, 0, NULL), 1);
		T_OK(fi_av_lookup(e.av, again, name, &namelen));
		T_CHECK(!memcmp(name, e.info->dest_addr, namelen), "fi_av_insertsvc");
		T_OK(fi_getname(&e.ep->fid, name, &namelen));
		T_OK(fi_tsend(e.ep, name, namelen, NULL, peer, 1, &context[0]));
		take(&e);
		T_OK(fi_trecv(e.ep, &answer, sizeof answer, NULL, peer, 2, 0, &context[1]));
		take(&e);
		T_EQ(answer, 4711);
	}
	t_barrier_with(NULL);
	close_end(&e);
}

/* Whoever asks for a service of a node by name gets it or is told; who asks for it
 * anywhere, as programs do that exchange addresses all the same, gets some address. */
static void taken(void)
{
	struct end first = {0}, second = {0}, any = {0}, again = {0};

	T_OK(open_end(&first, "127.0.0.1", service(), FI_SOURCE));
	T_EQ(open_end(&second, "localhost", service(), FI_SOURCE), -FI_EADDRINUSE);
	close_end(&second);
	T_OK(open_end(&any, NULL, service(), FI_SOURCE));
	close_end(&any);
	close_end(&first);
	T_OK(open_end(&again, "127.0.0.1", service(), FI_SOURCE));
	close_end(&again);
}

/* An address from fi_getname in a fi_info asks for nothing: it is another's. */
static void left_over(void)
{
	unsigned char one[T_NAME_MAX] = {0}, other[T_NAME_MAX] = {0};
	size_t len = sizeof one;
	struct end e = {0};
	struct fid_ep *ep;

	T_OK(open_end(&e, NULL, NULL, 0));
	T_OK(fi_getname(&e.ep->fid, one, &len));
	T_EQ(e.info->src_addrlen, len);
	memcpy(e.info->src_addr, one, len);
	T_OK(fi_endpoint(e.domain, e.info, &ep, NULL));
	T_OK(fi_getname(&ep->fid, other, &len));
	T_CHECK(memcmp(one, other, len), "two endpoints with one address");
	T_OK(fi_close(&ep->fid));
	close_end(&e);
}

static void nodes(void)
{
	struct fi_info *info, *same;
	char own[256] = "";

	gethostname(own, sizeof own - 1);
	T_OK(find(own, service(), 0, &info));
	T_OK(find("::1", service(), 0, &same));
	T_EQ(info->dest_addrlen, same->dest_addrlen);
	T_CHECK(!memcmp(info->dest_addr, same->dest_addr, info->dest_addrlen), "one node's names");
	fi_freeinfo(same);
	T_OK(find("localhost", "another", 0, &same));
	T_CHECK(memcmp(info->dest_addr, same->dest_addr, info->dest_addrlen), "two services");
	fi_freeinfo(same);
	fi_freeinfo(info);
	T_EQ(find("192.0.2.77", service(), 0, &info), -FI_ENODATA);
	T_EQ(find("no-such-host", service(), FI_SOURCE, &info), -FI_ENODATA);
	T_OK(find(NULL, NULL, 0, &info));
	T_CHECK(info->src_addr && info->src_addrlen && !info->dest_addr, "addresses of nobody");
	fi_freeinfo(info);
}

static const struct t_case cases[] = {
	{"name_meet", 2, meet, "a client that knows the server's node and service only", 0},
	{"name_taken", 1, taken, "two servers of one service", 0},
	{"name_left_over", 1, left_over, "an endpoint's address used for the next one", 0},
	{"name_nodes", 1, nodes, "which nodes are this one", 0},
};
const struct t_group group_name = T_GROUP("name", cases);
