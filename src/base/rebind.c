/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rebind.c: see rebind.h. What is read is what the dynamic linker has read: an object's program
 * headers, its dynamic section, the relocations named there. Under the linker's own lock
 * (dl_iterate_phdr), so that the object can't go meanwhile.
 */
#include "base/rebind.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"

#if defined(__x86_64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOB_DAT  R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOB_DAT  R_AARCH64_GLOB_DAT
#endif

#ifdef JUMP_SLOT

struct rebind {
	uintptr_t inside;
	const char *name;
	void (*by)(void);
	int result;
};

struct object {
	const struct dl_phdr_info *info;
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Rela) * relas[2]; /* by DT_JMPREL and DT_RELA */
	size_t bytes[2];
};

static bool holds(const struct dl_phdr_info *info, const ElfW(Phdr) * ph, uintptr_t at)
{
	return at - (info->dlpi_addr + ph->p_vaddr) < ph->p_memsz;
}

/* The first header of this type; NULL: none. */
static const ElfW(Phdr) * header_of(const struct dl_phdr_info *info, ElfW(Word) type)
{
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == type)
			return &info->dlpi_phdr[i];
	return NULL;
}

/* The segment that it is loaded in. */
static const ElfW(Phdr) * segment_of(const struct dl_phdr_info *info, uintptr_t at)
{
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && holds(info, &info->dlpi_phdr[i], at))
			return &info->dlpi_phdr[i];
	return NULL;
}

/* glibc writes addresses over what the file says, others leave it alone. */
static const void *address(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

static bool read_dynamic(const struct dl_phdr_info *info, struct object *o)
{
	const ElfW(Phdr) *ph = header_of(info, PT_DYNAMIC);
	const ElfW(Dyn) *d = ph ? (const void *)(info->dlpi_addr + ph->p_vaddr) : NULL;
	bool by_rela = false;

	*o = (struct object){.info = info};
	for (; d && d->d_tag != DT_NULL; d++)
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

/* What was made read-only once the linker was done (RELRO), whole pages. */
static bool is_sealed(const struct dl_phdr_info *info, uintptr_t at)
{
	const ElfW(Phdr) *ph = header_of(info, PT_GNU_RELRO);
	uintptr_t page = (uintptr_t)getpagesize();

	return ph && holds(info, ph, at) &&
	       at < ((info->dlpi_addr + ph->p_vaddr + ph->p_memsz) & ~(page - 1));
}

static int put(const struct object *o, uintptr_t at, void (*by)(void))
{
	const ElfW(Phdr) *segment = segment_of(o->info, at);
	uintptr_t size = (uintptr_t)getpagesize();
	void *page = (void *)(at & ~(size - 1));
	bool sealed = is_sealed(o->info, at);

	if (!segment || !(segment->p_flags & PF_W) || at % sizeof by)
		return 0;
	if (sealed && mprotect(page, size, PROT_READ | PROT_WRITE))
		return -errno;
	__atomic_store_n((void (**)(void))at, by, __ATOMIC_RELEASE);
	if (sealed)
		mprotect(page, size, PROT_READ);
	return 1;
}

static bool calls(const struct object *o, const ElfW(Rela) * rela, const char *name)
{
	ElfW(Xword) type = ELF64_R_TYPE(rela->r_info);

	return (type == JUMP_SLOT || type == GLOB_DAT) &&
	       !strcmp(o->strings + o->symbols[ELF64_R_SYM(rela->r_info)].st_name, name);
}

static int rebind_object(const struct object *o, const struct rebind *r)
{
	int n = 0;

	for (size_t t = 0; t < bl_countof(o->relas); t++)
		for (size_t i = 0; o->relas[t] && i < o->bytes[t] / sizeof(ElfW(Rela)); i++) {
			const ElfW(Rela) *rela = &o->relas[t][i];
			int ret;

			if (!calls(o, rela, r->name))
				continue;
			ret = put(o, o->info->dlpi_addr + rela->r_offset, r->by);
			if (ret < 0)
				return ret;
			n += ret;
		}
	return n;
}

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct rebind *r = arg;
	struct object o;

	(void)size;
	if (!segment_of(info, r->inside))
		return 0;
	r->result = read_dynamic(info, &o) ? rebind_object(&o, r) : 0;
	return 1;
}

int bl_rebind(const void *inside, const char *name, void (*by)(void))
{
	struct rebind r = {(uintptr_t)inside, name, by, -ENOENT};

	dl_iterate_phdr(look, &r);
	return r.result;
}

#else

int bl_rebind(const void *inside, const char *name, void (*by)(void))
{
	(void)inside;
	(void)name;
	(void)by;
	return -ENOSYS;
}

#endif
