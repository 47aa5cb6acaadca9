/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * segment.c: the memory that an endpoint shares. Memfds: nothing in the file system,
 * gone with the last process that maps them. Sealed against shrinking, their pages
 * reserved before they are used (a lane's tail when it is made longer): no neighbour and no
 * full machine can turn an access into a SIGBUS. What the owner alone may write is sealed against
 * every new writer too, after it is mapped here; what belongs to a pair is a memfd of its own,
 * whose descriptor is closed once the neighbour has been sent it. Under bl_local.lock,
 * but for opening and closing, and for making a lane longer and the reverse, which its owner does.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "transport/local/link/atomics_page.h"
#include "transport/local/local.h"
#include "place/place.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef TMPFS_MAGIC
#define TMPFS_MAGIC 0x01021994
#endif

#define STRETCHERS 64	       /* at the least: as many as there are processors */
#define SPARE	   (1u << 20)  /* of a cgroup's memory isn't ours to take */
#define GRANT_MOST (16u << 20) /* bytes between two looks at it ... */
#define GRANT_NS   1000000u    /* ... and time: the program takes memory as well */

static int make_memfd(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
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

static int check_file_limit(size_t size)
{
	if (fits_file_limit(size))
		return 0;
	bl_warn("no %zu KiB of shared memory: raise the limit of file sizes (ulimit -f)",
		size / 1024);
	return -EFBIG;
}

/* At a cgroup's limit the kernel would rather kill than refuse. Neighbours in the
 * cgroup ask as well, at the same time: so nobody takes the last. */
static bool leaves_room(struct bl_segment *seg, size_t by)
{
	uint64_t room, now = bl_clock_ns();

	if (seg->granted >= by && now - seg->granted_at < GRANT_NS) {
		seg->granted -= by;
		return true;
	}
	room = bl_memlimit();
	if (room < by + SPARE) {
		bl_warn("no %zu KiB of shared memory: only %zu KiB are left below the memory limit "
			"of this job; raise it (memory.max of the cgroup)",
			by / 1024, (size_t)room / 1024);
		return false;
	}
	seg->granted = bl_min((room - by - SPARE) / 64, (uint64_t)GRANT_MOST);
	seg->granted_at = now;
	return true;
}

/* Pages for [at, at + by) of the file. */
static int reserve(struct bl_segment *seg, int fd, size_t at, size_t by)
{
	int err = check_file_limit(at + by);

	if (err)
		return err;
	if (!leaves_room(seg, by))
		return -ENOMEM;
	do /* any signal of the process interrupts it, a profiler's too */
		err = fallocate(fd, 0, (off_t)at, (off_t)by) ? -errno : 0;
	while (err == -EINTR);
	if (err)
		bl_warn("no %zu KiB of shared memory: fallocate: %s; %s", by / 1024, strerror(-err),
			err == -ENOMEM || err == -ENOSPC
				? "raise the memory limit of this job (memory.max of the cgroup), "
				  "or free memory"
				: bl_remedy(-err));
	return err;
}

/* It can't become smaller: whoever maps it meets no SIGBUS. Nor can anybody who is given
 * it change what it is sealed against. */
static int seal(int fd, int more)
{
	int err = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL | more) ? -errno : 0;

	if (err == -EINVAL && more == F_SEAL_FUTURE_WRITE) { /* before Linux 5.1 */
		bl_info("this kernel can't keep neighbours from writing to a memfd that they read");
		err = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) ? -errno : 0;
	}
	if (err)
		bl_warn("shared memory can't be sealed: fcntl: %s; %s", strerror(-err),
			bl_remedy(-err));
	return err;
}

static void *map(int fd, size_t len, int prot, void *where)
{
	void *p = mmap(where, len, prot, MAP_SHARED | (where ? MAP_FIXED : 0), fd, 0);

	if (p != MAP_FAILED)
		return p;
	bl_warn("no %zu KiB of address space: %s; raise its limit (ulimit -v)", len / 1024,
		strerror(errno));
	return NULL;
}

/* --- ours -------------------------------------------------------------------- */

/* The file has this size, and may have no page. */
static int set_size(int fd, size_t size)
{
	int err = check_file_limit(size);

	if (err || !ftruncate(fd, (off_t)size))
		return err;
	err = -errno;
	bl_warn("no %zu KiB of shared memory: ftruncate: %s; %s", size / 1024, strerror(-err),
		bl_remedy(-err));
	return err;
}

/* A memfd of `most` bytes by itself, mapped, of which the first `size` are there; its descriptor
 * or -errno, logged. can_wait: but for want of a descriptor, which the caller takes care of. */
