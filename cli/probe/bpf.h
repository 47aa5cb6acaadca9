/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * bpf.h: what `beeline doctor` tries of BPF. Each returns 0 or an errno, and leaves nothing
 * that outlives the process.
 */
#ifndef BL_PROBE_BPF_H
#define BL_PROBE_BPF_H

/* Memory that programs in the kernel fill and this process maps. */
int try_bpf_memory(void);
/* A program that is given what arrives on sockets, attached to a set of none. */
int try_bpf_receive(void);
/* One that also reads the kernel's own record of a connection. */
int try_bpf_read(void);

#endif
