/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * report.h: what an MPI benchmark says of itself before it measures, so that a
 * reader can tell what was measured. After <mpi.h> and bench.h.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

/* Says on which processors the ranks may run and which libfabric providers were
 * loaded from files, so that a reader can tell what was measured. */
static void report_placement(int rank)
{
	char mine[64] = "", (*all)[64] = NULL;
	cpu_set_t set;
	int ranks;

	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (rank == 0)
		all = (void *)bench_alloc((size_t)ranks * sizeof(*all), 0);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		snprintf(mine, sizeof(mine), "%d %d", sched_getcpu(), CPU_COUNT(&set));
	MPI_Gather(mine, sizeof(mine), MPI_CHAR, all, sizeof(mine), MPI_CHAR, 0, MPI_COMM_WORLD);
	for (int i = 0; rank == 0 && i < ranks; i++)
		printf("placement %d %s\n", i, all[i]);
	free(all);
}

static void report_providers(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char text[512], last[512] = "";

	while (maps && fgets(text, sizeof(text), maps)) {
		char *path = strchr(text, '/');

		text[strcspn(text, "\n")] = 0;
		if (path && strstr(path, "-fi.so") && strcmp(path, last)) {
			snprintf(last, sizeof(last), "%s", path);
			printf("provider %s\n", path);
		}
	}
	if (maps)
		fclose(maps);
}

/* Every rank calls it. */
static void report_all(int rank)
{
	if (rank == 0) {
		char version[MPI_MAX_LIBRARY_VERSION_STRING];
		int length;

		MPI_Get_library_version(version, &length);
		printf("library %.*s\n", (int)strcspn(version, "\n,"), version);
		report_providers();
	}
	report_placement(rank);
}

#endif