static int make(struct bl_segment *seg, const char *name, size_t size, size_t most, bool can_wait,
		void **memory)
{
	int fd = make_memfd(name), err;

	*memory = NULL;
	if (fd < 0) {
		if (!can_wait || (fd != -EMFILE && fd != -ENFILE))
			no_memfd(fd);
		return fd;
	}
	*memory = map(fd, most, PROT_READ | PROT_WRITE, NULL);
	err = *memory ? set_size(fd, most) : -ENOMEM;
	if (!err) {
		bl_place_prefer(*memory, most, seg->node); /* whoever brings the pages */
		err = reserve(seg, fd, 0, size);
	}
	if (!err)
		err = seal(fd, F_SEAL_GROW);
	if (!err)
		err = bl_place_populate(*memory, size, seg->node);
	if (!err) {
		madvise(*memory, most, MADV_DONTFORK);
		return fd;
	}
	if (*memory)
		munmap(*memory, most);
	*memory = NULL;
	close(fd);
	return err;
}

/* The page before the header, the header, and what is shown of each neighbour. */
static size_t header_span(void)
{
	return page_size() +
	       bl_round_up(BL_SEG_HEADER + BL_DOORBELLS * sizeof(struct bl_lane_stats),
			   page_size());
}

/*
 * The header is mapped right behind a private page, whose end the service thread
 * uses to register the life futex with the kernel at a fixed distance. Pages may be
 * larger than the header: then only the beginning of its page is used. What follows it
 * is mapped for all the neighbours that there may be, and has pages for those that
 * there are.
 */
static int map_header(struct bl_segment *seg)
{
	size_t page = page_size(), span = header_span();
	char *all = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED) {
		bl_warn("no %zu KiB of address space: %s; raise its limit (ulimit -v)", span / 1024,
			strerror(errno));
		return -ENOMEM;
	}
	seg->private_page = all;
	seg->life_page = all + page - BL_SEG_HEADER;
	seg->header = map(seg->fd, span - page, PROT_READ | PROT_WRITE, all + page);
	if (!seg->header)
		return -ENOMEM; /* the caller unmaps it */
	seg->shown = (void *)(seg->header + 1);
	/* A forked child has neither the thread nor the right to touch these. */
	madvise(all, span, MADV_DONTFORK);
	bl_place_prefer(seg->header, span - page, seg->node); /* whoever brings the pages */
	return 0;
}

static int open_header(struct bl_segment *seg)
{
	int err;

	seg->fd = make_memfd("beeline");
	if (seg->fd < 0) {
		no_memfd(seg->fd);
		return seg->fd;
	}
	err = map_header(seg);
	if (!err)
		err = reserve(seg, seg->fd, 0, BL_SEG_HEADER);
	if (!err)
		err = bl_place_populate(seg->header, BL_SEG_HEADER, seg->node);
	seg->size = BL_SEG_HEADER;
	/* No mapping from now on can write there; ours can. */
	return err ? err : seal(seg->fd, F_SEAL_FUTURE_WRITE);
}

int bl_segment_open(struct bl_segment *seg, const struct bl_addr *addr)
{
	void *doorbells;
	int err;

	memset(seg, 0, sizeof *seg);
	seg->doorbells_fd = -1;
	seg->node = bl_knobs()->numa ? -1 : bl_place_node();
	seg->lane_span = bl_longring_span();
	seg->lane_enough = bl_longring_enough();
	if (!fits_file_limit(seg->lane_span))
		seg->lane_span = fits_file_limit(BL_LANE_LONG) ? BL_LANE_LONG : BL_LANE_SIZE;
	err = open_header(seg);
	if (err)
		goto close_all;
	seg->doorbells_fd = make(seg, "beeline-doorbells", BL_DOORBELLS_SIZE, BL_DOORBELLS_SIZE,
				 false, &doorbells);
	if (seg->doorbells_fd < 0) {
		err = seg->doorbells_fd;
		goto close_all;
	}
	seg->doorbells = doorbells;
	seg->header->magic = BL_SEG_MAGIC;
	seg->header->version = BL_SEG_VERSION;
	seg->header->flags = bl_service_membarrier() ? 0 : BL_SEG_NO_MEMBARRIER;
	memcpy(seg->header->id, addr->id, sizeof addr->id);
	seg->header->secret_at = bl_atomics_page_secret_at();
	return 0;

close_all:
	bl_segment_close(seg);
	return err;
}

void bl_segment_close(struct bl_segment *seg)
{
	if (seg->private_page)
		munmap(seg->private_page, header_span());
	if (seg->doorbells)
		munmap(seg->doorbells, BL_DOORBELLS_SIZE);
	if (seg->fd >= 0)
		close(seg->fd);
	if (seg->doorbells_fd >= 0)
		close(seg->doorbells_fd);
	/* After a failed enable the endpoint lives on without. */
	memset(seg, 0, sizeof *seg);
	seg->fd = seg->doorbells_fd = -1;
}

int bl_segment_show(struct bl_segment *seg, uint32_t index, struct bl_lane_stats **stats)
{
	size_t page = page_size(), end = BL_SEG_HEADER + (index + 1) * sizeof **stats, by;
	int err;

	if (end > seg->size) {
		by = bl_round_up(end, page) - seg->size;
		err = reserve(seg, seg->fd, seg->size, by);
		if (!err)
			err = bl_place_populate((char *)seg->header + seg->size, by, seg->node);
		if (err)
			return err;
		seg->size += by;
	}
	*stats = &seg->shown[index];
	memset(*stats, 0, sizeof **stats);
	return 0;
}

