/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * memlimit.c: how much memory the cgroups of this process leave it. At a cgroup's limit
 * the kernel doesn't refuse shared memory, it kills; so who needs some asks here
 * first. Reads /proc and /sys/fs/cgroup (version 2, or version 1's memory
 * hierarchy). No state; whoever grows a segment enters, on slow paths.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "transport/local/local.h"

struct version {
	const char *base, *limit, *usage, *inactive, *active;
};

static const struct version second = {"/sys/fs/cgroup", "memory.max", "memory.current",
				      "\ninactive_file ", "\nactive_file "};
static const struct version first = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
				     "memory.usage_in_bytes", "\ntotal_inactive_file ",
				     "\ntotal_active_file "};

/* UINT64_MAX: "max", or there is no such file. */
static uint64_t number(const struct version *v, const char *group, const char *file)
{
	char path[PATH_MAX + 128], text[64];

	snprintf(path, sizeof path, "%s%s/%s", v->base, group, file);
	if (bl_text_read(AT_FDCWD, path, text, sizeof text) <= 0 || text[0] < '0' || text[0] > '9')
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

/* Pages of files that are charged to the group go before anything else does. */
static uint64_t reclaimable(const struct version *v, const char *group)
{
	char path[PATH_MAX + 128], text[8192] = "\n";
	const char *at;
	uint64_t sum = 0;

	snprintf(path, sizeof path, "%s%s/memory.stat", v->base, group);
	if (bl_text_read(AT_FDCWD, path, text + 1, sizeof text - 1) <= 0)
		return 0;
	if ((at = strstr(text, v->inactive)))
		sum += strtoull(at + strlen(v->inactive), NULL, 10);
	if ((at = strstr(text, v->active)))
		sum += strtoull(at + strlen(v->active), NULL, 10);
	return sum;
}

static uint64_t room_in(const struct version *v, const char *group)
{
	uint64_t limit = number(v, group, v->limit), used, files;

	if (limit >= 1ull << 60) /* how version 1 says that there is none */
		return UINT64_MAX;
	used = number(v, group, v->usage);
	if (used == UINT64_MAX)
		return UINT64_MAX;
	files = reclaimable(v, group);
	used -= bl_min(files, used);
	return limit - bl_min(used, limit);
}

/* Our group in one line of /proc/self/cgroup, "ID:CONTROLLERS:PATH"; or NULL. */
static char *group_in(char *line, const struct version **v)
{
	char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

	if (!path)
		return NULL;
	*path++ = 0;
	if (!strncmp(line, "0:", 2) && !list[1]) {
		*v = &second;
		return path;
	}
	for (char *rest = NULL, *name = strtok_r(list + 1, ",", &rest); name;
	     name = strtok_r(NULL, ",", &rest))
		if (!strcmp(name, "memory")) {
			*v = &first;
			return path;
		}
	return NULL;
}

uint64_t bl_memlimit(void)
{
	char text[8192], *rest = NULL;
	uint64_t room = UINT64_MAX;

	if (bl_text_read(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) <= 0)
		return room;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const struct version *v = NULL;
		char *group = group_in(line, &v), *slash;

		if (!group || strlen(group) >= PATH_MAX)
			continue;
		/* Ours and all above. Where only a part of the tree is mounted, as in
		 * containers, the group that is its root is found last. */
		while ((slash = strrchr(group, '/'))) {
			uint64_t here = room_in(v, slash[1] ? group : "");

			room = bl_min(room, here);
			*slash = 0;
		}
		room = bl_min(room, room_in(v, ""));
	}
	return room;
}
