/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * unload.c: a program that isn't linked to libfabric, as a plug-in's host, loads it, uses
 * the provider, and unloads it: libfabric's code is gone then, which /proc/self/maps shows,
 * and the provider's is not (nodelete): its service thread lives on with an endpoint that
 * nobody closed, answers callers and logs. By its own: no harness, which is linked.
 */
#include <dlfcn.h>
#include <errno.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct loaded {
	void *library;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	fi_addr_t self;
	unsigned char name[FI_NAME_MAX];
	void (*freeinfo)(struct fi_info *info);
};

static int mappings(const char *of)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, of) != NULL;
	fclose(f);
	return n;
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	CHECK(found);
	return found;
}

/* Load libfabric and open an endpoint. */
static void load(struct loaded *l)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	size_t length = sizeof(l->name);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
		       struct fi_info **);
	int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
	struct fi_info *hints;

	memset(l, 0, sizeof(*l));
	CHECK(!mappings("libfabric.so"));
	l->library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	CHECK(l->library && mappings("libfabric.so"));
	*(void **)&dupinfo = symbol(l->library, "fi_dupinfo");
	*(void **)&getinfo = symbol(l->library, "fi_getinfo");
	*(void **)&fabric = symbol(l->library, "fi_fabric");
	*(void **)&l->freeinfo = symbol(l->library, "fi_freeinfo");
	hints = dupinfo(NULL);
	CHECK(hints);
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup("beeline");
	CHECK(!getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &l->info));
	l->freeinfo(hints);
	CHECK(!fabric(l->info->fabric_attr, &l->fabric, NULL));
	CHECK(!fi_domain(l->fabric, l->info, &l->domain, NULL));
	CHECK(!fi_endpoint(l->domain, l->info, &l->ep, NULL));
	CHECK(!fi_av_open(l->domain, &av_attr, &l->av, NULL));
	CHECK(!fi_cq_open(l->domain, &cq_attr, &l->cq, NULL));
	CHECK(!fi_ep_bind(l->ep, &l->av->fid, 0));
	CHECK(!fi_ep_bind(l->ep, &l->cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(!fi_enable(l->ep));
	CHECK(!fi_getname(&l->ep->fid, l->name, &length));
	CHECK(fi_av_insert(l->av, l->name, 1, &l->self, 0, NULL) == 1);
}

/* One message to itself. */
static void use(struct loaded *l)
{
	time_t late = time(NULL) + 20;
	uint64_t in = 0, out = 4711;
	struct fi_cq_tagged_entry entry;
	struct fi_context2 context;
	ssize_t n;

	CHECK(!fi_trecv(l->ep, &in, sizeof(in), NULL, l->self, 1, 0, &context));
	while ((n = fi_tinject(l->ep, &out, sizeof(out), l->self, 1)) == -FI_EAGAIN) {
		fi_cq_read(l->cq, NULL, 0);
		CHECK(time(NULL) < late);
	}
	CHECK(!n);
	while ((n = fi_cq_read(l->cq, &entry, 1)) == -FI_EAGAIN)
		CHECK(time(NULL) < late);
	CHECK(n == 1 && in == 4711);
}

static void close_all(struct loaded *l)
{
	CHECK(!fi_close(&l->ep->fid));
	CHECK(!fi_close(&l->cq->fid));
	CHECK(!fi_close(&l->av->fid));
	CHECK(!fi_close(&l->domain->fid));
	CHECK(!fi_close(&l->fabric->fid));
	l->freeinfo(l->info);
}

static void unload(struct loaded *l)
{
	CHECK(!dlclose(l->library));
	CHECK(!mappings("libfabric.so"));
	CHECK(mappings("libbeeline-fi.so"));
}

/* Call the endpoint and say nonsense; its service thread must hang up. The id is
 * behind the first eight bytes of an address: src/core/addr.h. */
static void call(const unsigned char *address)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), n;
	struct timeval patience = {20, 0};
	char byte;

	n = sprintf(name.sun_path + 1, "beeline-");
	for (int i = 0; i < 16; i++)
		n += sprintf(name.sun_path + 1 + n, "%02x", address[8 + i]);
	CHECK(fd >= 0);
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));
	CHECK(!connect(fd, (struct sockaddr *)&name,
		       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)));
	CHECK(send(fd, "nonsense", 8, MSG_NOSIGNAL) == 8);
	n = (int)recv(fd, &byte, 1, 0);
	CHECK(n == 0 || (n < 0 && errno == ECONNRESET));
	close(fd);
}

int main(void)
{
	struct loaded l;

	for (int i = 0; i < 2; i++) { /* it can be loaded again */
		load(&l);
		use(&l);
		close_all(&l);
		unload(&l);
	}
	load(&l);
	use(&l);
	unload(&l); /* with all open */
	call(l.name);
	use(&l); /* the provider's part needs nothing of libfabric's */
	load(&l);
	use(&l);
	close_all(&l);
	unload(&l);
	return 0;
}
