/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rebind.c: see rebind.h. What is read is what the dynamic linker has read: an object's program
 * headers, its dynamic section, the relocations named there.
 */
#include "base/rebind.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"

#if defined(__x86_64__) && defined(__LP64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOB_DAT  R_X86_64_GLOB_DAT
#elif defined(__aarch64__) && defined(__LP64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOB_DAT  R_AARCH64_GLOB_DAT
#endif

#ifdef JUMP_SLOT

#define WORDS_MOST 8 /* linkers make one of each kind */

struct rebind {
	uintptr_t inside;
	const char *name;
	bl_function was, by;
	const char *object;
	bl_function *word[WORDS_MOST];
	uint32_t n;
	int error;
};

struct object {
	const struct dl_phdr_info *info;
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Rela) * relas[2]; /* by DT_JMPREL and DT_RELA */
	size_t bytes[2];
};

/* --- what is loaded ---------------------------------------------------------------- */

/* The segment that it is loaded in; NULL: it lies elsewhere. */
static const ElfW(Phdr) * segment_of(const struct dl_phdr_info *info, uintptr_t at)
{
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && at - (info->dlpi_addr + ph->p_vaddr) < ph->p_memsz)
			return ph;
	}
	return NULL;
}

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *info)
{
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return NULL;
}

/* glibc writes addresses over what the file says, others leave it alone. */
static const void *address(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(segment_of(info, value) ? value : info->dlpi_addr + value);
}