/* A core dump would bring the pages that it hasn't. */
static void leave_out_of_dumps(void *lane, size_t span)
{
	if (span > BL_LANE_SIZE)
		madvise((char *)lane + BL_LANE_SIZE, span - BL_LANE_SIZE, MADV_DONTDUMP);
}

int bl_lane_make(struct bl_segment *seg, struct bl_link *link)
{
	void *memory;
	int fd = make(seg, "beeline-lane", BL_LANE_SIZE, seg->lane_span, true, &memory);

	link->ours = memory;
	link->ours_span = seg->lane_span;
	if (memory)
		leave_out_of_dumps(memory, seg->lane_span);
	return fd;
}

/* Nobody needs it: so it is taken only where as many as there may be can have it, for all of them
 * ask in the same collective operation. */
int bl_lane_lengthen(const struct bl_segment *seg, struct bl_lane *lane, size_t from, size_t size)
{
	size_t tail = size - from;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	int err;

	if (bl_memlimit() < SPARE + (uint64_t)(cpus > STRETCHERS ? cpus : STRETCHERS) * tail)
		return -ENOMEM;
	err = bl_place_more((char *)lane + from, tail, seg->node);
	if (err)
		bl_lane_shrink(lane, from, size); /* it may have had some of them */
	return err;
}

void bl_lane_shrink(struct bl_lane *lane, size_t to, size_t span)
{
	if (span > to)
		madvise((char *)lane + to, span - to, MADV_REMOVE);
}

void bl_lane_unmap(struct bl_lane *lane, size_t span)
{
	if (lane)
		munmap(lane, span);
}

void bl_lane_drop(struct bl_lane *lane, size_t span)
{
	if (lane)
		madvise(lane, span, MADV_REMOVE);
	bl_lane_unmap(lane, span);
}

int bl_segment_page(size_t size, void **page)
{
	struct bl_segment seg = {.node = -1};

	return make(&seg, "beeline-atomics_page", size, size, false, page);
}

/* --- a neighbour's ------------------------------------------------------------- */

/* A file that could shrink under us would be a SIGBUS to come; so would one of huge pages,
 * which may be out of them. A lane that isn't stretched has no pages in its tail, where an honest
 * sender names no place. What another can still do is to take pages away, which the kernel
 * gives anew, and refuses only where no memory is left for anybody.
 *
 * Maps `size` bytes. With a span, where the file is longer, as much of it as is `size` times a
 * power of two and at most *span, and *span says how much that is. */
static int map_theirs(int fd, size_t size, size_t *span, int prot, void **memory)
{
	struct statfs fs;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	*memory = NULL;
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size < (off_t)size ||
	    fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC)
		return -EPROTO;
	for (; span && size < *span && st.st_size >= (off_t)(2 * size); size *= 2)
		;
	if (span)
		*span = size;
	if (prot & PROT_WRITE && seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return -EPROTO;
	*memory = map(fd, size, prot, NULL);
	if (!*memory)
		return -ENOMEM;
	madvise(*memory, size, MADV_DONTFORK);
	return 0;
}

void *bl_segment_map_page(int fd, size_t size)
{
	void *memory;

	return map_theirs(fd, size, NULL, PROT_READ | PROT_WRITE, &memory) ? NULL : memory;
}

int bl_link_map(struct bl_link *link, const int fd[BL_FDS])
{
	void *header, *doorbells, *theirs;
	int err = map_theirs(fd[BL_FD_HEADER], BL_SEG_HEADER, NULL, PROT_READ, &header);

	link->header = header;
	if (!err)
		err = map_theirs(fd[BL_FD_DOORBELLS], BL_DOORBELLS_SIZE, NULL,
				 PROT_READ | PROT_WRITE, &doorbells);
	if (err)
		return err;
	link->doorbells = doorbells;
	link->theirs_span = BL_LANE_MOST;
	err = map_theirs(fd[BL_FD_LANE], BL_LANE_SIZE, &link->theirs_span, PROT_READ | PROT_WRITE,
			 &theirs);
	if (err)
		return err;
	link->theirs = theirs;
	leave_out_of_dumps(theirs, link->theirs_span);
	if (link->header->magic != BL_SEG_MAGIC || link->header->version != BL_SEG_VERSION)
		return -EPROTONOSUPPORT;
	return 0;
}

void bl_link_unmap(struct bl_link *link)
{
	if (link->header)
		munmap((void *)(uintptr_t)link->header, BL_SEG_HEADER);
	if (link->doorbells)
		munmap(link->doorbells, BL_DOORBELLS_SIZE);
	bl_lane_unmap(link->ours, link->ours_span);
	bl_lane_unmap(link->theirs, link->theirs_span);
	memset(link, 0, sizeof *link);
}
