/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * segment.c: an endpoint's shared memory. A memfd: nothing in the file system,
 * gone with the last process that maps it. Sealed against shrinking, its pages
 * reserved before they are mapped: no neighbour and no full machine can turn an
 * access into a SIGBUS. The owner's lanes are added by the owner or its service
 * thread, under bl_local.lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/knobs.h"
#include "base/log.h"
#include "local/local.h"
#include "place/place.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SPARE	   (1u << 20)  /* of a cgroup's memory isn't ours to take */
#define GRANT_MOST (16u << 20) /* bytes between two looks at it */

static int make_memfd(void)
{
	int fd = memfd_create("beeline", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create("beeline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

static bl_cold void no_memfd(int err)
{
	bl_warn("memfd_create: %s; %s", strerror(-err), bl_remedy(-err));
}

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* fallocate() beyond the limit of file sizes, which counts memfds too, doesn't just
 * fail: it raises SIGXFSZ, which ends the program. */
static bool fits_file_limit(size_t size)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	       size <= limit.rlim_cur;
}

/* At a cgroup's limit the kernel would rather kill than refuse. Neighbours in the
 * cgroup ask as well, at the same time: so nobody takes the last. */
static bool leaves_room(struct bl_segment *seg, size_t by)
{
	uint64_t room;

	if (seg->granted >= by) {
		seg->granted -= by;
		return true;
	}
	room = bl_room();
	if (room < by + SPARE) {
		bl_warn("no %zu KiB of shared memory: only %zu KiB are left below the memory limit "
			"of this job; raise it (memory.max of the cgroup)",
			by / 1024, (size_t)room / 1024);
		return false;
	}
	seg->granted = bl_min((room - by - SPARE) / 64, (uint64_t)GRANT_MOST);
	return true;
}

static int grow(struct bl_segment *seg, size_t by)
{
	int err;

	if (!fits_file_limit(seg->size + by)) {
		bl_warn("no %zu KiB of shared memory: raise the limit of file sizes (ulimit -f)",
			(seg->size + by) / 1024);
		return -EFBIG;
	}
	if (!leaves_room(seg, by))
		return -ENOMEM;
	do /* any signal of the process interrupts it, a profiler's too */
		err = fallocate(seg->fd, 0, (off_t)seg->size, (off_t)by) ? -errno : 0;
	while (err == -EINTR);
	if (err) {
		bl_warn("no %zu KiB of shared memory: fallocate: %s; %s", by / 1024, strerror(-err),
			err == -ENOMEM || err == -ENOSPC
				? "raise the memory limit of this job (memory.max of the cgroup), "
				  "or free memory"
				: bl_remedy(-err));
		return err;
	}
	seg->size += by;
	return 0;
}

/* It can't become smaller: whoever maps it meets no SIGBUS. */
static int seal(int fd)
{
	int err = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) ? -errno : 0;

	if (err)
		bl_warn("shared memory can't be sealed: fcntl: %s; %s", strerror(-err),
			bl_remedy(-err));
	return err;
}

static void *map(int fd, size_t at, size_t len, void *where)
{
	void *p = mmap(where, len, PROT_READ | PROT_WRITE, MAP_SHARED | (where ? MAP_FIXED : 0), fd,
		       (off_t)at);

	if (p != MAP_FAILED)
		return p;
	bl_warn("no %zu KiB of address space: %s; raise its limit (ulimit -v)", len / 1024,
		strerror(errno));
	return NULL;
}

/*
 * The header is mapped right behind a private page, whose end the service thread
 * uses to register the life futex with the kernel at a fixed distance. Pages may be
 * larger than the header: then only the beginning of its page is used.
 */
static int map_header(struct bl_segment *seg)
{
	size_t page = page_size();
	char *both =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (both == MAP_FAILED) {
		bl_warn("no %zu KiB of address space: %s; raise its limit (ulimit -v)",
			2 * page / 1024, strerror(errno));
		return -ENOMEM;
	}
	seg->private_page = both;
	seg->life_page = both + page - BL_SEG_HEADER;
	seg->header = map(seg->fd, 0, BL_SEG_HEADER, both + page);
	if (!seg->header)
		return -ENOMEM; /* the caller unmaps both */
	/* A forked child has neither the thread nor the right to touch these. */
	madvise(both, 2 * page, MADV_DONTFORK);
	return bl_place_populate(seg->header, BL_SEG_HEADER, seg->node);
}

int bl_segment_open(struct bl_segment *seg, const struct bl_addr *addr)
{
	int err;

	memset(seg, 0, sizeof *seg);
	seg->node = bl_knobs()->numa ? -1 : bl_place_node();
	seg->fd = make_memfd();
	if (seg->fd < 0) {
		no_memfd(seg->fd);
		return seg->fd;
	}
	err = grow(seg, BL_SEG_HEADER);
	if (err)
		goto close_fd;
	err = seal(seg->fd);
	if (err)
		goto close_fd;
	err = map_header(seg);
	if (err)
		goto close_fd;
	seg->header->magic = BL_SEG_MAGIC;
	seg->header->version = BL_SEG_VERSION;
	seg->header->flags = bl_service_membarrier() ? 0 : BL_SEG_NO_MEMBARRIER;
	memcpy(seg->header->id, addr->id, sizeof addr->id);
	return 0;

close_fd:
	if (seg->private_page)
		munmap(seg->private_page, 2 * page_size());
	close(seg->fd);
	memset(seg, 0, sizeof *seg);
	seg->fd = -1;
	return err;
}

void bl_segment_close(struct bl_segment *seg)
{
	if (seg->fd < 0)
		return;
	munmap(seg->private_page, 2 * page_size());
	close(seg->fd);
	seg->fd = -1;
	seg->private_page = seg->life_page = NULL;
	seg->header = NULL; /* after a failed enable the endpoint lives on without */
}

int bl_segment_add_lane(struct bl_segment *seg, uint64_t *at, struct bl_lane **lane)
{
	size_t place = bl_round_up(seg->size, BL_LANE_SIZE);
	int err = grow(seg, place + BL_LANE_SIZE - seg->size);

	if (err)
		return err;
	*lane = map(seg->fd, place, BL_LANE_SIZE, NULL);
	if (!*lane)
		return -ENOMEM;
	madvise(*lane, BL_LANE_SIZE, MADV_DONTFORK);
	err = bl_place_populate(*lane, BL_LANE_SIZE, seg->node);
	if (err) {
		munmap(*lane, BL_LANE_SIZE);
		return err;
	}
	*at = place;
	return 0;
}

int bl_segment_map_peer(int fd, uint64_t at, struct bl_seg_header **header, struct bl_lane **lane)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	/* A file that could shrink under us would be a SIGBUS to come. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st))
		return -EPROTO;
	if (at % BL_LANE_SIZE || !at || st.st_size < BL_SEG_HEADER ||
	    at > (uint64_t)st.st_size - BL_LANE_SIZE || (uint64_t)st.st_size < BL_LANE_SIZE)
		return -EPROTO;
	*header = map(fd, 0, BL_SEG_HEADER, NULL);
	if (!*header)
		return -ENOMEM;
	*lane = map(fd, at, BL_LANE_SIZE, NULL);
	if (!*lane) {
		munmap(*header, BL_SEG_HEADER);
		return -ENOMEM;
	}
	madvise(*header, BL_SEG_HEADER, MADV_DONTFORK);
	madvise(*lane, BL_LANE_SIZE, MADV_DONTFORK);
	if ((*header)->magic != BL_SEG_MAGIC || (*header)->version != BL_SEG_VERSION) {
		bl_segment_unmap(*header, *lane);
		return -EPROTONOSUPPORT;
	}
	return 0;
}

void bl_segment_unmap(struct bl_seg_header *header, struct bl_lane *lane)
{
	if (header)
		munmap(header, BL_SEG_HEADER);
	if (lane)
		munmap(lane, BL_LANE_SIZE);
}

/* --- a page by itself ------------------------------------------------------ */

int bl_segment_page(size_t size, void **page)
{
	struct bl_segment seg = {.fd = make_memfd()};
	int err;

	if (seg.fd < 0) {
		no_memfd(seg.fd);
		return seg.fd;
	}
	err = grow(&seg, size);
	if (!err)
		err = seal(seg.fd);
	*page = err ? NULL : map(seg.fd, 0, size, NULL);
	if (*page) {
		madvise(*page, size, MADV_DONTFORK);
		return seg.fd;
	}
	close(seg.fd);
	return err ? err : -ENOMEM;
}

void *bl_segment_map_page(int fd, size_t size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *page;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size < (off_t)size)
		return NULL;
	page = map(fd, 0, size, NULL);
	if (page)
		madvise(page, size, MADV_DONTFORK);
	return page;
}