static bool read_dynamic(const struct dl_phdr_info *info, struct object *o)
{
	bool by_rela = false;

	*o = (struct object){.info = info};
	for (const ElfW(Dyn) *d = dynamic_of(info); d && d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB:
			o->symbols = address(info, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			o->strings = address(info, d->d_un.d_ptr);
			break;
		case DT_JMPREL:
			o->relas[0] = address(info, d->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			o->bytes[0] = d->d_un.d_val;
			break;
		case DT_PLTREL:
			by_rela = d->d_un.d_val == DT_RELA;
			break;
		case DT_RELA:
			o->relas[1] = address(info, d->d_un.d_ptr);
			break;
		case DT_RELASZ:
			o->bytes[1] = d->d_un.d_val;
			break;
		default:
			break;
		}
	if (!by_rela)
		o->relas[0] = NULL;
	return o->symbols && o->strings;
}

/* --- a word ------------------------------------------------------------------------ */

/* A file's bytes, one by one, in no more memory than this: nothing here may allocate (rebind.h). */
struct reader {
	int fd;
	ssize_t n, at;
	char bytes[1024];
};

/* -1: the end. */
static int next(struct reader *r)
{
	if (r->at == r->n) {
		r->n = read(r->fd, r->bytes, sizeof r->bytes);
		r->at = 0;
	}
	return r->n > 0 ? (unsigned char)r->bytes[r->at++] : -1;
}

/* A number in hexadecimal, and what ends it. */
static uintptr_t number(struct reader *r, int *end)
{
	uintptr_t value = 0;

	while (isxdigit(*end = next(r)))
		value = value << 4 | (uintptr_t)(isdigit(*end) ? *end - '0' : *end - 'a' + 10);
	return value;
}

/* What the next mapping ("7f00-7f80 r-xp ...") may be used for, if it holds `at`; -1: there is no
 * further one. */
static int rights_in(struct reader *r, uintptr_t at, bool *here)
{
	int c, rights = 0;
	uintptr_t begin = number(r, &c), end = c == '-' ? number(r, &c) : 0;

	while ((c = next(r)) > ' ')
		rights |= c == 'r' ? PROT_READ : c == 'w' ? PROT_WRITE : c == 'x' ? PROT_EXEC : 0;
	while (c >= 0 && c != '\n')
		c = next(r);
	*here = at - begin < end - begin;
	return c < 0 ? -1 : rights;
}

/* What a page may be used for now: as it was loaded, or by whoever has changed that since. */
static int rights_of(uintptr_t at)
{
	struct reader r = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
	bool here = false;
	int rights = 0;

	if (r.fd < 0)
		return errno == ENOENT ? -EACCES : -errno;
	while (!here && rights >= 0)
		rights = rights_in(&r, at, &here);
	close(r.fd);
	return here && rights >= 0 ? rights : -EFAULT;
}

static int put(bl_function *word, bl_function by)
{
	uintptr_t size = (uintptr_t)getpagesize();
	void *page = (void *)((uintptr_t)word & ~(size - 1));
	int rights = rights_of((uintptr_t)word);
	bool sealed = !(rights & PROT_WRITE);

	if (rights < 0)
		return rights;
	if (sealed && mprotect(page, size, rights | PROT_WRITE))
		return -errno;
	__atomic_store_n(word, by, __ATOMIC_RELEASE);
	return sealed && mprotect(page, size, rights) ? -errno : 0;
}

/* --- those of an object ------------------------------------------------------------ */

/* By name; a function of the object's own isn't meant. */
static bool calls(const struct object *o, const ElfW(Rela) * rela, const char *name)
{
	const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(rela->r_info)];
	ElfW(Xword) type = ELF64_R_TYPE(rela->r_info);

	return (type == JUMP_SLOT || type == GLOB_DAT) && symbol->st_shndx == SHN_UNDEF &&
	       !strcmp(o->strings + symbol->st_name, name);
}

/* 1: to be changed, or as it shall be; 0: it is none. */
static int collect(const struct object *o, struct rebind *r, uintptr_t at)
{
	bl_function *word = (bl_function *)at, now;

	if (!segment_of(o->info, at) || at % sizeof *word)
		return 0;
	now = __atomic_load_n(word, __ATOMIC_RELAXED);
	/* One that hasn't been bound yet leads back into its own object. */
	if (now != r->by && now != r->was && !segment_of(o->info, (uintptr_t)now))
		return -EBUSY;
	if (r->n == WORDS_MOST)
		return -E2BIG;
	r->word[r->n++] = word;
	return 1;
}

static int collect_all(const struct object *o, struct rebind *r)
{
	for (size_t t = 0; t < bl_countof(o->relas); t++)
		for (size_t i = 0; o->relas[t] && i < o->bytes[t] / sizeof(ElfW(Rela)); i++) {
			const ElfW(Rela) *rela = &o->relas[t][i];
			int ret = calls(o, rela, r->name)
					  ? collect(o, r, o->info->dlpi_addr + rela->r_offset)
					  : 0;

			if (ret < 0)
				return ret;
		}
	return 0;
}

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct rebind *r = arg;
	struct object o;

	(void)size;
	if (!segment_of(info, r->inside))
		return 0;
	r->object = info->dlpi_name ? info->dlpi_name : "";
	if (segment_of(info, (uintptr_t)r->was) || segment_of(info, (uintptr_t)r->by))
		r->error = -EINVAL;
	else
		r->error = read_dynamic(info, &o) ? collect_all(&o, r) : 0;
	return 1;
}

/* Outside the linker's lock: its caller runs in that object, which stays. */
static int change_all(const struct rebind *r)
{
	/* Of two, the first to seal a page would do so before the second has written to it. */
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int err = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < r->n && !err; i++)
		if (__atomic_load_n(r->word[i], __ATOMIC_RELAXED) != r->by)
			err = put(r->word[i], r->by);
	pthread_mutex_unlock(&lock);
	return err;
}

int bl_rebind(const void *inside, const char *name, bl_function was, bl_function by,
	      const char **object)
{
	struct rebind r = {
		.inside = (uintptr_t)inside, .name = name, .was = was, .by = by, .error = -ENOENT};

	dl_iterate_phdr(look, &r);
	if (!r.error)
		r.error = change_all(&r);
	if (object)
		*object = r.object;
	return r.error ? r.error : (int)r.n;
}

#else

int bl_rebind(const void *inside, const char *name, bl_function was, bl_function by,
	      const char **object)
{
	(void)inside;
	(void)name;
	(void)was;
	(void)by;
	(void)object;
	return -ENOSYS;
}

#endif
